"""The survey of a run: what it would publish, before anything is embedded, and what becomes of that."""

from dataclasses import dataclass, replace

import pyarrow as pa

from almanac.core.logs import get_logger
from almanac.core.tables import read_table
from almanac.flows.pipeline.earlier_runs import ending_of, live_manifest
from almanac.flows.pipeline.embed import restore_lost
from almanac.flows.pipeline.handles import Comparison, Items, Live, Measured, Pages, Tables, Validated
from almanac.flows.pipeline.ledger import Ledger
from almanac.flows.pipeline.page_batches import remove_parts
from almanac.flows.pipeline.run import Run
from almanac.flows.pipeline.state import confirmed_before, inputs_of, vectors_as_confirmed
from almanac.index.embedding.model_folder import require_models
from almanac.index.segments.version_tables import VersionTables
from almanac.index.vectors.retention import vectors_in_use
from almanac.index.versions.version_store import current_version, discard_unfinished, list_versions, version_names
from almanac.query.models.rerank import find_reranker
from almanac.schemas.crawl_outcome import PageCounts
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.manifest import Manifest, Verdict
from almanac.schemas.reports import Outcome
from almanac.spiders.crawling.chromium import require_browser
from almanac.transforms.gate import judge

log = get_logger("almanac.run")
_CONTENT = ["source", "document_id", "content_sha256", "raw_sha256"]


@dataclass(frozen=True)
class Survey:
    """The result of a survey. `items` is None if nothing was mapped, because nothing has changed since the live version
    was confirmed.
    """

    live: Live | None
    pages: tuple[Pages, ...]
    items: Items | None
    validated: Validated
    comparison: Comparison
    tables: Tables
    verdict: Verdict

    @property
    def is_passed(self) -> bool:
        return self.verdict.verdict == "passed"

    def outcome(self, *, is_live: bool) -> Outcome:
        """The outcome of a run that has made a version of it, and made that live or not."""
        if not self.is_passed:
            return "gate_refused"
        if not is_live:
            return "kept"
        return "published_with_rejects" if self.validated.rejected else "published"


def begin_survey(ledger: Ledger) -> Manifest | None:
    """Notes what is live, and returns its manifest; raises what is wrong with the declaration, and which extra or
    browser is missing, before the first request.
    """
    run = ledger.run
    ledger.previous = _version_before(run)
    _ = run.golden, find_reranker(run.declaration)
    require_models(run.declaration.embed)
    for source in run.declaration.sources:
        if isinstance(source, SiteSource) and run.scope.covers(source.name):
            require_browser(source)
    manifest = live_manifest(run.data, run.kb)
    ledger.note_stages(run.stages, manifest)
    return manifest


def _version_before(run: Run) -> str | None:
    """The live version; None before the first one, and where no complete version is left to go back to. Raises
    DamagedVersion where the pointer is lost.
    """
    try:
        return current_version(run.index_dir)
    except DamagedVersion as error:
        if version_names(run.index_dir):
            raise
        log.warning("no complete version is left: begun anew", kb=run.kb, error=error.message)
        return None


def confirmed(ledger: Ledger, pages: tuple[Pages, ...], live: Live | None) -> Survey | None:
    """The survey of pages and rules that are those that confirmed the live version, for which nothing has to be mapped;
    None where they are others.
    """
    run, ledger.inputs = ledger.run, inputs_of(ledger.run, pages)
    before = confirmed_before(run, ledger.inputs, live)
    if before is None:
        return None
    remove_parts(run)  # of a run that was cut off
    validated, comparison, tables = before
    return judged(ledger, live, pages, None, ledger.note(validated), ledger.note(comparison), ledger.note(tables))


def judged(
    ledger: Ledger,
    live: Live | None,
    pages: tuple[Pages, ...],
    items: Items | None,
    validated: Validated,
    comparison: Comparison,
    tables: Tables,
) -> Survey:
    """The survey with the gate's verdict on the counts."""
    verdict = ledger.note(judge_run(ledger.run, pages, validated, comparison))
    return Survey(live, pages, items, validated, comparison, tables, verdict)


def judged_again(ledger: Ledger, survey: Survey, measured: Measured) -> Survey:
    """The survey with the gate's verdict on counts and recall."""
    verdict = ledger.note(judge_run(ledger.run, survey.pages, survey.validated, survey.comparison, measured))
    return replace(survey, verdict=verdict)


def judge_run(
    run: Run, pages: tuple[Pages, ...], validated: Validated, comparison: Comparison, measured: Measured | None = None
) -> Verdict:
    """The verdict of the gate on counts and, if given, recall."""
    # Of a few pages that were asked for, one that failed is a large share; those that were left alone are no failures.
    left_alone = PageCounts(unchanged=sum(page.carried_over for page in pages if page.finish == "partial"))
    counted = sum((page.counts for page in pages), left_alone)
    recall, live_recall = (None, None) if measured is None else (measured.read(), measured.read_live())
    return judge(
        run.declaration,
        counted,
        comparison.counts,
        comparison.live_items,
        shrunk=comparison.shrunk,
        rewritten=comparison.rewritten,
        compared_with=comparison.compared_with,
        incomparable=comparison.incomparable,
        not_fetched=sum(page.not_fetched for page in pages),
        broken_expectations=validated.broken,
        expectations=validated.checks,
        recall=recall,
        live_recall=live_recall,
        unasked=None if measured is None else measured.unasked,
    )


def is_live(run: Run, survey: Survey) -> bool:
    """Whether the live version holds exactly the surveyed content: the same items and chunks, indexed in the same
    way.
    """
    live, items = survey.live, survey.comparison.counts
    if live is None or not live.is_whole or survey.comparison.live_items is None:
        return False
    same_items = not (items.added or items.changed or items.moved or items.removed)
    same_index = (
        live.manifest.embedder == run.embedder and live.manifest.fingerprints.get("index") == run.stages["index"]
    )
    return same_items and same_index and live.manifest.digest == survey.tables.digest


def has_lost_vectors(run: Run, survey: Survey) -> bool:
    """Whether the vector store has lost vectors of the live version that this version does not have either, so that
    another one has to be made.
    """
    if vectors_as_confirmed(run):
        return False
    with vectors_in_use(run.data.vectors):
        return restore_lost(run, survey.tables, survey.live).missing > 0


def finished_before(run: Run, survey: Survey, previous: str | None) -> Manifest | None:
    """A complete version with this content that passed the gate, made by a run that was killed, or had no room, before
    it could publish it.
    """
    if not survey.is_passed or run.scope.full:
        return None
    wanted = ("passed", previous, run.stages, run.embedder, run.declaration.collection, survey.tables.digest)
    for manifest in reversed(list_versions(run.index_dir)):
        actual = (
            manifest.gate.verdict,
            manifest.parent,
            manifest.fingerprints,
            manifest.embedder,
            manifest.collection,
            manifest.digest,
        )
        if actual == wanted and ending_of(run.data, run.kb, manifest.run_id) != "concluded":
            stored = VersionTables.in_folder(run.version_dir(manifest.version), manifest)
            if all(
                _content_of(read_table(path, _CONTENT)) == _content_of(stored.read(path.name, _CONTENT))
                for path in (survey.tables.records, survey.tables.documents)
            ):
                return manifest
    return None


def _content_of(items: pa.Table) -> pa.Table:
    """The items of a table, sorted, without their times, which differ if a file was read again."""
    return items.sort_by([(name, "ascending") for name in _CONTENT])


def refused_before(run: Run, digest: str) -> Manifest | None:
    """A kept version with this content that the gate has refused before. Reusing it keeps nightly refusals from filling
    the disk.
    """
    for manifest in reversed(list_versions(run.index_dir)):
        same = manifest.digest == digest and manifest.declaration_sha256 == run.declaration.sha256
        if same and manifest.gate.verdict == "refused" and manifest.fingerprints.get("index") == run.stages["index"]:
            return manifest
    return None


class Mending:
    """Context manager of what makes a version of vectors: where those turn out to be damaged, it ends the block without
    an error, once, for the caller to begin it again, and to embed them anew.
    """

    def __init__(self, run: Run, survey: Survey) -> None:
        self._run, self._survey = run, survey
        self.is_done = False

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if not isinstance(error, DamagedVersion) or self.is_done:
            return False
        self.is_done = any(restore_lost(self._run, self._survey.tables, self._survey.live))
        if self.is_done:
            log.warning("vectors turned out to be damaged, and are made again", kb=self._run.kb, error=error.message)
            discard_unfinished(self._run.index_dir)
        return self.is_done
