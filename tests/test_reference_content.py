"""Other people's sites and retrieval sets with known truth, where they lie beside the checkout; nothing of them is kept here."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.conftest import ROOT, Almanac

_REFERENCE = ROOT.parent / "shared"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not _REFERENCE.is_dir(), reason=f"reference content is not at {_REFERENCE}"),
]

_BOOKS: dict[str, Any] = {
    "match": "/product/\\d+$",
    "yields": "records",
    "id": "{upc}",
    "title": "{name}",
    "fields": {
        "name": {"css": "h1", "required": True},
        "price": {"xpath": "//p[starts-with(normalize-space(), 'Price:')]", "type": "price", "required": True},
        "in_stock": {"xpath": "//p[@class='mb-0'][2]", "type": "boolean"},
        "rating": {"css": ".star.filled", "process": ["count"]},
        "upc": {"xpath": "//dt[normalize-space()='UPC']/following-sibling::dd[1]", "required": True},
        "breadcrumbs": {"css": ".breadcrumb-item", "many": True},
    },
    "text": "{name}",  # short, so that the test is about the records
}


@pytest.fixture
def books_shop() -> Iterator[str]:
    """A thousand products, on loopback."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(_REFERENCE / "sites/serve.py"), str(_REFERENCE / "sites/books_shop"), str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    with socket.socket() as probe:
        while probe.connect_ex(("127.0.0.1", port)):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    yield f"http://127.0.0.1:{port}"
    server.kill()
    server.wait()


def test_a_thousand_products_are_read_to_the_character(almanac: Almanac, tmp_path: Path, books_shop: str) -> None:
    declared = tmp_path / "books.yaml"
    source = {"name": "shop", "kind": "site", "start_urls": [f"{books_shop}/"], **_BOOKS}
    YAML().dump({"name": "books", "sources": [source], "clean": "none", "validate": {"expect": [{"field": "upc", "unique": True}]}}, declared)
    report = almanac("run", str(declared), "--json").json
    assert (report["outcome"], report["items"]["added"], report["pages"]["fetched"]) == ("published", 1000, 1159)
    rows = map(json.loads, almanac("export", str(declared), "records").stdout.splitlines())
    found = {row["url"].removeprefix(books_shop): row for row in rows}
    for wanted in json.loads((_REFERENCE / "sites/books_shop/expected.json").read_text(encoding="utf-8"))["records"]:
        row = found[wanted["url"]]
        price = row["price"]["currency"] + row["price"]["amount"]
        assert (row["name"], price, row["in_stock"], row["rating"]) == (wanted["name"], wanted["price"], wanted["inStock"], wanted["rating"])
        assert (row["upc"], row["breadcrumbs"]) == (wanted["properties"]["UPC"], wanted["breadcrumbs"])


def test_dense_retrieval_reaches_the_published_figure(almanac: Almanac, tmp_path: Path) -> None:
    """nDCG@10 of all-MiniLM-L6-v2 on XQuAD in English is .944."""
    folder = _REFERENCE / "eval/xquad/en"
    declared = tmp_path / "xquad.yaml"
    fields = {"id": {"json": "id", "required": True}, "title": {"json": "title", "default": ""}, "text": {"json": "text", "required": True}}
    source = {"name": "corpus", "kind": "files", "glob": str(folder / "corpus.jsonl"), "yields": "records", "id": "{id}", "title": "{title}"}
    YAML().dump({"name": "xquad", "sources": [{**source, "fields": fields, "text": "{title}. {text}"}], "clean": "none"}, declared)
    assert almanac("run", str(declared), "--json").code == 0
    measured = almanac(
        "eval", str(declared), "--queries", str(folder / "queries.jsonl"), "--qrels", str(folder / "qrels.tsv"), "--mode", "dense", "--json"
    ).json
    assert (measured["unit"], measured["queries"]) == ("document", 1185)
    assert measured["metrics"]["ndcg@10"] == pytest.approx(0.944, abs=0.005)
