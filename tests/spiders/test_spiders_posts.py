"""APIs that take POST, and those that want a token: what is asked for, where it ends, what is kept of it."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from almanac.core.load import load_declaration
from almanac.schemas.declaration.credentials import REVEALED
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.errors import CredentialRefused, DeclarationError, Unreachable
from almanac.spiders.crawling.crawl import fetch_site
from almanac.spiders.crawling.previous_crawls import PreviousCrawls
from almanac.spiders.crawling.requester_fingerprint import requester_fingerprint
from almanac.spiders.crawling.reuse import reusable_crawl
from almanac.spiders.mapping.inspect_url import inspect_url
from almanac.spiders.mapping.pages import map_pages
from almanac.spiders.store.raw import RawStore
from tests.loopback.posts import CLIENT, KEY, SECRET, Posts, posts_api

_NUMBERS = {"json": {"key": KEY, "filter": {"kind": "desk"}, "page": 1}}
_GRAPH = {"json": {"query": "query($after: String) { lamps(after: $after) { id } }", "variables": {"after": None}}}
_INFO = "data.lamps.pageInfo"


@pytest.fixture
def api() -> Iterator[Posts]:
    with posts_api() as posts:
        posts.lamps = [{"id": f"L{n}", "kind": "desk" if n % 2 else "wall"} for n in range(14)]
        yield posts


def _source(api: Posts, **keys: Any) -> SiteSource:
    manners = {"allow_private": True, **keys.pop("politeness", {})}
    declared = {
        "name": "s",
        "kind": "site",
        "start_urls": [f"{api.base}/search"],
        "request": _NUMBERS,
        "pagination": {"parameter": "page"},
        "each": {"json": "hits[]"},
        "yields": "records",
        "id": "{id}",
        "fields": {"id": {"json": "id"}},
    }
    return SiteSource.model_validate({**declared, "politeness": manners, **keys})


def _ids(source: SiteSource, folder: Path) -> list[str]:
    raw = RawStore(folder)
    outcome = fetch_site(source, raw, "r1")
    assert outcome.failures == []
    return [draft.document_id for extraction in map_pages(raw.pages("r1"), source, "en") for draft in extraction.drafts]


def test_numbers_in_a_body_are_counted_until_a_page_adds_nothing(api: Posts, tmp_path: Path) -> None:
    assert sorted(_ids(_source(api), tmp_path)) == [f"L{n}" for n in (1, 11, 13, 3, 5, 7, 9)]
    assert [body["page"] for _, body in api.sent] == [1, 2, 3, 4]
    assert {path for path, _ in api.sent} == {"/search"} and all(body["key"] == KEY for _, body in api.sent)
    urls = [page.url.removeprefix(api.base) for page in RawStore(tmp_path).pages("r1")]
    assert urls == ["/search", "/search?page=2", "/search?page=3"]


def test_offsets_and_the_values_of_start_urls_go_into_the_body(api: Posts, tmp_path: Path) -> None:
    starts = [f"{api.base}/search?filter.kind={kind}&lang=en" for kind in ("desk", "wall")]
    body = {"json": {"filter": {"kind": "any"}, "from": 0}}
    pagination = {"parameter": "from", "first": 0, "step": 3}
    assert len(_ids(_source(api, start_urls=starts, request=body, pagination=pagination), tmp_path)) == 14
    assert {path for path, _ in api.sent} == {"/search?lang=en"}
    requests = {(body["filter"]["kind"], body["from"]) for _, body in api.sent}
    assert requests == {(kind, first) for kind in ("desk", "wall") for first in (0, 3, 6, 9)}


def test_a_cursor_of_the_answer_goes_into_the_next_body(api: Posts, tmp_path: Path) -> None:
    pagination = {"json": f"{_INFO}.hasNextPage && {_INFO}.endCursor", "parameter": "variables.after"}
    source = _source(api, request=_GRAPH, pagination=pagination, each={"json": "data.lamps.nodes[]"})
    assert len(_ids(source, tmp_path)) == 14
    assert [body["variables"]["after"] for _, body in api.sent] == [None, "c/L2", "c/L5", "c/L8", "c/L11"]


def test_pages_that_did_not_change_are_unchanged_and_a_body_that_did_is_another_question(
    api: Posts, tmp_path: Path
) -> None:
    raw, source = RawStore(tmp_path), _source(api)
    fetch_site(source, raw, "r1")
    before = PreviousCrawls(concluded="r1")
    assert reusable_crawl(source, raw, before) == "r1"
    api.lamps[1]["kind"] = "wall"
    again = fetch_site(source, raw, "r2", previous=before)
    assert (again.pages.fetched, again.pages.vanished) == (2, 1)
    others = [_source(api, request={"json": {**_NUMBERS["json"], **more}}) for more in ({"key": "x"}, {"size": 9})]
    assert all(reusable_crawl(other, raw, before) is None for other in others)
    assert len({requester_fingerprint(declared) for declared in (source, *others)}) == 3


def test_a_page_is_tried_by_its_url(api: Posts) -> None:
    report = inspect_url(_source(api), f"{api.base}/search?page=2", "en")
    assert [item.document_id for item in report.items] == ["L7", "L9", "L11"]


def _with_token(api: Posts, **keys: Any) -> SiteSource:
    oauth = {"token_url": f"{api.base}/token", "client_id": CLIENT, "client_secret": SECRET, "scope": "read", **keys}
    return _source(api, politeness={"oauth": oauth})


@pytest.mark.parametrize("lasts", [2, 3, 100])
def test_a_token_is_fetched_and_renewed_where_it_is_refused(api: Posts, tmp_path: Path, lasts: int) -> None:
    api.lasts = lasts
    assert len(_ids(_with_token(api, form={"audience": "lamps"}), tmp_path)) == 7
    form, who = api.forms[0]
    assert form == {"grant_type": ["client_credentials"], "scope": ["read"], "audience": ["lamps"]}
    assert who == "reader+one:s3cr3t-2718%26x"
    assert len(api.tokens) == -(-4 // lasts)


def test_a_token_is_renewed_before_it_expires(api: Posts, tmp_path: Path) -> None:
    api.lasts, api.expires_in = 100, 0.001
    assert len(_ids(_with_token(api, basic=False), tmp_path)) == 7
    assert len(api.tokens) >= 4
    form, who = api.forms[0]
    assert (form["client_id"], form["client_secret"], who) == ([CLIENT], [SECRET], "")


def test_a_page_that_no_token_opens_has_failed(api: Posts, tmp_path: Path) -> None:
    api.lasts = 0
    outcome = fetch_site(_with_token(api), RawStore(tmp_path), "r1")
    assert [failure.status for failure in outcome.failures] == [401] and len(api.tokens) == 2


@pytest.mark.parametrize(
    ("refuses", "kind", "message"),
    [
        ((401, {"error": "invalid_client"}), CredentialRefused, "answered 401 and gives no token: invalid_client"),
        ((200, {"error": f"no {SECRET}"}), CredentialRefused, r"answered 200 and gives no token: no \*+"),
        ((503, {}), Unreachable, "answered 503"),
    ],
)
def test_where_there_is_no_token_the_crawl_ends(
    api: Posts, tmp_path: Path, refuses: Any, kind: type[Exception], message: str
) -> None:
    api.lasts, api.refuses = 100, refuses
    with pytest.raises(kind, match=message) as caught:
        fetch_site(_with_token(api), RawStore(tmp_path), "r1")
    assert "source s: politeness.oauth" in str(caught.value) and not api.sent
    assert SECRET not in f"{caught.value} {caught.value!r}"


def test_a_key_that_an_error_repeats_is_masked(api: Posts, tmp_path: Path) -> None:
    api.error = f"the key {KEY} is unknown"
    (failure,) = fetch_site(_source(api), RawStore(tmp_path), "r1").failures
    assert failure.detail.endswith('"the key ********** is unknown"')
    assert not any(KEY in path.read_text() for path in tmp_path.rglob("*.json*"))


def test_no_trace_of_a_secret_is_left(api: Posts, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    api.lasts = 2
    source = _with_token(api)
    outcome = fetch_site(source, RawStore(tmp_path), "r1")
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    files += [gzip.decompress(body) for body in files if body.startswith(b"\x1f\x8b")]
    captured = capfd.readouterr()
    written = b"".join(files).decode("utf-8", "replace") + outcome.model_dump_json() + captured.out + captured.err
    written += repr(source) + source.model_dump_json()
    assert "L13" in written and not any(secret in written for secret in (SECRET, CLIENT, KEY, *api.tokens))
    dumped = source.model_dump(by_alias=True, mode="json", exclude_defaults=True, context=REVEALED)
    assert SiteSource.model_validate(dumped) == source


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("request: {json: {a: 1}}, pagination: {parameter: b.c}", "pagination.parameter: request.json has no b.c"),
        ("request: {json: []}", "request.json"),
        ("request: {json: {a: 1}}, render: true", "render: a browser asks for pages by GET"),
        ("politeness: {oauth: {token_url: http://a.test/, client_id: s3cret, client_secret: s3cret}}", "must be https"),
        ("politeness: {oauth: {token_url: https://a.test/, client_id: [s3cret], client_secret: x}}", "is not shown"),
        (
            "politeness: {auth: {user: s3cret, password: x}, oauth: {token_url: https://a.test/, client_id: a, "
            "client_secret: s3cret}}",
            "keep one of them",
        ),
    ],
)
def test_what_is_declared_wrongly_is_told_with_its_line_and_no_value(tmp_path: Path, keys: str, message: str) -> None:
    declared = tmp_path / "kb.yaml"
    declared.write_text(
        f"name: kb\nsources:\n  - {{name: s, kind: site, start_urls: ['https://shop.test/'],\n    {keys}}}\n"
    )
    with pytest.raises(DeclarationError) as caught:
        load_declaration(str(declared))
    assert message in caught.value.message and "kb.yaml:" in str(caught.value)
    assert "s3cret" not in f"{caught.value} {caught.value.__cause__!r}"
