"""A shop of a thousand books, refreshed while it changes, breaks and recovers; where it lies beside the checkout.
Nothing of it is kept here.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import unquote

import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.flows.pipeline.plan import plan
from almanac.flows.pipeline.run import Run
from almanac.index.reader import OpenVersion
from almanac.index.versions.version_store import current_version, read_manifest, version_dir
from tests.conftest import ROOT
from tests.flows.commands import carry_out
from tests.index.conftest import INFO
from tests.proof.base import LONG
from tests.proof.noting import Noting, noted
from tests.reference.journey import CONTENT
from tests.spiders.conftest import Answer, Site, loopback_site

__all__ = ["loopback_site"]

_SHOP = CONTENT / "books_shop"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not _SHOP.is_dir(), reason=f"reference content is not at {_SHOP}")]
_PAGES = 1159
_MOVED = "0001"  # what a new address ends with; no product has such a number


@dataclass
class Shop:
    """The shop as it is stored, and what happened to it since."""

    pages: dict[str, dict[str, Any]]
    edited: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)  # answers 404 now
    unlinked: set[str] = field(default_factory=set)  # still there, but no page leads to it
    redirected: set[str] = field(default_factory=set)  # to its new place
    relinked: set[str] = field(default_factory=set)  # linked at its new place, and gone from the old one
    broken: set[str] = field(default_factory=set)  # answers 500
    slow: set[str] = field(default_factory=set)  # takes longer than a crawl waits

    def answer(self, path: str) -> Answer:
        at = path.removesuffix(_MOVED)
        stored = self.pages.get(at) or self.pages.get(unquote(at))
        if path in self.redirected:
            return Answer(status=301, headers={"Location": f"{path}{_MOVED}"})
        if stored is None or path in self.gone | self.relinked:
            return Answer("nothing here", 404)
        body = (_SHOP / stored["file"]).read_bytes()
        if path in self.edited:
            body = body.replace(
                b"Product Description</h2>", f"Product Description</h2><p>A new edition of {path}.</p>".encode()
            )
        for old in self.unlinked:
            body = _relinked(body, old, "#")
        for old in self.relinked:
            body = _relinked(body, old, f"{old}{_MOVED}")
        if path in self.broken:
            return Answer("sorry", 500)
        etag = f'"{hash(body)}"'
        return Answer(
            body, stored["status"], stored["content_type"], {"ETag": etag}, delay_s=6 if path in self.slow else 0
        )

    @property
    def products(self) -> list[str]:
        return [path for path in self.pages if path.startswith("/product/")]


def _relinked(body: bytes, old: str, new: str) -> bytes:
    return re.sub(rb'href="%s"' % re.escape(old.encode()), b'href="%s"' % new.encode(), body)


@pytest.fixture
def shop(loopback_site: Site) -> Shop:
    rows = [json.loads(line) for line in (_SHOP / "manifest.jsonl").read_text(encoding="utf-8").splitlines()]
    shop = Shop({row["path"]: row for row in rows if "path" in row})
    loopback_site.otherwise = shop.answer
    return shop


@pytest.fixture
def refresh(tmp_path: Path, loopback_site: Site, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Carries out a run, and where that is asked for, the plan of it before; all real but the model and Prefect. Fails
    where the plan said something else.
    """
    monkeypatch.setenv("SITE", loopback_site.base)
    monkeypatch.setattr("almanac.spiders.crawling.crawl_start._PROCESS", "tests.spiders.hasty")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr("almanac.flows.pipeline.run.describe_embedder", lambda _: INFO)
    monkeypatch.setattr("almanac.flows.pipeline.run.load_embedder", lambda *_, **__: Noting(tmp_path / "embedded"))
    declaration = load_declaration(str(ROOT / "tests/reference/books_shop.yaml"))
    data = DataDir(tmp_path / "data")

    def run(*, planned: bool = False) -> dict[str, Any]:
        with patch("almanac.flows.pipeline.plan.count_tokens", lambda *_: None):
            run_plan = plan(declaration, data).model_dump(by_alias=True) if planned else None
        loopback_site.sent.clear()
        report = carry_out(Run(declaration, data))
        if run_plan is not None:
            assert run_plan["items"] == report["items"]
            assert len(run_plan["rejects"]) == report["items"]["quarantined"]
            assert (run_plan["pages"], run_plan["outcome"], run_plan["chunks_to_embed"]) == (
                report["pages"],
                report["outcome"],
                report["chunks"]["embedded"],
            )
        return report

    return run


def _counts(report: dict[str, Any], what: str) -> dict[str, int]:
    return {name: count for name, count in report[what].items() if count and name != "in"}


@LONG
def test_a_shop_that_changes_breaks_and_recovers(
    shop: Shop, loopback_site: Site, refresh: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    index_dir, products = tmp_path / "data/index/books_shop", shop.products

    first = refresh()
    assert (first["outcome"], _counts(first, "pages"), _counts(first, "items")) == (
        "published",
        {"fetched": _PAGES},
        {"added": 1000},
    )
    again = refresh()
    assert (again["outcome"], _counts(again, "pages"), _counts(again, "items")) == (
        "unchanged",
        {"unchanged": _PAGES},
        {"unchanged": 1000},
    )
    assert sum(loopback_site.sent.values()) <= 1  # robots.txt, of which there is none

    # 1 % say something else, 10 are gone (half of them only linked no more), 5 have another address.
    shop.edited, shop.gone, shop.unlinked = set(products[100:110]), set(products[200:205]), set(products[205:210])
    shop.redirected, shop.relinked = set(products[300:303]), set(products[303:305])
    changed = refresh(planned=True)
    assert (changed["outcome"], changed["previous"]) == ("published", first["version"])
    assert _counts(changed, "items") == {"changed": 10, "moved": 5, "unchanged": 975, "removed": 10}
    assert (changed["pages"]["gone"], changed["pages"]["vanished"], changed["pages"]["failed"]) == (5, 7, 0)
    assert changed["chunks"]["embedded"] == 10
    assert read_manifest(index_dir, changed["version"]).lineage["build"]["kind"] == "delta"

    # A listing that fails and a product that does not answer take nothing away.
    shop.broken, shop.slow = {next(path for path in shop.pages if path.endswith("page=2"))}, {products[400]}
    broken = refresh()
    assert (broken["outcome"], _counts(broken, "items")) == ("unchanged", {"unchanged": 990})
    assert {failure["reason"] for failure in broken["sources"][0]["failures"]} >= {"server_error", "timeout"}
    assert broken["pages"]["vanished"] == 0
    shop.broken, shop.slow = set(), set()
    well = refresh()
    assert (well["outcome"], well["pages"]["failed"], _counts(well, "items")) == ("unchanged", 0, {"unchanged": 990})

    # All that happened is taken back, but for one page: that one alone is new.
    shop.edited, shop.gone, shop.unlinked, shop.redirected, shop.relinked = set(), {products[0]}, set(), set(), set()
    back = refresh()
    assert _counts(back, "items") == {"added": 10, "changed": 10, "moved": 5, "unchanged": 974, "removed": 1}
    assert back["chunks"]["embedded"] == 0

    # Nearly a third is lost: the gate says no, and the version before answers.
    shop.gone = set(products[500:800])
    lost = refresh(planned=True)
    assert (lost["outcome"], lost["exit_code"], lost["items"]["removed"]) == ("gate_refused", 4, 300)
    assert current_version(index_dir) == back["version"]
    with OpenVersion(index_dir, back["version"]) as opened:
        assert len(opened.chunk_ids) == 999
    assert version_dir(index_dir, lost["version"]).is_dir()
    assert len(noted(tmp_path / "embedded")) == len(set(noted(tmp_path / "embedded")))
