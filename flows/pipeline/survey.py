"""The order of the steps, for a refresh and for a plan of one. `do` carries out a step: as a Prefect task, or as the plain function that it is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from almanac.core.tables import DOCUMENTS, RECORDS, read_table
from almanac.flows.pipeline import steps
from almanac.flows.pipeline.run import Run
from almanac.flows.pipeline.state import inputs_of, nothing_changed
from almanac.index.versions.store import current_version, list_versions, version_dir
from almanac.query.evaluation.golden import load_golden
from almanac.query.models.rerank import find_reranker
from almanac.schemas.manifest import Manifest
from almanac.schemas.reports import PageCounts
from almanac.transforms.gate import judge

Do = Callable[..., Any]


def plainly(step: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """A step as it is."""
    return step(*arguments, **named)


def survey(run: Run, do: Do = plainly) -> None:
    """From the first request to the gate's first verdict: what there is, and how it differs from the live version. Nothing is embedded.

    What can be wrong with the declaration is said before the first request. Where the pages are those that the live version was made
    from, and all rules too, nothing is mapped.
    """
    report = run.report
    report.previous = current_version(run.index_dir)
    report.stages = run.stages
    run.golden = load_golden(run.declaration)
    find_reranker(run.declaration)
    with run.stage("crawl"):
        for source in run.declaration.sources:
            do(steps.acquire, run, source)
    report.inputs = inputs_of(run)
    if not nothing_changed(run):
        with run.stage("map"):
            do(steps.map_and_clean, run)
        with run.stage("validate"):
            do(steps.validate, run)
        with run.stage("chunk"):
            do(steps.compare_and_chunk, run)
        run.digest = steps.digest(run)
    else:
        run.digest = live.digest if (live := run.live()) else ""
    judge_run(run)


def judge_run(run: Run) -> None:
    """The gate's verdict over what is known by now."""
    report = run.report
    report.recall = run.recall
    broken = sum(not row["ok"] for row in run.validation) if run.validation else None
    # Of a few pages that were asked for, one that failed is a large share; those that were left alone are no failures.
    left_alone = PageCounts(unchanged=sum(outcome.kept for outcome in report.sources if outcome.finish == "partial"))
    pages = report.pages + left_alone
    report.gate = judge(run.declaration, pages, report.items, run.live_items, broken_expectations=broken, recall=run.recall, live_recall=run.live_recall)


def passed(run: Run) -> bool:
    assert run.report.gate is not None
    return run.report.gate.verdict == "passed"


def is_live(run: Run) -> bool:
    """Whether the live version holds exactly this: the same items to the last field, the same chunks, and an index of them made in the same way."""
    live, items = run.live_if_whole, run.report.items
    if live is None or run.live_items is None:
        return False
    same_items = not (items.added or items.changed or items.moved or items.removed)
    same_index = live.embedder == run.embedder and live.fingerprints.get("index") == run.stages["index"]
    return same_items and same_index and live.digest == run.digest


def finished_before(run: Run) -> Manifest | None:
    """A version with exactly this content, complete and let pass, of a run that was cut off before it could say so."""
    if not passed(run) or run.scope.full:
        return None
    wanted = ("passed", run.report.previous, run.stages, run.embedder, run.declaration.collection, run.digest)
    for kept in reversed(list_versions(run.index_dir)):
        found = (kept.gate.verdict, kept.parent, kept.fingerprints, kept.embedder, kept.collection, kept.digest)
        if found == wanted and run.ending_of(kept.run_id) == "cut off":
            folder = version_dir(run.index_dir, kept.version)
            if all(_items_of(run.tables / name) == _items_of(folder / name) for name in (RECORDS, DOCUMENTS)):
                return kept
    return None


def _items_of(path: Path) -> list[dict[str, str]]:
    """What a table of items holds, but for the times: a file that is read again was seen later."""
    items: list[dict[str, str]] = read_table(path, ["source", "document_id", "content_sha256", "raw_sha256"]).to_pylist()
    return items


def refused_before(run: Run) -> Manifest | None:
    """A version with this content that the gate refused already: a nightly refusal need not fill the disk."""
    for kept in reversed(list_versions(run.index_dir)):
        same = kept.digest == run.digest and kept.declaration_sha256 == run.declaration.sha256
        if same and kept.gate.verdict == "refused" and kept.fingerprints.get("index") == run.stages["index"]:
            return kept
    return None
