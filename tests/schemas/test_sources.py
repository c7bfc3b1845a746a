"""Declared sources: whose hosts are meant, and what is shown of a secret that is written the wrong way."""

from pathlib import Path

import pytest

from almanac.core.load import load_declaration
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.errors import DeclarationError

_SITE = {"name": "s", "kind": "site", "start_urls": ["http://x.test/"]}


@pytest.mark.parametrize(
    ("written", "host"),
    [
        ("Shop.example", "shop.example"),
        ("https://shop.example/path", "shop.example"),
        ("*.shop.example", "shop.example"),
        ("127.0.0.1:8000", "127.0.0.1"),
        ("bücher.example", "xn--bcher-kva.example"),
    ],
)
def test_allowed_domains_are_hosts_however_they_are_written(written: str, host: str) -> None:
    source = {"name": "s", "kind": "site", "start_urls": ["https://x.test/"], "allowed_domains": [written]}
    assert SiteSource.model_validate(source).domains == [host]


def test_domains_of_start_urls_are_spelled_as_their_pages_are() -> None:
    source = {
        "name": "s",
        "kind": "site",
        "start_urls": ["https://München.example/"],
        "sitemaps": ["https://cdn.example/s.xml"],
    }
    assert SiteSource.model_validate(source).domains == ["cdn.example", "xn--mnchen-3ya.example"]


@pytest.mark.parametrize(
    "keys",
    [
        'politeness: {cookies: "session=SECRET"}',
        'politeness: {auth: "user:SECRET"}',
        'politeness: {headers: "Authorization: Bearer SECRET"}',
        'politeness: {headers: {"Bearer SECRET": x}}',
        'start_urls: ["ftp://user:SECRET@host.test/"]',
        'start_urls: ["https://user:SECRET @host.test/"]',
        'start_urls: ["https://user:SECRET@host.test:99999/"]',
    ],
)
def test_a_secret_that_is_written_the_wrong_way_is_not_shown(tmp_path: Path, keys: str) -> None:
    start = "" if "start_urls" in keys else "start_urls: ['https://x.test/'], "
    path = tmp_path / "kb.yaml"
    path.write_text(f"name: kb\nsources:\n  - {{name: s, kind: site, {start}{keys}}}\n", encoding="utf-8")
    with pytest.raises(DeclarationError) as caught:
        load_declaration(str(path))
    assert "SECRET" not in str(caught.value)
    assert "sources[0]." in caught.value.message


@pytest.mark.parametrize(("written", "known"), [(" CP1250 ", "cp1250"), ("UTF-8", "utf-8"), ("latin1", "iso8859-1")])
def test_an_encoding_has_one_name(written: str, known: str) -> None:
    source = SiteSource.model_validate({**_SITE, "encoding": written})
    assert source.encoding == known


@pytest.mark.parametrize("written", ["base64", "idna", "punycode", "unicode_escape", "utf-7", "cp037", "nothing"])
def test_what_is_no_charset_is_no_encoding(written: str) -> None:
    with pytest.raises(ValueError, match="no encoding of texts"):
        SiteSource.model_validate({**_SITE, "encoding": written})


def test_what_says_that_a_page_is_gone_is_a_status_or_an_element() -> None:
    source = SiteSource.model_validate({**_SITE, "gone": {"css": ".sold-out"}})
    assert (source.gone_statuses, list(map(str, source.gone_elements))) == (frozenset(), ["css: .sold-out"])
    both = SiteSource.model_validate({**_SITE, "gone": [403, ".sold-out", {"xpath": "//p[.='Sold out']"}]})
    assert both.gone_statuses == {403} and len(both.gone_elements) == 2


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (429, "tells a crawl to come back later"),
        ([500], "less than 500"),
        ({"json": "sold_out"}, "takes css or xpath, which find elements"),
    ],
)
def test_what_cannot_say_that_a_page_is_gone_is_refused(written: object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        SiteSource.model_validate({**_SITE, "gone": written})


def test_an_element_cannot_say_that_a_page_of_several_items_is_gone() -> None:
    with pytest.raises(ValueError, match="`each` finds several items"):
        SiteSource.model_validate({**_SITE, "each": {"css": "li"}, "gone": [403, ".sold-out"]})
