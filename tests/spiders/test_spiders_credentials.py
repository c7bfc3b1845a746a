"""Credentials in headers, cookies and passwords: to whom they go, and where they leave no trace."""

from pathlib import Path

import pytest

from almanac.core.load import load_declaration
from almanac.schemas.declaration.credentials import REVEALED
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.errors import DeclarationError
from almanac.spiders.crawling.crawl import crawl_site
from almanac.spiders.crawling.middlewares import may_see_credentials
from almanac.spiders.store.raw import RawStore
from tests.spiders.hosts import ReceivedRequest, Serve, probe

_SECRETS = {
    "headers": {"X-Api-Key": "key-3141"},
    "cookies": {"session": "cookie-5926", "lang": "vi"},
    "auth": {"user": "ann", "password": "pass-5358"},
}


def _has_all_credentials(request: ReceivedRequest) -> bool:
    return (
        request.headers.get("x-api-key") == "key-3141"
        and request.headers.get("cookie") == "session=cookie-5926; lang=vi"
        and "authorization" in request.headers
    )


def _has_any_credential(request: ReceivedRequest) -> bool:
    return bool({"x-api-key", "cookie", "authorization"} & request.headers.keys())


@pytest.mark.slow
def test_credentials_go_to_the_declared_hosts_and_nowhere_else(serve: Serve, tmp_path: Path) -> None:
    """Neither with a redirect of a page or of robots.txt, nor to another port of the host; a retry and a redirect at
    home keep them.
    """
    own, other, port = serve("127.0.0.1"), serve("127.0.0.2"), serve("127.0.0.1")
    own.gives("/robots.txt", 302, Location=f"{other.base}/robots.txt")
    own.gives("/page", 500, 200)
    own.gives("/moved", 301, Location="/page")
    own.gives("/port", 302, Location=f"{port.base}/x")
    port.gives("/x")
    done = probe(
        tmp_path,
        f"{own.base}/page",
        f"{own.base}/moved",
        f"{own.base}/port",
        f"{other.base}/direct",
        politeness=_SECRETS,
        settings={"LOG_LEVEL": "DEBUG"},
    )
    assert own.requests and all(_has_all_credentials(request) for request in own.requests)
    assert other.paths() and port.paths() == ["/robots.txt", "/x"]
    assert not any(_has_any_credential(request) for request in [*other.requests, *port.requests])
    assert done.pages[f"{own.base}/port"]["status"] == 200
    assert "/page" in done.stderr and not any(
        secret in done.stderr for secret in ("key-3141", "cookie-5926", "pass-5358", "YW5uOnBhc3M")
    )
    assert own.requests[0].headers["authorization"] == "Basic YW5uOnBhc3MtNTM1OA=="


@pytest.mark.slow
def test_a_crawl_behind_a_password_leaves_no_trace_of_it(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even while it goes on, should it be killed."""
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(jobs))
    host = serve()
    host.gives("/")
    source = SiteSource.model_validate(
        {
            "name": "s",
            "kind": "site",
            "start_urls": [f"{host.base}/"],
            "politeness": {**_SECRETS, "allow_private": True},
        }
    )
    left: list[Path] = []
    outcome = crawl_site(source, RawStore(tmp_path), "r1", on_page=lambda *_: left.extend(jobs.iterdir()))
    assert left == [] and outcome.pages.fetched == 1 and all(_has_all_credentials(request) for request in host.requests)
    written = (
        b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        + outcome.model_dump_json().encode()
    )
    assert written and not any(
        secret in written for secret in (b"key-3141", b"cookie-5926", b"pass-5358", b"YW5uOnBhc3M")
    )


@pytest.mark.parametrize(
    ("start", "url", "may"),
    [
        ("https://a.test/", "https://a.test/x", True),
        ("https://a.test/", "http://a.test/x", False),
        ("http://a.test/", "http://a.test/x", True),
        ("http://a.test/", "https://a.test/x", True),
        ("https://a.test:8443/", "https://a.test:8443/x", True),
        ("https://a.test/", "https://a.test:8443/x", False),
        ("https://a.test/", "https://b.test/x", True),
        ("https://a.test/", "http://b.test/x", False),
        ("https://a.test/", "https://c.test/x", False),
        ("https://a.test/", "https://a.test.evil.test/", False),
    ],
)
def test_who_may_see_credentials(start: str, url: str, *, may: bool) -> None:
    source = SiteSource.model_validate(
        {"name": "s", "kind": "site", "start_urls": [start], "allowed_domains": ["a.test", "b.test"]}
    )
    assert may_see_credentials(source, url) is may


def test_secrets_are_masked_wherever_a_declaration_is_written() -> None:
    first, second = (_with_password(password) for password in ("pass-5358", "another"))
    for written in (
        repr(first),
        str(first.model_dump()),
        first.model_dump_json(),
        first.model_dump_json(by_alias=True, exclude_defaults=True),
    ):
        assert not any(secret in written for secret in ("key-3141", "cookie-5926", "pass-5358", "ann"))
    assert first.model_dump_json() == second.model_dump_json()
    revealed = first.model_dump(by_alias=True, mode="json", exclude_defaults=True, context=REVEALED)
    assert SiteSource.model_validate(revealed) == first != second


def _with_password(password: str) -> SiteSource:
    manners = {**_SECRETS, "auth": {"user": "ann", "password": password}}
    return SiteSource.model_validate(
        {"name": "s", "kind": "site", "start_urls": ["https://shop.test/"], "politeness": manners}
    )


@pytest.mark.parametrize(
    ("manners", "message"),
    [
        ('headers: {X-Key: "s3cret\\r\\nHost: evil"}', "line break"),
        ("headers: {X-Key: [s3cret]}", "must be a text"),
        ("headers: {X-Key: 5.3cret, host: s3cret}", "host is set by the crawl itself"),
        ("headers: {'X Key': s3cret}", "pattern"),
        ("headers: {Cookie: s3cret}", "politeness.cookies"),
        ("headers: {Authorization: s3cret}, auth: {user: u, password: s3cret}", "keep one"),
        ("headers: {X-A: s3cret, x-a: s3cret}", "twice"),
        ("cookies: {a: 's3cret; b=c'}", "semicolon"),
        ("cookies: {'a=b': s3cret}", "pattern"),
        ("auth: {user: 's3cret:x', password: s3cret}", "colon"),
        ("auth: {user: u, password: 3.1415}", "must be a text"),
        ("auth: {user: u, passwort: s3cret}", "unknown key"),
    ],
)
def test_credentials_that_cannot_be_sent_are_errors_that_show_no_value(
    tmp_path: Path, manners: str, message: str
) -> None:
    declared = tmp_path / "kb.yaml"
    declared.write_text(
        f"name: kb\nsources:\n  - {{name: s, kind: site, start_urls: ['https://shop.test/'], politeness: "
        f"{{{manners}}}}}\n"
    )
    with pytest.raises(DeclarationError) as caught:
        load_declaration(str(declared))
    assert message in caught.value.message
    written = f"{caught.value} {caught.value.__cause__} {caught.value.__cause__!r}"
    assert "s3cret" not in written and "3.1415" not in written


def test_a_url_with_a_password_is_refused_without_showing_it(tmp_path: Path) -> None:
    declared = tmp_path / "kb.yaml"
    declared.write_text(
        "name: kb\nsources:\n  - {name: s, kind: site, start_urls: ['https://ann:s3cret@shop.test/']}\n"
    )
    with pytest.raises(DeclarationError, match=r"politeness: \{auth:") as caught:
        load_declaration(str(declared))
    assert "s3cret" not in f"{caught.value} {caught.value.__cause__}"
