"""Links of a page: which are followed, and that broken ones cost no others."""

from typing import Any

import pytest

from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.items import Page
from almanac.spiders.reading.content import Content
from almanac.spiders.selecting.links import Link, UrlPolicy, describe_unfollowed


def links(body: str, **keys: Any) -> list[Link]:
    policy = UrlPolicy(
        SiteSource.model_validate({"name": "s", "kind": "site", "start_urls": ["http://x.test/"], **keys})
    )
    return policy.links(Content(Page(url="http://x.test/d/p", body=body.encode(), content_type="text/html")))


def urls(body: str, **keys: Any) -> list[str]:
    return [link.url.removeprefix("http://x.test") for link in links(body, **keys)]


def test_links_are_absolute_canonical_and_once_each() -> None:
    assert urls("<a href=' q#x '>1</a><a href='./q'>2</a><area href='//x.test/r'><a href='/é?b=1&amp;a=2'>3</a>") == [
        "/d/q",
        "/r",
        "/%C3%A9?b=1&a=2",
    ]


def test_broken_links_cost_no_others() -> None:
    head = "<base href='http://[::bad'><meta http-equiv=refresh content='0;url=http://[x'>"
    assert urls(head + "<a href='http://[bad'>1</a><a href='javascript:x()'>2</a><a href='/ok'>3</a>") == ["/ok"]


@pytest.mark.parametrize(
    ("href", "url"),
    [
        (r"\a\b", "/a/b"),
        (r"..\e\f", "/e/f"),
        (r"g\h?q=\#\\", "/d/g/h?q=%5C"),
        (r"\\x.test\r", "/r"),
        (r"/\x.test/s", "/s"),
        (r"\/x.test/t", "/t"),
        (r"http:\\x.test\u", "/u"),
        (r"HTTP:/\x.test/v", "/v"),
        ("///x.test/w", "/w"),
        (r"http://x.test\@y.test/z", "/@y.test/z"),
    ],
)
def test_backslashes_are_read_as_browsers_do(href: str, url: str) -> None:
    assert urls(f"<a href='{href}'>1</a>") == [url]


def test_backslashes_lead_to_no_other_host() -> None:
    assert (
        urls(
            r"<a href='http://y.test\@x.test/'>1</a><a href='\\y.test\a'>2</a><a href='javascript:\\x.test'>3</a>"
            r"<a href='c:\a'>4</a>"
        )
        == []
    )


def test_base_and_refresh_are_heeded() -> None:
    assert urls("<base href='/other/'><meta http-equiv='refresh' content='0; url=/moved'><a href='a'>1</a>") == [
        "/other/a",
        "/moved",
    ]


def test_frames_are_links() -> None:
    """Within the source's hosts; also what a page of frames has for browsers without them."""
    instead = "<noframes><body><p>No frames. <a href='plain.html'>Plain</a></p></body></noframes>"
    frames = (
        "<FRAMESET cols='20%,*'><FRAME SRC='nav.html'><FRAMESET rows=50%><frame src=' /m/a b.html#x '><frame "
        "src='//y.test/ad'></FRAMESET>"
    )
    assert urls(f"<html>{frames}{instead}</FRAMESET></html>") == ["/d/nav.html", "/m/a%20b.html", "/d/plain.html"]
    inner = (
        "<iframe src='inner.html' loading=lazy>no frame</iframe><iframe src='about:blank'></iframe><iframe "
        "src='javascript:x()'></iframe><iframe></iframe>"
    )
    assert urls(f"<p>Text</p>{inner}<iframe src='https://video.test/1'></iframe><a href=z>z</a>") == [
        "/d/inner.html",
        "/d/z",
    ]
    assert urls(f"<p>Text</p>{inner}", listing={"match": "/list", "each": {"css": "li"}, "link": {"css": "a"}}) == []
    page = Page(
        url="http://x.test/", body=f"<html>{frames}{instead}</FRAMESET></html>".encode(), content_type="text/html"
    )
    assert " ".join("".join(Content(page).selector.xpath("//text()").getall()).split()) == "No frames. Plain"


def test_files_and_other_hosts_are_not_followed() -> None:
    assert urls("<a href='/a.PDF'>1</a><a href='http://y.test/'>2</a><a href='http://sub.x.test/'>3</a>") == [
        "http://sub.x.test/"
    ]


def test_deny_wins_over_cards_and_pagination() -> None:
    listing = {"match": "/d/", "each": {"css": "li"}, "link": {"css": "a"}}
    body = (
        "<li><a href=/i/1>1</a></li><li><a href=/i/login>2</a></li><li>no link</li><p class=next><a href='?p=2'>"
        "n</a></p>"
    )
    page_links = links(body, listing=listing, pagination={"next": {"css": ".next"}}, follow={"deny": ["login"]})
    assert page_links == [Link("http://x.test/i/1", "detail"), Link("http://x.test/d/p?p=2", "next")]


def test_what_is_denied_in_another_script_is_not_followed() -> None:
    assert urls(
        "<a href='/пароль'>1</a><a href='/%D0%BF%D0%B0%D1%80%D0%BE%D0%BB%D1%8C/2'>2</a><a href='/вход'>3</a>",
        follow={"deny": ["/пароль"]},
    ) == ["/%D0%B2%D1%85%D0%BE%D0%B4"]


@pytest.mark.parametrize(
    ("header", "stated"),
    [
        ('</c>; rel="canonical"', "/c"),
        ("<c?a=1,2>;rel=canonical", "/d/c?a=1,2"),
        ('</n>; rel="next", <http://x.test/é>; title="a, b; c"; REL="Canonical nofollow"', "/%C3%A9"),
        ('</c>; rel="canonical", </c#x>; rel="canonical"', "/c"),
        ('</c>; rel="canonical", </e>; rel="canonical"', None),
        ('</c>; rel="canonical"; anchor="/other"', None),
        ('</c>; rel="canonicals"', None),
        ('</c>; rel="canonical', None),
        ("<javascript:x>; rel=canonical", None),
        ('<http://[bad>; rel="canonical"', None),
        ("", None),
    ],
)
def test_a_link_header_states_the_right_address(header: str, stated: str | None) -> None:
    policy = UrlPolicy(SiteSource.model_validate({"name": "s", "kind": "site", "start_urls": ["http://x.test/"]}))
    assert policy.linked_address(header, "http://x.test/d/p") == (stated and f"http://x.test{stated}")


def test_stray_nul_neither_changes_the_encoding_nor_ends_the_page() -> None:
    assert urls("<p>\0</p><a href='/after'>x</a>") == ["/after"]


_CARDS = {"match": "/d/", "each": {"css": "li"}, "link": {"css": "a"}}


@pytest.mark.parametrize(
    ("keys", "declared"),
    [
        ({"listing": _CARDS}, "`listing` is declared"),
        ({"pagination": {"next": {"css": ".next"}}}, "`pagination` is declared"),
        ({"listing": _CARDS, "pagination": {"parameter": "page"}}, "`listing` and `pagination` are declared"),
    ],
)
def test_links_that_a_declared_listing_or_pagination_leaves_are_known(keys: dict[str, Any], declared: str) -> None:
    body = (
        "<a href=/a>1</a><a href=/a#x>1</a><a href=/b.pdf>2</a><a href=//y.test/>3</a><a href=/login>4</a><a "
        "href=mailto:x@y.z>5</a><a href=/c>6</a>"
    )
    page = Content(Page(url="http://x.test/d/p", body=body.encode(), content_type="text/html"))
    shop = {"name": "s", "kind": "site", "start_urls": ["http://x.test/"], **keys}
    source = SiteSource.model_validate({**shop, "follow": {"deny": ["login"]}})
    assert UrlPolicy(source).unfollowed(page) == {"http://x.test/a", "http://x.test/c"}
    further = ", and `match` for pages that no card leads to" if "listing" in keys else ""
    assert (
        describe_unfollowed(source, 2)
        == f"2 links on start pages were not followed: {declared}; add `follow.allow`{further}"
    )
    assert (
        describe_unfollowed(source, 1, "on this page")
        == f"1 link on this page was not followed: {declared}; add `follow.allow`{further}"
    )
    assert describe_unfollowed(source, 0) is None
    free = SiteSource.model_validate({**shop, "follow": {"allow": ["/a"]}})
    assert UrlPolicy(free).unfollowed(page) == set()
    assert describe_unfollowed(free, 2) is None
