"""The tables and charts that a run puts into the Prefect UI."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact

from almanac.core.logs import get_logger
from almanac.flows.reporting.chart import as_data_uri, draw_bars
from almanac.flows.reporting.history import COLUMNS, Made, history_panels, history_rows
from almanac.flows.reporting.tables import (
    DUPLICATE_COLUMNS,
    EXPECTATION_COLUMNS,
    GATE_COLUMNS,
    LEFT_OUT_COLUMNS,
    LIMIT_COLUMNS,
    LOST_COLUMNS,
    NOT_FETCHED_COLUMNS,
    TEXT_COLUMNS,
    as_records,
    diff_rows,
    duplicate_rows,
    expectation_rows,
    expectations_line,
    gate_rows,
    gate_title,
    left_out_rows,
    limit_rows,
    lost_rows,
    much_left_out,
    not_fetched_rows,
    plan_rows,
    retrieval_rows,
    summary_rows,
    text_rows,
)
from almanac.schemas.crawl_outcome import DECLARE_BODY
from almanac.schemas.errors import PrefectGone
from almanac.schemas.items import Reject
from almanac.schemas.reports import DiffResult, ExpectationResult, PlanResult, Recall, RunReport

log = get_logger("almanac.artifacts")
REJECTS_SHOWN = 50


def show_summary(report: RunReport) -> None:
    """The run's counters, the gate's checks, the pages that did not arrive, those whose text may be lost, and the
    duplicates, each as a table.
    """
    of = f"run {report.run_id} of {report.kb}"
    _table(report.kb, "summary", as_records(("what", "value"), summary_rows(report)), f"Summary of {of}")
    if report.gate is not None:
        _table(
            report.kb,
            "gate",
            as_records(GATE_COLUMNS, gate_rows(report.gate)),
            f"{gate_title(report.gate, report.previous)} ({of})",
        )
    if lost := lost_rows(report.sources):
        _table(
            report.kb,
            "missing pages",
            as_records(LOST_COLUMNS, lost),
            f"Pages that did not arrive, are gone or are left out, by reason ({of})",
        )
    if report.limits_reached:
        _table(
            report.kb,
            "limits",
            as_records(LIMIT_COLUMNS, limit_rows(report.limits_reached)),
            f"Crawls that a limit cut short ({of})",
        )
    if documents := not_fetched_rows(report.sources):
        _table(
            report.kb,
            "documents",
            as_records(NOT_FETCHED_COLUMNS, documents),
            f"Documents that pages link to and that are not fetched, by type ({of})",
        )
    if left_out := left_out_rows(report.sources):
        much = "".join(f"; {one}" for one in much_left_out(report.sources))
        _table(
            report.kb,
            "left out",
            as_records(LEFT_OUT_COLUMNS, left_out),
            f"Text that is left out on purpose{much} ({of})",
        )
    if texts := text_rows(report.sources):
        _table(
            report.kb,
            "texts",
            as_records(TEXT_COLUMNS, texts),
            f"Pages whose main text may not be found; {DECLARE_BODY} ({of})",
        )
    if duplicates := duplicate_rows(report):
        shown = (
            f"the first {len(duplicates)} of {report.items.deduplicated}"
            if report.items.deduplicated > len(duplicates)
            else "all"
        )
        _table(
            report.kb,
            "duplicates",
            as_records(DUPLICATE_COLUMNS, duplicates),
            f"Items that equal another one, and which: {shown} ({of})",
        )


def show_retrieval(kb: str, version: str, recall: Recall, live: Recall | None, k: int) -> None:
    """How many golden questions a version answers, compared with the live version, and the questions that it misses."""
    _table(
        kb,
        "retrieval",
        as_records(("golden questions", version, "live"), retrieval_rows(recall, live, k)),
        f"What {version} finds of its golden questions",
    )
    if recall.missed:
        _table(
            kb,
            "missed questions",
            [{"question": question} for question in recall.missed],
            f"Golden questions without their answer in {version}",
        )


def show_version(kb: str, version: str, digest: str, places: Mapping[str, Path]) -> None:
    """The paths of a version and its files. Plain text, because browsers refuse links from a page to local files."""
    lines = [
        f"## {kb} {version}",
        "",
        f"Digest `{digest}`",
        "",
        *(f"- {what}: `{place}`" for what, place in places.items()),
    ]
    _markdown(kb, "version", "\n".join(lines), f"Where {version} lies")


def show_history(kb: str, history: Sequence[Made]) -> None:
    """The versions as a chart and as a table."""
    if not history:
        return
    chart = as_data_uri(draw_bars([one.version for one in history], history_panels(history)))
    rows = [COLUMNS, ["---"] * 3 + ["---:"] * (len(COLUMNS) - 3), *history_rows(history)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    _markdown(kb, "history", f"![{kb} over its versions]({chart})\n\n{table}\n", f"{kb} from version to version")


def show_diff(diff: DiffResult) -> None:
    """How a new version differs from the one before."""
    _table(
        diff.kb, "diff", as_records(("what", "value"), diff_rows(diff)), f"{diff.kb}: {diff.to} against {diff.since}"
    )


def show_plan(plan: PlanResult) -> None:
    """The planned counts, and the verdict that the gate would give."""
    _table(plan.kb, "plan", as_records(("what", "value"), plan_rows(plan)), f"What a run of {plan.kb} would do now")
    _table(
        plan.kb, "plan gate", as_records(GATE_COLUMNS, gate_rows(plan.gate)), f"What the gate of {plan.kb} would say"
    )


def show_validation(kb: str, results: Sequence[ExpectationResult]) -> None:
    """The result of each declared rule, one row each."""
    _table(
        kb,
        "validation",
        as_records(EXPECTATION_COLUMNS, expectation_rows(results)),
        f"What is declared of the items of {kb}, and what holds",
    )


def show_validation_page(report: RunReport) -> None:
    """A link to the page of these results. It is a file on the machine of the run, so the path stands beside it."""
    if report.validation_page is not None:
        place = Path(report.validation_page)
        with shown_if_possible("validation page"):
            create_link_artifact(
                place.absolute().as_uri(),
                link_text=f"Expectations of {report.kb}",
                key=artifact_key(report.kb, "validation page"),
                description=f"{expectations_line(report.expectations)}. The page with values and URLs: `{place}`",
            )


def show_rejects(kb: str, first: Sequence[Reject], total: int) -> None:
    """The first rejects (at most REJECTS_SHOWN of `total`) with their reasons; rejects.jsonl holds all."""
    rows = [{name: str(value) for name, value in reject.as_json().items()} for reject in first]
    _table(kb, "rejects", rows, f"Items of {kb} that were quarantined: {total}")


def _table(kb: str, what: str, rows: list[dict[str, Any]], description: str) -> None:
    with shown_if_possible(what):
        create_table_artifact(rows, key=artifact_key(kb, what), description=description)


def _markdown(kb: str, what: str, markdown: str, description: str) -> None:
    with shown_if_possible(what):
        create_markdown_artifact(markdown, key=artifact_key(kb, what), description=description)


def artifact_key(kb: str, what: str) -> str:
    """An artifact key as Prefect accepts it: lower-case letters, digits and dashes."""
    return f"{kb}-{what}".replace("_", "-").replace(" ", "-")


@contextmanager
def shown_if_possible(what: str) -> Iterator[None]:
    """Logs an artifact that cannot be sent, so that the run goes on without it. That Prefect is gone is logged once,
    for all of them.
    """
    try:
        yield
    except PrefectGone:
        pass
    except Exception as error:  # whatever the API or the way to it raises
        log.warning("artifact not sent", artifact=what, error=f"{type(error).__name__}: {error}")
