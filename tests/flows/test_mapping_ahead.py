"""Pages mapped while a site is crawled: the items are those of mapping after the crawl, and no page is mapped twice."""

import json
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.core.tables import TableWriter, read_table
from almanac.flows.pipeline import map as map_step
from almanac.flows.pipeline import mapping_ahead, page_batches
from almanac.flows.pipeline import survey as survey_module
from almanac.flows.pipeline.mapping_ahead import MappingAhead
from almanac.flows.pipeline.page_batches import parts_folder
from almanac.flows.pipeline.run import Run
from almanac.flows.pipeline.survey import Survey, survey
from tests.conftest import PATIENCE_S
from tests.spiders.conftest import Answer, loopback_site
from tests.spiders.test_spiders_crawl import links

if TYPE_CHECKING:
    from tests.spiders.conftest import Site

__all__ = ["loopback_site"]
pytestmark = pytest.mark.slow
_PAGES = 8
_RECORDS = {
    "yields": "records",
    "match": "/[0-9]$",
    "fields": {"name": {"css": "h1", "required": True}, "said": {"css": "p"}},
}
_DOCUMENTS = {"yields": "documents", "match": "/[0-9]$", "body": "all"}
_LISTED = {
    "yields": "records",
    "listing": {"match": "/$", "each": {"css": "li"}, "link": {"css": "a"}, "fields": {"name": {"css": "a"}}},
    "fields": {"said": {"css": "p"}},
}


class Kb:
    """A knowledge base of one site, whose last page waits until others have been mapped, if any are to be."""

    def __init__(self, folder: Path, site: "Site", monkeypatch: pytest.MonkeyPatch) -> None:
        self.site, self._folder, self.data = site, folder, DataDir(folder / "data")
        self.mapped: dict[str, list[str]] = {"ahead": [], "after": []}
        self._enough = Event()
        self._waits_for = 0
        site.page("/", links(*(f"/{n}" for n in range(_PAGES))))
        for n in range(_PAGES):
            heading = "" if n == 2 else f"<h1>Thing {n % 6}</h1>"
            site.page(
                f"/{n}", f"{heading}<p>What page {n % 6} says is said by no other, and it says so at some length.</p>"
            )
        last = site.answers.pop(f"/{_PAGES - 1}")
        site.otherwise = lambda path: self._last(last) if path == f"/{_PAGES - 1}" else Answer(status=404)
        for module, when in ((mapping_ahead, "ahead"), (map_step, "after")):
            monkeypatch.setattr(module, "map_page", self._noted(page_batches.map_page, when))

    def _last(self, answer: Answer) -> Answer:
        assert not self._waits_for or self._enough.wait(PATIENCE_S)
        return answer

    def _noted(self, step: Callable[..., Any], when: str) -> Callable[..., Any]:
        def noted(run: Run, source: Any, work: Any) -> Any:
            self.mapped[when].append(work.page.url.rpartition("/")[2])
            if len(self.mapped["ahead"]) == self._waits_for:
                self._enough.set()
            return step(run, source, work)

        return noted

    def survey(self, source: dict[str, Any], *, waits_for: int = 0, data: str = "data") -> Survey:
        self._waits_for = waits_for
        manners = {"allow_private": True, "robots": False, "delay_s": 0}
        declared = {
            "name": "site",
            "kind": "site",
            "start_urls": [f"{self.site.base}/"],
            "politeness": manners,
            **source,
        }
        (self._folder / "kb.yaml").write_text(
            json.dumps({"name": "kb", "sources": [declared], "validate": {"max_rejected": 1}})
        )
        self.run = Run(load_declaration(str(self._folder / "kb.yaml"), ""), DataDir(self._folder / data))
        return survey(self.run)


@pytest.fixture
def kb(tmp_path: Path, loopback_site: "Site", monkeypatch: pytest.MonkeyPatch) -> Kb:
    return Kb(tmp_path, loopback_site, monkeypatch)


def _found(surveyed: Survey) -> Any:
    items = surveyed.items
    assert items is not None
    rows = read_table(items.table).drop_columns(["fetched_at"]).to_pylist()
    duplicates = "" if items.duplicates.path is None else items.duplicates.path.read_text()
    return rows, sorted(map(str, items.rejects.read())), duplicates, items.found


@pytest.mark.parametrize("source", [_RECORDS, _DOCUMENTS], ids=["records", "documents"])
def test_pages_are_mapped_once_while_others_are_waited_for(
    kb: Kb, source: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    surveyed = kb.survey(source, waits_for=_PAGES - 1)
    assert sorted([*kb.mapped["ahead"], *kb.mapped["after"]]) == [str(n) for n in range(_PAGES)]
    assert len(kb.mapped["ahead"]) >= _PAGES - 1
    monkeypatch.setattr(MappingAhead, "map_one", lambda _: False)
    assert _found(kb.survey(source, data="later")) == _found(surveyed)
    assert surveyed.items is not None
    assert surveyed.items.duplicates.count > 0


def test_a_page_that_an_earlier_run_has_mapped_is_not_mapped_again(kb: Kb) -> None:
    first = _found(kb.survey(_RECORDS))
    kb.mapped = {"ahead": [], "after": []}
    assert _found(kb.survey(_RECORDS)) == first
    assert kb.mapped == {"ahead": [], "after": []}


def test_none_is_mapped_ahead_where_listings_say_what_a_page_is_or_parts_are_left(kb: Kb) -> None:
    kb.site.page("/", f"<ul>{''.join(f'<li><a href=/{n}>Thing {n}</a></li>' for n in range(_PAGES))}</ul>")
    kb.survey(_LISTED)
    assert kb.mapped["ahead"] == []
    assert len(kb.mapped["after"]) == _PAGES
    parts_folder(kb.run).mkdir(parents=True)
    (parts_folder(kb.run) / "left.parquet").touch()
    kb.survey(_RECORDS)
    assert kb.mapped["ahead"] == []


def test_a_run_that_is_cut_off_leaves_what_it_has_mapped_to_the_next(kb: Kb, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = _found(kb.survey(_RECORDS, data="whole"))
    kb.mapped = {"ahead": [], "after": []}

    def cut_off(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(survey_module, "map_all", cut_off)
        kb.survey(_RECORDS, waits_for=_PAGES - 1)
    assert _found(kb.survey(_RECORDS)) == wanted
    assert sorted([*kb.mapped["ahead"], *kb.mapped["after"]]) == [str(n) for n in range(_PAGES)]
    assert not parts_folder(kb.run).exists()


def test_what_is_left_of_a_run_that_was_cut_off_goes_where_nothing_has_changed(
    kb: Kb, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = kb.survey(_RECORDS)
    parts_folder(kb.run).mkdir(parents=True)
    (parts_folder(kb.run) / "left.parquet").touch()
    monkeypatch.setattr(
        survey_module, "confirmed_before", lambda *_: (before.validated, before.comparison, before.tables)
    )
    assert kb.survey(_RECORDS).items is None
    assert not parts_folder(kb.run).exists()


def test_a_large_page_is_left_to_the_step(kb: Kb, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = _found(kb.survey(_RECORDS, data="whole"))
    kb.mapped = {"ahead": [], "after": []}
    monkeypatch.setattr(mapping_ahead, "_LARGEST", 10)
    assert _found(kb.survey(_RECORDS)) == wanted
    assert (kb.mapped["ahead"], len(kb.mapped["after"])) == ([], _PAGES)


@pytest.mark.parametrize("deed", ["__init__", "write", "__exit__"])
def test_a_disk_that_takes_nothing_ahead_fails_no_run(kb: Kb, monkeypatch: pytest.MonkeyPatch, deed: str) -> None:
    wanted = _found(kb.survey(_RECORDS, data="whole"))
    kb.mapped = {"ahead": [], "after": []}
    whole = getattr(TableWriter, deed)

    def failing(writer: TableWriter, *arguments: Any, **options: Any) -> Any:
        place = arguments[0] if deed == "__init__" else writer._path
        if Path(place).name.startswith("ahead-"):
            raise OSError("no space left on device")
        return whole(writer, *arguments, **options)

    monkeypatch.setattr(TableWriter, deed, failing)
    assert _found(kb.survey(_RECORDS, waits_for=1)) == wanted
    assert not parts_folder(kb.run).exists()


def test_what_fails_ahead_is_told_by_the_step_that_maps(kb: Kb, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = _found(kb.survey(_RECORDS, data="whole"))

    def failing(*_: Any) -> Any:
        raise OSError("no space left on device")

    monkeypatch.setattr(mapping_ahead, "map_page", failing)
    assert _found(kb.survey(_RECORDS)) == wanted
    monkeypatch.setattr(map_step, "map_page", failing)
    with pytest.raises(OSError, match="no space"):
        kb.survey(_RECORDS, data="full")
