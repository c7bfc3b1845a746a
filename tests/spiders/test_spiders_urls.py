"""Canonical URLs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from almanac.spiders.selecting.urls import canonical_url, is_loopback, is_on_domains, url_matcher


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("HTTP://Example.ORG:80/a/./b/../c#part", "http://example.org/a/c"),
        ("https://example.org:443", "https://example.org/"),
        ("https://example.org:8443/", "https://example.org:8443/"),
        ("http://x.test/%7euser/%e9?q=a%20b", "http://x.test/~user/%E9?q=a%20b"),
        ("http://x.test/caf\u00e9?b=2&a=1&utm_source=x&sort=up", "http://x.test/caf%C3%A9?b=2&a=1"),
        ("http://x.test/a/?sort=up", "http://x.test/a/"),
        ("http://x.test/a", "http://x.test/a"),
        ("http://x.test/%2e%2e/a", "http://x.test/a"),
        ("http://bücher.test/", "http://xn--bcher-kva.test/"),
        ("http://[::1]:80/", "http://[::1]/"),
    ],
)
def test_spellings_of_one_page_are_one_url(url: str, canonical: str) -> None:
    assert canonical_url(url, ["utm_*", "sort"]) == canonical


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])), st.text())
def test_canonical_urls_stay_as_they_are(path: str, query: str) -> None:
    once = canonical_url(f"http://x.test/{path}?{query}", ["utm_*"])
    assert canonical_url(once, ["utm_*"]) == once


@given(st.lists(st.sampled_from(["..", ".", "a", "%2e", "%", "%4", "%41", "//", "é"])))
def test_dots_and_escapes_settle_at_once(parts: list[str]) -> None:
    once = canonical_url("http://x.test/" + "/".join(parts))
    assert canonical_url(once) == once


@pytest.mark.parametrize(
    "url", ["mailto:a@b.test", "javascript:void(0)", "/relative", "http://", "http://x.test:port/"]
)
def test_what_is_no_web_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        canonical_url(url)


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/კატალოგი$", "/კატალოგი", True),
        ("/кат[а-я]+/", "/каталог/1", True),
        ("日本", "/日本語?ページ=2", True),
        ("ページ=\\d", "/日本語?ページ=2", True),
        ("%E6%97%A5", "/日本語", True),
        ("/%E6%97%A5本", "/日本語", False),  # neither as people read it nor as it is sent
        ("/a b", "/a%20b", False),  # only letters are decoded: what separates in a URL keeps its escape
        ("caf%E9", "/caf%E9", True),  # not UTF-8
        ("^http://x.test/\\w+$", "/straße", True),
    ],
)
def test_patterns_match_urls_as_they_are_read_and_as_they_are_sent(pattern: str, path: str, *, matches: bool) -> None:
    assert url_matcher(pattern)(canonical_url(f"http://x.test{path}")) is matches


def test_hosts_are_told_apart_by_name() -> None:
    assert is_on_domains("http://www.x.test/", ["x.test"]) and not is_on_domains("http://notx.test/", ["x.test"])
    assert (
        is_loopback("127.0.0.5") and is_loopback("[::1]") and is_loopback("localhost") and not is_loopback("10.0.0.1")
    )
