"""Declared sources: whose hosts are meant, and what is shown of a secret that is written the wrong way."""

from pathlib import Path

import pytest

from almanac.core.load import load_declaration
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.errors import DeclarationError


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
