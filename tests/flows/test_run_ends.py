"""How a run ends where something goes wrong on the way: what it reports, and what it leaves to the next run."""

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.core.tables import CHUNKS, DOCUMENTS
from almanac.flows.pipeline.acquire import acquire
from almanac.flows.pipeline.plan import plan
from almanac.flows.pipeline.run import Run
from almanac.flows.reporting.report_tables import reject_rows
from almanac.index.verify.verifier import verify_version
from almanac.index.versions.publish import rollback
from almanac.index.versions.version_store import current_version, read_manifest
from almanac.schemas.errors import DamagedVersion, ManyDefects, NoRecords, RunLocked, Unreachable
from almanac.schemas.reports import Problem
from almanac.spiders.mapping import item_mapping as items
from tests.flows.commands import before, carry_out
from tests.flows.notes import write
from tests.index.making import without_children
from tests.spiders.conftest import Answer, Site

pytestmark = pytest.mark.slow  # whole runs


class Base:
    """The notes, and runs of them."""

    def __init__(self, declared: Path) -> None:
        self.declared = declared
        self.data = DataDir(declared.parent / "data")

    def run(self) -> dict[str, Any]:
        return carry_out(Run(load_declaration(str(self.declared), ""), self.data))

    def problems(self, version: str) -> list[Problem]:
        manifest = read_manifest(self.data.index("many"), version)
        return verify_version(self.data.versions("many") / version, manifest, self.data.vectors, manifest.embedder)

    @property
    def processed(self) -> Path:
        return self.data.processed("many")

    def last_report(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads(max(self.data.runs("many").glob("*-??????.json")).read_bytes())
        return report


@pytest.fixture
def base(declared: Path) -> Base:
    write(declared.parent, 40)
    return Base(declared)


def failing(error: BaseException) -> Callable[[], object]:
    def fail() -> object:
        raise error

    return fail


def test_a_run_that_lost_its_lock_and_its_staged_files_says_that_it_lost_the_lock(base: Base) -> None:
    """Another run that takes over removes what was staged: the report of the first is made without."""

    def steal() -> None:
        (base.data.index("many") / "LOCK").unlink()
        for path in base.processed.glob(".staging/*/*"):
            path.unlink()

    with pytest.raises(RunLocked) as raised, before("build", steal):
        base.run()
    report = base.last_report()
    assert raised.value.report == report
    assert (report["outcome"], report["exit_code"], report["items"]["in"]) == ("failed", 6, 40)


def test_an_interruption_is_reported_whatever_became_of_the_staged_files(base: Base) -> None:
    def interrupt() -> None:
        for path in base.processed.glob(".staging/*/*"):
            path.unlink()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), before("build", interrupt):
        base.run()
    assert (base.last_report()["exit_code"], base.last_report()["error"]["kind"]) == (130, "interrupted")


def test_tables_are_replaced_together_once_all_are_made(base: Base) -> None:
    base.run()
    tables = {name: (base.processed / name).read_bytes() for name in (DOCUMENTS, CHUNKS, "state.json")}
    write(base.declared.parent, 40, " today")
    with pytest.raises(RuntimeError), before("chunk", failing(RuntimeError("the tokenizer is gone"))):
        base.run()
    assert {name: (base.processed / name).read_bytes() for name in tables} == tables
    assert base.run()["items"]["changed"] > 0
    assert pq.read_metadata(base.processed / CHUNKS).num_rows >= pq.read_metadata(base.processed / DOCUMENTS).num_rows


def test_a_mistake_in_a_declaration_that_is_taken_back_costs_no_page(
    base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    base.run()
    declared = base.declared.read_text()
    base.declared.write_text(
        declared.replace("text: {json: text, required: true}", "text: {json: txet, required: true}")
    )
    report = base.run()
    assert report["outcome"] == "no_records"
    assert (
        report["items"]["in"]
        == report["items"]["quarantined"]
        == len(Path(report["rejects_file"]).read_text().splitlines())
        > 0
    )
    base.declared.write_text(declared)
    monkeypatch.setattr(
        "almanac.flows.pipeline.page_batches.clean_extraction", lambda *_, **__: pytest.fail("a page is read again")
    )
    assert base.run()["outcome"] == "unchanged"


def test_a_plan_refuses_a_pointer_that_leads_nowhere_as_a_run_does(base: Base) -> None:
    base.run()
    (base.data.index("many") / "CURRENT").write_text("v0099\n")
    with pytest.raises(DamagedVersion):
        base.run()
    with pytest.raises(DamagedVersion):
        plan(load_declaration(str(base.declared), ""), base.data)


def test_a_plan_names_what_a_run_quarantines(base: Base) -> None:
    planned = plan(load_declaration(str(base.declared), ""), base.data)
    report = base.run()
    rejects = [json.loads(line) for line in Path(report["rejects_file"]).read_text().splitlines()]
    assert planned.rejects == rejects
    assert len(rejects) == report["items"]["quarantined"] > 0
    assert rejects[0].keys() == {"source", "url", "document_id", "stage", "reason", "field", "value", "rule"}
    assert plan(load_declaration(str(base.declared), ""), base.data).rejects == rejects  # nothing is mapped anew
    assert reject_rows(rejects)[-1] == ("notes.jsonl#n30", "year", "expectation not met", "1999")


def test_a_plan_of_nothing_but_rejects_names_them(base: Base) -> None:
    (base.declared.parent / "notes.jsonl").write_text(
        '{"id": "n1", "text": "a", "year": 1999}\n{"id": "n2", "text": "b", "year": 1998}\n'
    )
    with pytest.raises(NoRecords) as raised:
        plan(load_declaration(str(base.declared), ""), base.data)
    report = raised.value.report or {}
    assert (report["error"]["kind"], [reject["value"] for reject in report["rejects"]]) == ("no_records", [1999, 1998])
    assert "KB" not in report["error"]["hint"]


def test_what_cannot_be_read_is_listed_where_nothing_else_is_there(base: Base) -> None:
    (base.declared.parent / "notes.jsonl").write_text('{"id": "n1", "text":\n')
    report = base.run()
    [reject] = [json.loads(line) for line in Path(report["rejects_file"]).read_text().splitlines()]
    assert (report["outcome"], reject["stage"], reject["url"]) == ("no_records", "read", "notes.jsonl#L1")
    assert (report["items"]["in"], report["items"]["quarantined"]) == (1, 1)
    with pytest.raises(NoRecords) as raised:
        plan(load_declaration(str(base.declared), ""), base.data)
    assert (raised.value.report or {})["rejects"] == [reject]


def test_counts_of_a_run_without_records_add_up(base: Base) -> None:
    (base.declared.parent / "notes.jsonl").write_text('{"id": "n1", "text": "", "year": 2020}\n')
    report = base.run()
    items = report["items"]
    assert report["outcome"] == "no_records"
    assert items["in"] == sum(
        items[name] for name in ("added", "changed", "moved", "unchanged", "deduplicated", "quarantined")
    )
    assert NoRecords.exit_code == report["exit_code"]


def test_a_rollback_during_a_run_stands_and_the_new_version_is_kept(base: Base) -> None:
    index_dir = base.data.index("many")
    base.run()
    write(base.declared.parent, 42)
    base.run()
    write(base.declared.parent, 44)
    with before("build", lambda: rollback(index_dir)):
        report = base.run()
    assert (report["outcome"], report["exit_code"], report["version"], current_version(index_dir)) == (
        "kept",
        0,
        "v0003",
        "v0001",
    )
    write(base.declared.parent, 46)
    base.run()
    assert current_version(index_dir) == "v0004"


def test_a_run_without_a_pointer_names_the_versions_and_publishes_nothing(base: Base) -> None:
    base.run()
    (base.data.index("many") / "CURRENT").unlink()
    with pytest.raises(DamagedVersion, match="CURRENT is missing; v0001 was published last") as raised:
        base.run()
    assert "there are: v0001" in (raised.value.hint or "")
    assert rollback(base.data.index("many")) == "v0001"
    assert base.run()["outcome"] == "unchanged"


def test_a_run_begins_anew_where_no_version_is_left(base: Base) -> None:
    base.run()
    shutil.rmtree(base.data.versions("many") / "v0001")
    report = base.run()
    assert (report["outcome"], report["chunks"]["embedded"], current_version(base.data.index("many"))) == (
        "published_with_rejects",
        0,
        "v0002",
    )


@pytest.mark.parametrize(
    ("damage", "is_restorable", "changed"),
    [
        ("lost", True, False),
        ("vectors", False, False),
        ("keys", True, True),
        ("vectors", True, True),
        ("lost", False, True),
    ],
)
def test_a_run_heals_the_vectors_that_its_version_needs(
    base: Base, damage: str, is_restorable: bool, changed: bool
) -> None:
    """Vectors come from the live version, and are embedded again only where that one is damaged, too."""
    base.run()
    for part in base.data.vectors.glob("*/*.parquet"):
        content = bytearray(part.read_bytes())
        content[80 if damage == "keys" else -500] ^= 1
        part.unlink() if damage == "lost" else part.write_bytes(content)
    assert {problem.kind for problem in base.problems("v0001")} == {"vector_missing"}
    if not is_restorable:
        flip(base.data.versions("many") / "v0001" / "vectors.npy")
    if changed:
        write(base.declared.parent, 42)
    report = base.run()
    assert report["outcome"] == ("published_with_rejects" if changed or not is_restorable else "unchanged")
    embedded = (0 if is_restorable else report["chunks"]["total"] - changed) + changed
    assert report["chunks"]["embedded"] == embedded
    version = report["version"]
    assert base.problems(version) == []


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "keys", ["match: /item/, ", "yields: records, id: '{code}', fields: {code: {css: .code, required: true}}, "]
)
def test_a_run_without_records_and_its_plan_tell_of_links_that_were_not_followed(
    declared: Path, loopback_site: Site, keys: str
) -> None:
    loopback_site.page("/", "<h1>Shop</h1><a href=/item/1>1</a><a href=/item/2>2</a>")
    site = (
        f"{{name: shop, kind: site, start_urls: ['{loopback_site.base}/'], {keys}pagination: {{next: {{css: "
        f".next}}}}, politeness: {{allow_private: true}}}}"
    )
    declared.write_text(f"name: many\nsources: [{site}]\n")
    base = Base(declared)
    report = base.run()
    advice = "2 links on start pages were not followed: `pagination` is declared; add `follow.allow`"
    assert (report["outcome"], report["exit_code"], report["sources"][0]["unfollowed"]) == ("no_records", 3, 2)
    assert advice in report["error"]["message"]
    with pytest.raises(NoRecords) as raised:
        plan(load_declaration(str(declared), ""), base.data)
    assert advice in raised.value.message


@pytest.mark.parametrize(("failing", "ends"), [(1, False), (2, True)])
def test_one_page_that_a_defect_fails_never_ends_a_run_and_many_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], failing: int, ends: bool
) -> None:
    """Two of forty are more than a hundredth: what is left would pass for the whole."""

    def broken(mapper: Any, part: Any) -> Any:
        if Path(mapper.content.url).name in [f"{number}.md" for number in range(failing)]:
            raise RecursionError("no end of it")
        return mapped(mapper, part)

    mapped = items._Mapper.map
    monkeypatch.setattr(items._Mapper, "map", broken)
    for number in range(40):
        (tmp_path / "notes").mkdir(exist_ok=True)
        (tmp_path / "notes" / f"{number}.md").write_text(
            f"# Note {number}\n\nPier {number} is open from dawn to dusk.\n", encoding="utf-8"
        )
    (tmp_path / "kb.yaml").write_text(
        'name: many\nsources: [{name: notes, kind: files, glob: "notes/*.md", yields: documents}]\n', encoding="utf-8"
    )
    base = Base(tmp_path / "kb.yaml")
    with without_children():
        if ends:
            with pytest.raises(
                ManyDefects, match=r"2 of 40 pages failed; the first: a defect of Almanac.*RecursionError: no end of it"
            ) as caught:
                base.run()
            assert caught.value.exit_code == 1 and Path(caught.value.where or "").name == "0.md"
        else:
            report = base.run()
            assert (report["outcome"], report["items"]["quarantined"], report["items"]["added"]) == (
                "published_with_rejects",
                1,
                39,
            )
    (reject, *others) = [
        json.loads(line)
        for line in (tmp_path / base.last_report()["rejects_file"]).read_text(encoding="utf-8").splitlines()
    ]
    assert (
        len(others) == failing - 1
        and Path(reject["url"]).name == "0.md"
        and "RecursionError: no end of it" in reject["reason"]
    )
    printed = "".join(capfd.readouterr())
    assert "Traceback" in printed and "0.md" in printed


@pytest.mark.parametrize("hangs", ["/robots.txt", "/"])
def test_the_seconds_of_a_source_hold_for_its_tries_together(tmp_path: Path, loopback_site: Site, hangs: str) -> None:
    """A server that says nothing has 30 seconds for an answer, three times a try, where there is more time."""
    loopback_site.answers[hangs] = Answer("<p>late", delay_s=20)
    site = (
        f"kind: site, start_urls: ['{loopback_site.base}/'], politeness: {{allow_private: true}}, limits: "
        f"{{seconds: 3}}"
    )
    (tmp_path / "kb.yaml").write_text(
        f"name: many\nsources: [{{name: s, yields: documents, {site}}}]\n", encoding="utf-8"
    )
    run = Run(load_declaration(str(tmp_path / "kb.yaml"), ""), DataDir(tmp_path / "data"))
    began = time.monotonic()
    with pytest.raises(Unreachable) as caught:
        acquire(run, run.declaration.sources[0], None)
    assert caught.value.is_final
    assert time.monotonic() - began < 18, "one answer alone takes longer"
