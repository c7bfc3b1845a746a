"""The tables and charts that a run puts into the Prefect UI."""

from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact

from almanac.flows.availability import tell_prefect
from almanac.flows.pipeline.ledger import Ledger
from almanac.flows.pipeline.plan import foresee
from almanac.flows.pipeline.run import Run
from almanac.flows.pipeline.survey import Survey
from almanac.flows.reporting import report_tables as tables
from almanac.flows.reporting.chart import as_data_uri, draw_bars
from almanac.flows.reporting.diff import compare_versions
from almanac.flows.reporting.history import COLUMNS, history_of, history_panels, history_rows
from almanac.flows.reporting.report_tables import as_records
from almanac.index.versions.version_store import read_manifest
from almanac.schemas.crawl_outcome import DECLARE_BODY
from almanac.schemas.errors import DamagedVersion, NotFound
from almanac.schemas.reports import RunReport

_REJECTS_SHOWN = 50
_COUNTERS = ("what", "value")


def show_survey(run: Run, surveyed: Survey) -> None:
    """What the run is going to do, the verdict that the gate would give, what became of the declared rules, and the
    first rejects.
    """
    kb, plan, validated = run.kb, foresee(run, surveyed), surveyed.validated
    _table(kb, "plan", as_records(_COUNTERS, tables.plan_rows(plan)), f"What a run of {kb} would do now")
    gate = as_records(tables.GATE_COLUMNS, tables.gate_rows(plan.gate))
    _table(kb, "plan gate", gate, f"What the gate of {kb} would say")
    if results := validated.results():
        rules = as_records(tables.EXPECTATION_COLUMNS, tables.expectation_rows(results))
        _table(kb, "validation", rules, f"What is declared of the items of {kb}, and what holds")
    first = islice((reject for rejects in validated.rejects for reject in rejects.read()), _REJECTS_SHOWN)
    rows = [{name: str(value) for name, value in reject.as_json().items()} for reject in first]
    _table(kb, "rejects", rows, f"Items of {kb} that were rejected: {validated.rejected}")


def show_summary(report: RunReport) -> None:
    """The run's counters, the gate's checks, the pages that did not arrive, those whose text may be lost, and the
    duplicates, each as a table.
    """
    kb, run_name, sources = report.kb, f"run {report.run_id} of {report.kb}", report.sources
    _table(kb, "summary", as_records(_COUNTERS, tables.summary_rows(report)), f"Summary of {run_name}")
    if report.gate is not None:
        title = tables.gate_title(report.gate, report.previous)
        _table(kb, "gate", as_records(tables.GATE_COLUMNS, tables.gate_rows(report.gate)), f"{title} ({run_name})")
    much = "".join(f"; {sentence}" for sentence in tables.much_left_out(sources))
    duplicates, dropped = tables.duplicate_rows(report), report.items.deduplicated
    shown = f"the first {len(duplicates)} of {dropped}" if dropped > len(duplicates) else "all"
    for what, columns, rows, description in (
        (
            "missing pages",
            tables.LOST_COLUMNS,
            tables.lost_rows(sources),
            f"{tables.lost_title(sources)}, by reason",
        ),
        (
            "limits",
            tables.LIMIT_COLUMNS,
            tables.limit_rows(report.limits_reached),
            "Crawls that a limit cut short",
        ),
        (
            "documents",
            tables.NOT_FETCHED_COLUMNS,
            tables.not_fetched_rows(sources),
            "Files that pages link to and that are not fetched, by type",
        ),
        (
            "left out",
            tables.LEFT_OUT_COLUMNS,
            tables.left_out_rows(sources),
            f"Text that is left out on purpose{much}",
        ),
        (
            "texts",
            tables.TEXT_COLUMNS,
            tables.text_rows(sources),
            f"Pages whose main text may not be found; {DECLARE_BODY}",
        ),
        (
            "duplicates",
            tables.DUPLICATE_COLUMNS,
            duplicates,
            f"Items that equal another one, and which: {shown}",
        ),
    ):
        if rows:
            _table(kb, what, as_records(columns, rows), f"{description} ({run_name})")


def show_run(ledger: Ledger, report: RunReport) -> None:
    """The artifacts of a run that has come to a verdict."""
    run = ledger.run
    show_summary(report)
    _show_validation_page(report)
    if report.recall is not None and (version := report.version or report.previous) is not None:
        rows = tables.retrieval_rows(report.recall, ledger.live_recall, run.declaration.retrieve.k)
        table_rows = as_records(("golden questions", version, "live"), rows)
        _table(run.kb, "retrieval", table_rows, f"What {version} finds of its golden questions")
        if missed := [{"question": question} for question in report.recall.missed]:
            _table(run.kb, "missed questions", missed, f"Golden questions without their answer in {version}")
    if report.version is None:
        return
    _show_version(run, report, report.version)
    if report.outcome != "unchanged":
        _show_history(run)
        if report.previous and report.previous != report.version:
            with suppress(DamagedVersion, NotFound):  # the run has told what is wrong with the former one
                diff = compare_versions(run.index_dir, report.previous, report.version)
                differs = as_records(_COUNTERS, tables.diff_rows(diff))
                _table(run.kb, "diff", differs, f"{diff.kb}: {diff.to} against {diff.since}")


def _show_validation_page(report: RunReport) -> None:
    """A link to the page of what became of the rules. It is a file on the machine of the run, so the path stands beside
    it.
    """
    if report.validation_page is not None:
        place = Path(report.validation_page)
        tell_prefect(
            "validation page",
            create_link_artifact,
            place.absolute().as_uri(),
            link_text=f"Expectations of {report.kb}",
            key=artifact_key(report.kb, "validation page"),
            description=(f"{tables.expectations_line(report.expectations)}. The page with values and URLs: `{place}`"),
        )


def _show_version(run: Run, report: RunReport, version: str) -> None:
    """The paths of a version and its files. Plain text, because browsers refuse links from a page to local files."""
    places = [("manifest", run.version_dir(version) / "manifest.json"), ("report", run.report_file)]
    if report.rejects_file:
        places.append(("rejects", Path(report.rejects_file)))
    digest = read_manifest(run.index_dir, version).digest
    lines = [f"## {run.kb} {version}", "", f"Digest `{digest}`", "", *(f"- {what}: `{at}`" for what, at in places)]
    _markdown(run.kb, "version", "\n".join(lines), f"Where {version} lies")


def _show_history(run: Run) -> None:
    """The versions as a chart and as a table."""
    if history := history_of(run.data, run.kb):
        chart = as_data_uri(draw_bars([made.version for made in history], history_panels(history)))
        rows = [COLUMNS, ["---"] * 3 + ["---:"] * (len(COLUMNS) - 3), *history_rows(history)]
        table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        description = f"{run.kb} from version to version"
        _markdown(run.kb, "history", f"![{run.kb} over its versions]({chart})\n\n{table}\n", description)


def _table(kb: str, what: str, rows: list[dict[str, Any]], description: str) -> None:
    tell_prefect(what, create_table_artifact, rows, key=artifact_key(kb, what), description=description)


def _markdown(kb: str, what: str, markdown: str, description: str) -> None:
    tell_prefect(what, create_markdown_artifact, markdown, key=artifact_key(kb, what), description=description)


def artifact_key(kb: str, what: str) -> str:
    """An artifact key as Prefect accepts it: lower-case letters, digits and dashes."""
    return f"{kb}-{what}".replace("_", "-").replace(" ", "-")
