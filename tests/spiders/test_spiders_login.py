"""Sites behind a form: who is let in, what is fetched again where a session ends, and what is kept of it all."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from almanac.core.extras import missing_package
from almanac.core.load import load_declaration
from almanac.schemas.declaration.credentials import REVEALED
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.errors import CredentialRefused, DeclarationError, Unreachable
from almanac.spiders.crawling.chromium import find_chromium
from almanac.spiders.crawling.crawl import fetch_site
from almanac.spiders.crawling.previous_crawls import PreviousCrawls
from almanac.spiders.crawling.requester_fingerprint import requester_fingerprint
from almanac.spiders.mapping.inspect_url import inspect_url
from almanac.spiders.store.raw import RawStore
from tests.loopback.members import PASSWORD, USER, Members, members_site

_FIELDS = '<input name="user"><input name="password">'


@pytest.fixture
def site() -> Iterator[Members]:
    with members_site() as members:
        names = [f"/m/{number}" for number in range(12)]
        members.pages["/"] = "".join(f'<a href="{name}">{name}</a>' for name in names)
        members.pages |= {name: f"<h1>Minutes {name}</h1><p>What was decided.</p>" for name in names}
        yield members


def _source(base: str, **keys: Any) -> SiteSource:
    login = {"url": f"{base}/login", "form": {"user": USER, "password": PASSWORD}, "check": {"css": "a.out"}}
    declared = {
        "name": "s",
        "kind": "site",
        "start_urls": [f"{base}/"],
        "login": login,
        "match": "/m/",
        "follow": {"deny": ["/logout"]},
        "politeness": {"allow_private": True},
    }
    return SiteSource.model_validate({**declared, **keys})


def _stored(source: SiteSource, folder: Path, run_id: str = "r1") -> dict[str, str]:
    outcome = fetch_site(source, RawStore(folder), run_id)
    assert outcome.failures == []
    pages = RawStore(folder).pages(run_id)
    return {page.url.removeprefix(source.start_urls[0][:-1]): page.body.decode() for page in pages}


def test_a_crawl_logs_in_by_the_form_before_its_first_page(site: Members, tmp_path: Path) -> None:
    """With the form's own fields; robots.txt forbids crawlers the page, and the form in front is another."""
    stored = _stored(_source(site.base), tmp_path)
    assert stored.keys() == site.pages.keys() and all("Log out" in body for body in stored.values())
    (sent,) = site.sent
    assert sent.keys() == {"token", "user", "password", "stay", "do"} and sent["do"] == ["login"]
    assert site.logins == 1 and site.requests["/login"] == 1 and site.requests["/m/3"] == 1


@pytest.mark.parametrize("refuses", ["form", "redirect", "unauthorized"])
@pytest.mark.parametrize("lasts", [3, 7])
def test_a_session_that_ends_in_the_middle_begins_anew(site: Members, tmp_path: Path, refuses: Any, lasts: int) -> None:
    site.refuses, site.lasts = refuses, lasts
    stored = _stored(_source(site.base), tmp_path)
    assert stored.keys() == site.pages.keys() and all("Log out" in body for body in stored.values())
    assert site.logins > 1


@pytest.mark.parametrize("refuses", ["form", "redirect", "unauthorized"])
def test_a_wrong_password_ends_the_crawl_before_its_first_page(site: Members, tmp_path: Path, refuses: Any) -> None:
    site.refuses, site.accepts = refuses, lambda: False
    with pytest.raises(CredentialRefused, match=r"source s: login: the form of .*/login was sent") as caught:
        fetch_site(_source(site.base), RawStore(tmp_path), "r1")
    assert "a.out" in str(caught.value) and "login.form" in str(caught.value.hint)
    assert USER not in str(caught.value) and list(RawStore(tmp_path).pages("r1")) == [] and len(site.sent) == 1


def test_a_login_that_is_refused_in_the_middle_ends_the_crawl(site: Members, tmp_path: Path) -> None:
    """And what was fetched by then has no page of the form."""
    site.lasts, site.accepts = 5, lambda: site.logins == 0
    with pytest.raises(CredentialRefused, match="login"):
        fetch_site(_source(site.base), RawStore(tmp_path), "r1")
    assert all("Log out" in page.body.decode() for page in RawStore(tmp_path).pages("r1"))


def test_a_page_that_never_shows_that_somebody_is_logged_in_ends_the_crawl(site: Members, tmp_path: Path) -> None:
    site.bare = {"/m/3"}
    with pytest.raises(CredentialRefused, match=r"/m/3 does not show css=?.*a\.out") as caught:
        fetch_site(_source(site.base), RawStore(tmp_path), "r1")
    assert "follow: {deny: […]}" in str(caught.value.hint) and site.logins == 2 and site.requests["/m/3"] == 2


def test_pages_that_yield_no_items_need_not_show_it(site: Members, tmp_path: Path) -> None:
    site.bare = {"/", "/m/3"}
    site.lands_at = "/m/1"
    assert _stored(_source(site.base, match="/m/1"), tmp_path).keys() == site.pages.keys()
    assert site.logins == 1


def test_pages_that_a_user_may_not_see_have_failed(site: Members, tmp_path: Path) -> None:
    """Whatever they are; a few are tried anew."""
    site.forbidden = {f"/m/{number}" for number in range(9)}
    outcome = fetch_site(
        _source(
            site.base,
        ),
        RawStore(tmp_path),
        "r1",
    )
    assert {failure.status for failure in outcome.failures} == {403} and outcome.pages.failed == 9
    assert outcome.pages.fetched == 4 and 1 < site.logins < 6


def test_declared_cookies_go_along(site: Members, tmp_path: Path) -> None:
    manners = {"allow_private": True, "cookies": {"lang": "vi"}}
    assert "/m/3" in _stored(_source(site.base, politeness=manners), tmp_path)
    assert all("lang=vi" in cookie for cookie in site.got) and any("session=" in cookie for cookie in site.got)


def test_the_page_after_the_form_may_be_the_first_to_show_it(site: Members, tmp_path: Path) -> None:
    site.pages |= {"/welcome": "<p>Hello</p>"}
    site.bare, site.lands_at = {"/welcome"}, "/welcome"
    assert "/m/3" in _stored(_source(site.base), tmp_path)


def test_no_trace_of_a_login_is_left(site: Members, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither in files nor in what is written to the terminal, whether it succeeds or not."""
    site.lasts = 7
    outcome = fetch_site(_source(site.base), RawStore(tmp_path), "r1")
    site.accepts = lambda: False
    with pytest.raises(CredentialRefused) as caught:
        fetch_site(_source(site.base), RawStore(tmp_path), "r2")
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    files += [gzip.decompress(body) for body in files if body.startswith(b"\x1f\x8b")]
    captured = capfd.readouterr()
    written = b"".join(files).decode("utf-8", "replace") + outcome.model_dump_json() + captured.out + captured.err
    secrets = [USER, PASSWORD, *site.cookies]
    assert "Minutes" in written and len(site.cookies) > 3
    assert not any(secret in written + str(caught.value) + repr(caught.value) for secret in secrets)


def test_unchanged_pages_are_not_sent_again(site: Members, tmp_path: Path) -> None:
    raw, source = RawStore(tmp_path), _source(site.base)
    fetch_site(source, raw, "r1")
    again = fetch_site(source, raw, "r2", previous=PreviousCrawls(concluded="r1"))
    assert (again.pages.unchanged, again.pages.fetched, site.logins) == (13, 0, 2)


def test_another_user_is_another_requester(site: Members) -> None:
    ann, bob = _source(site.base), _source(site.base, login={**_login(site), "form": {"user": "bob", "password": "x"}})
    prints = [requester_fingerprint(source) for source in (ann, bob, _source(site.base, login=None))]
    assert len(set(prints)) == 3 and requester_fingerprint(_source(site.base)) == prints[0]
    for written in (repr(ann), str(ann.model_dump()), ann.model_dump_json()):
        assert USER not in written and PASSWORD not in written
    dumped = ann.model_dump(by_alias=True, mode="json", exclude_defaults=True, context=REVEALED)
    assert SiteSource.model_validate(dumped) == ann


def test_a_single_page_is_tried_as_the_user(site: Members) -> None:
    report = inspect_url(_source(site.base), f"{site.base}/m/3", "en")
    assert report.status == 200 and "What was decided" in str(report.items[0].draft)
    site.accepts = lambda: False
    with pytest.raises(CredentialRefused):
        inspect_url(_source(site.base), f"{site.base}/m/3", "en")


@pytest.mark.parametrize(
    ("keys", "form", "message"),
    [
        ({"form": {"login": USER, "password": "x"}}, None, "without a form that has the fields login, password; its"),
        ({}, f'<form method="post" action="https://evil.test/">{_FIELDS}</form>', "by POST to https://evil.test/"),
        ({}, f'<form action="/session">{_FIELDS}</form>', "by GET to"),
        ({"check": {"css": "h1"}}, None, "shows css.*h1.* before anybody has logged in"),
    ],
)  # fmt: skip
def test_a_form_that_cannot_be_sent_is_told(
    site: Members, tmp_path: Path, keys: dict[str, Any], form: str | None, message: str
) -> None:
    site.form = form or site.form
    with pytest.raises(CredentialRefused, match=message):
        fetch_site(_source(site.base, login={**_login(site), **keys}), RawStore(tmp_path), "r1")
    assert site.sent == []


def test_cookies_of_a_session_go_to_no_other_host(site: Members, tmp_path: Path) -> None:
    with members_site() as other:
        other.pages["/robots.txt"] = ""
        site.lands_at = f"{other.base}/"
        with pytest.raises(CredentialRefused, match="off_site"):
            fetch_site(_source(site.base), RawStore(tmp_path), "r1")
        assert not other.requests


def test_a_login_that_does_not_answer_is_tried_again_by_the_run(site: Members, tmp_path: Path) -> None:
    with members_site() as other:
        gone = other.base
    source = _source(site.base, login={**_login(site), "url": f"{gone}/login"})
    with pytest.raises(Unreachable, match=r"/login: unreachable"):
        fetch_site(source, RawStore(tmp_path), "r1")


@pytest.mark.parametrize(
    ("login", "message"),
    [
        ("{url: https://other.test/in, form: {u: s3cret}, check: a}", "login.url: is on none of the source's hosts"),
        ("{url: http://shop.test/in, form: {u: s3cret}, check: a}", "login.url: must be https"),
        ("{url: https://shop.test/in, form: {}, check: a}", "login.form"),
        ("{url: https://shop.test/in, form: {u: s3cret}, check: {json: a}}", "login.check: takes css or xpath"),
        ("{url: https://shop.test/in, form: {u: [s3cret]}, check: a}", "its value is not shown"),
        ("{url: https://shop.test/in, form: {u: s3cret}}", "login.check: is required"),
        ("{url: https://shop.test/in, form: {u: s3cret}, check: a, submit: b}", "unknown key"),
    ],
)
def test_what_is_declared_wrongly_is_told_with_its_line_and_no_value(tmp_path: Path, login: str, message: str) -> None:
    declared = tmp_path / "kb.yaml"
    declared.write_text(
        f"name: kb\nsources:\n  - name: s\n    kind: site\n    start_urls: ['https://shop.test/']\n    login: {login}\n"
    )
    with pytest.raises(DeclarationError) as caught:
        load_declaration(str(declared))
    assert message in caught.value.message and "kb.yaml:6" in str(caught.value)
    assert "s3cret" not in f"{caught.value} {caught.value.__cause__!r}"


def test_what_is_published_is_read_without_the_variables_of_a_login(tmp_path: Path) -> None:
    declared = tmp_path / "kb.yaml"
    declared.write_text(
        "name: kb\nsources:\n  - name: s\n    kind: site\n    start_urls: ['https://shop.test/']\n    login: "
        "{url: '${THE_DOOR}', form: {user: '${ITS_USER}', password: '${ITS_KEY}'}, check: a}\n"
    )
    assert load_declaration(str(declared), to_read=True).name == "kb"
    with pytest.raises(DeclarationError, match="THE_DOOR"):
        load_declaration(str(declared))


def _login(site: Members) -> dict[str, Any]:
    return {"url": f"{site.base}/login", "form": {"user": USER, "password": PASSWORD}, "check": {"css": "a.out"}}


@pytest.mark.slow
@pytest.mark.xdist_group("drawing")  # one browser at a time
@pytest.mark.skipif(missing_package("render") is not None or not find_chromium(), reason="pages are drawn by Chromium")
@pytest.mark.parametrize("refuses", ["form", "redirect", "script"])
def test_pages_that_a_browser_draws_are_drawn_for_the_user(site: Members, tmp_path: Path, refuses: Any) -> None:
    """With what their scripts ask for."""
    asks = "<p id=x></p><script>fetch('/data').then(got => got.text()).then(text => x.textContent = text)</script>"
    names = ["/m/1", "/m/2", "/m/3"]
    site.pages = {"/": "".join(f'<a href="{name}">{name}</a>' for name in names), **dict.fromkeys(names, asks)}
    site.pages["/data"] = "For members"
    site.refuses, site.lasts = refuses, 4
    render = {"wait_for": "css=main p, main a", "timeout_s": 3}
    stored = _stored(_source(site.base, render=render), tmp_path)
    assert all("Log out" in body for body in stored.values()) and site.logins > 1
    assert any("For members" in body for body in stored.values())


@pytest.mark.slow
@pytest.mark.xdist_group("drawing")
@pytest.mark.skipif(missing_package("render") is not None or not find_chromium(), reason="pages are drawn by Chromium")
def test_pages_are_drawn_for_who_has_logged_in_with_a_browser(site: Members, tmp_path: Path) -> None:
    """With the cookies and the local storage of the file, which is copied nowhere, and is no other user's."""
    site.left = {"kept-1618": 100}
    site.pages["/"] = "<p id=x></p><script>x.textContent = 'stored ' + localStorage.getItem('theme')</script>"
    state = tmp_path / "state.json"
    cookie = {"name": "session", "value": "kept-1618", "domain": "127.0.0.1", "path": "/", "httpOnly": True}
    others = {**cookie, "domain": "other.test", "value": "kept-3398"}
    local = [{"origin": site.base, "localStorage": [{"name": "theme", "value": "dark-2718"}]}]
    state.write_text(json.dumps({"cookies": [cookie, others], "origins": local}))
    render = {"wait_for": "css=main p", "timeout_s": 5, "storage_state": str(state)}
    source, raw = _source(site.base, login=None, render=render), tmp_path / "raw"
    assert "stored dark-2718" in _stored(source, raw)["/"]
    assert any("kept-1618" in got for got in site.got) and not any("kept-3398" in got for got in site.got)
    files = [path.read_bytes() for path in raw.rglob("*") if path.is_file()]
    files += [gzip.decompress(content) for content in files if content.startswith(b"\x1f\x8b")]
    assert files and not any(b"kept-1618" in content for content in files)
    before = requester_fingerprint(source)
    state.write_text(json.dumps({"cookies": []}))
    assert requester_fingerprint(source) != before


@pytest.mark.parametrize("content", [None, "[]", '{"cookies": [{"name": "s3cret"}]}', "s3cret"])
def test_a_storage_state_that_is_none_ends_the_crawl_before_it_begins(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "state.json").write_text(content)
    (tmp_path / "kb.yaml").write_text(
        "name: kb\nsources:\n  - name: s\n    kind: site\n    start_urls: ['https://shop.test/']\n"
        "    render: {storage_state: state.json}\n"
    )
    source = load_declaration(str(tmp_path / "kb.yaml")).sources[0]
    assert isinstance(source, SiteSource)
    with pytest.raises(CredentialRefused, match=r"render.storage_state: .*/state\.json") as caught:
        requester_fingerprint(source)
    assert "playwright codegen" in str(caught.value.hint) and "s3cret" not in f"{caught.value!r} {caught.value}"
