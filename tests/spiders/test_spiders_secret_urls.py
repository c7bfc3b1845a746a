"""A key in a query: sent, and kept nowhere."""

import json
from pathlib import Path

import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import Project
from almanac.schemas.declaration.secret_parameters import SecretParameters
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.errors import CredentialRefused, DeclarationError
from almanac.spiders.crawling.crawl import crawl_site
from almanac.spiders.crawling.previous_crawls import PreviousCrawls
from almanac.spiders.crawling.requester_fingerprint import requester_fingerprint
from almanac.spiders.mapping.inspect_url import inspect_url
from almanac.spiders.store.raw import RawStore
from tests.spiders.conftest import Site

_KEY = "S3CR3T/4+x="


def declared(folder: Path, *urls: str, key: str = "start_urls", more: str = "") -> SiteSource:
    """The source of a declaration with these URLs, as its loading gives it."""
    project = Project(folder / "project")
    project.knowledge.mkdir(parents=True, exist_ok=True)
    listed = "\n".join(f"      - {json.dumps(url)}" for url in urls)
    manners = "    politeness: {allow_private: true, delay_s: 0}\n"
    (project.knowledge / "kb.yaml").write_text(
        f"name: kb\nsources:\n  - name: s\n    kind: site\n    {key}:\n{listed}\n{manners}{more}", "utf-8"
    )
    source = load_declaration("kb", project=project).sources[0]
    assert isinstance(source, SiteSource)
    return source


@pytest.mark.parametrize(
    ("url", "plain", "sent"),
    [
        ("https://a.test/x?key=${K}", "https://a.test/x", "https://a.test/x?key=k1"),
        (
            "https://a.test/x?p=2&key=${K}&q=7#end",
            "https://a.test/x?p=2&q=7#end",
            "https://a.test/x?p=2&q=7&key=k1#end",
        ),
        ("https://a.test/x?sig=v1-${K}.${K}", "https://a.test/x", "https://a.test/x?sig=v1-k1.k1"),
        ("https://a.test/x?${K}", "https://a.test/x", "https://a.test/x?k1"),
        ("https://a.test/x?${PAIRS}&n=1", "https://a.test/x?n=1", "https://a.test/x?n=1&a=1&key=k1"),
        ("https://a.test/x?key=${HASH}&n=1", "https://a.test/x?n=1", "https://a.test/x?n=1&key=a%23b"),
        ("${WHOLE}&n=1", "https://a.test/y?n=1", "https://a.test/y?n=1&key=k1"),
        ("https://a.test/${K}?lang=${NOT_THERE:-en}", "https://a.test/k1?lang=en", "https://a.test/k1?lang=en"),
        ("https://a.test/x?key=k1", "https://a.test/x?key=k1", "https://a.test/x?key=k1"),
    ],
)
def test_what_a_variable_fills_in_a_query_is_no_part_of_the_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, plain: str, sent: str
) -> None:
    for name, value in {"K": "k1", "PAIRS": "a=1&key=k1", "HASH": "a#b", "WHOLE": "https://a.test/y?key=k1"}.items():
        monkeypatch.setenv(name, value)
    source = declared(tmp_path, url)
    assert source.start_urls == [plain]
    assert source.secret_parameters.added(plain) == sent
    assert source.secret_parameters.without(sent) == plain
    assert (
        "k1" not in repr(source.secret_parameters) and source.model_copy().secret_parameters is source.secret_parameters
    )


def test_one_parameter_of_a_host_has_one_secret_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONE", "v-one")
    monkeypatch.setenv("TWO", "v-two")
    for second in ("${TWO}", "public"):
        with pytest.raises(
            DeclarationError, match=r"sources\[0\]\.start_urls\[1\]: a parameter of its query has another value"
        ) as refused:
            declared(tmp_path, "https://a.test/?key=${ONE}", f"https://a.test/x?key={second}")
        assert "default" in str(refused.value.hint) and not any(
            value in str(refused.value) for value in ("v-one", "v-two")
        )
    both = declared(tmp_path, "https://a.test/?key=${ONE}", "https://b.test/?key=${TWO}", "https://a.test/x?key=${ONE}")
    assert [both.secret_parameters.added(url) for url in both.start_urls] == [
        "https://a.test/?key=v-one",
        "https://b.test/?key=v-two",
        "https://a.test/x?key=v-one",
    ]
    assert both.secret_parameters.added("https://c.test/") == "https://c.test/"
    assert declared(tmp_path, "https://a.test/?c=${ONE:-x}", "https://a.test/?c=${TWO:-x}").start_urls == [
        "https://a.test/?c=v-one",
        "https://a.test/?c=v-two",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "/x?page=2&key=S3CR3T/4+x=",
        "/x?page=2&amp;key=S3CR3T%2F4%2Bx%3D&amp;z=1",
        '{"next": "\\/x?page=2\\u0026key\\u003dS3CR3T\\/4+x="}',
        '{"key": "S3CR3T/4+x="}',
        "back=%2Fx%3Fkey%3DS3CR3T%2F4%2Bx%3D%26page%3D2",
        '<input name="key" value="S3CR3T/4+x=">',
    ],
)
def test_what_a_server_repeats_is_masked(text: str) -> None:
    secrets = SecretParameters.from_revealed({"a.test": {"key": f"key={_KEY}"}})
    assert "S3CR3T" not in secrets.masked(text) and secrets.masked_bytes(text.encode()).decode() == secrets.masked(text)
    assert secrets.masked("S3CR3T of the trade, key=other") == "S3CR3T of the trade, key=other"


def test_a_key_in_a_query_is_sent_and_left_nowhere(
    loopback_site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in the journal, bodies and stats, nor in what test-url shows, also where the server repeats it in links,
    redirects and errors.
    """
    monkeypatch.setenv("KEY", _KEY)
    sent = "key=S3CR3T/4+x="
    for number, following in ((1, f"/items?key={_KEY}&page=2"), (2, "/items?page=3"), (3, None)):
        page = {"items": [{"n": number, "self": f"{loopback_site.base}/i/{number}?{sent}"}], "next": following}
        path = f"/items?kind=a&{sent}" if number == 1 else f"/items?page={number}&{sent}"
        loopback_site.page(path, json.dumps(page), content_type="application/json", headers={"ETag": f'"{number}"'})
    loopback_site.page(f"/list?{sent}", f"<main><a href='/moved?{sent}'>one</a> <a href='/broken'>two</a></main>")
    loopback_site.page(f"/moved?{sent}", status=302, headers={"Location": f"/moved?{sent}&again=1"})
    loopback_site.page(f"/moved?again=1&{sent}", "<p>here</p>")
    loopback_site.page(f"/broken?{sent}", status=302, headers={"Location": f"/broken?{sent}"})
    fields = "    yields: records\n    each: {json: items}\n    fields: {n: {json: n}, self: {json: self}}\n"
    rules = f"{fields}    pagination: {{json: next}}\n    follow: {{allow: ['/']}}\n"
    source = declared(
        tmp_path,
        f"{loopback_site.base}/items?key=${{KEY}}&kind=a",
        f"{loopback_site.base}/list?key=${{KEY}}",
        more=rules,
    )
    raw = RawStore(tmp_path / "raw")
    outcome = crawl_site(source, raw, "r1")
    stored = {page.url.removeprefix(loopback_site.base): page.body for page in raw.pages("r1")}
    assert stored.keys() >= {"/items?kind=a", "/items?page=2", "/items?page=3", "/list", "/moved?again=1"}
    assert [failure.url for failure in outcome.failures] == [f"{loopback_site.base}/broken"]
    assert loopback_site.requests["/robots.txt"] == 1 and all(
        sent in path for path in loopback_site.requests if path != "/robots.txt"
    )
    report = inspect_url(source, f"{loopback_site.base}/items?kind=a&{sent}", "en")
    written = [path.read_bytes() for path in raw.root.rglob("*") if path.is_file()]
    shown = [outcome.model_dump_json(), report.model_dump_json(), repr(source), source.model_dump_json()]
    assert not any(b"S3CR3T" in content for content in [*written, *stored.values(), *(text.encode() for text in shown)])
    again = crawl_site(source, raw, "r2", previous=PreviousCrawls(concluded="r1"))
    assert again.pages.unchanged == 3
    monkeypatch.setenv("KEY", "another")
    other = declared(tmp_path, f"{loopback_site.base}/list?key=${{KEY}}")
    assert requester_fingerprint(other) != requester_fingerprint(source)


def test_a_refused_key_is_a_refused_credential(
    loopback_site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", "S3CR3T")
    loopback_site.page("/list?key=S3CR3T", "no", status=403)
    with pytest.raises(CredentialRefused, match="/list: error") as refused:
        crawl_site(declared(tmp_path, f"{loopback_site.base}/list?key=${{KEY}}"), RawStore(tmp_path / "raw"), "r1")
    assert "S3CR3T" not in str(refused.value)


def test_the_key_of_a_sitemap_goes_with_it_and_its_pages(
    loopback_site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", "S3CR3T")
    loopback_site.page(
        "/map.xml?key=S3CR3T",
        f"<urlset><url><loc>{loopback_site.base}/a?key=S3CR3T</loc></url></urlset>",
        content_type="text/xml",
    )
    loopback_site.page("/a?key=S3CR3T", "<p>a page</p>")
    raw = RawStore(tmp_path / "raw")
    crawl_site(declared(tmp_path, f"{loopback_site.base}/map.xml?key=${{KEY}}", key="sitemaps"), raw, "r1")
    assert [page.url for page in raw.pages("r1")] == [f"{loopback_site.base}/a"]
    assert not any(b"S3CR3T" in path.read_bytes() for path in raw.root.rglob("*") if path.is_file())
