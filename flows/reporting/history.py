"""The latest versions of a knowledge base with size, recall and duration, as table rows and chart panels."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

from almanac.core.settings import DataDir
from almanac.flows.pipeline.earlier_runs import newest_first
from almanac.flows.reporting.chart import Panel
from almanac.flows.reporting.report_tables import NOTHING, percent
from almanac.schemas.reports import RunReport

COLUMNS = ("version", "made", "outcome", "documents", "chunks", "embedded", "recall", "duration")
_VERSIONS = 30
_REPORTS = 1000  # an hourly refresh for six weeks; older versions are not told of


class Made(NamedTuple):
    """A version, as reported by the run that made it. `documents` counts all items: records and documents."""

    version: str
    made: str
    outcome: str
    documents: int
    chunks: int
    embedded: int
    recall: float | None
    seconds: float


def history_of(data: DataDir, kb: str) -> list[Made]:
    """The latest versions, oldest first, including refused and pruned ones."""
    made: dict[str, Made] = {}
    for report in islice(newest_first(data, kb), _REPORTS):
        # Runs that found nothing new name the version, too; only the first of them made it.
        if report.version is not None and report.outcome not in ("no_records", "failed"):
            made[report.version] = _made(report, report.version)
        if len(made) > _VERSIONS:
            break
    return [made[version] for version in sorted(made, key=lambda name: (len(name), name))[-_VERSIONS:]]


def _made(report: RunReport, version: str) -> Made:
    items = report.items
    return Made(
        version=version,
        made=report.finished_at,
        outcome=report.outcome.replace("_", " "),
        documents=items.added + items.changed + items.moved + items.unchanged,
        chunks=report.chunks.total,
        embedded=report.chunks.embedded,
        recall=report.recall.recall if report.recall is not None else None,
        seconds=sum(report.seconds.values()),
    )


def history_rows(history: Sequence[Made]) -> list[tuple[str, ...]]:
    """One row for each version, newest first."""
    return [
        (
            made.version,
            made.made.replace("T", " ").removesuffix("+00:00"),
            made.outcome,
            f"{made.documents:,}",
            f"{made.chunks:,}",
            f"{made.embedded:,}",
            NOTHING if made.recall is None else percent(made.recall),
            seconds(made.seconds),
        )
        for made in reversed(history)
    ]


def history_panels(history: Sequence[Made]) -> list[Panel]:
    """One panel for each measure, over the versions."""

    def panel(
        title: str, value: Callable[[Made], float | None], label: Callable[[float], str], top: float | None = None
    ) -> Panel:
        return Panel(title, [value(made) for made in history], label, top)

    return [
        panel("documents", lambda made: made.documents, lambda n: f"{n:,.0f}"),
        panel("chunks", lambda made: made.chunks, lambda n: f"{n:,.0f}"),
        panel("embedded", lambda made: made.embedded, lambda n: f"{n:,.0f}"),
        panel("recall", lambda made: made.recall, percent, 1.0),
        panel("duration", lambda made: made.seconds, seconds),
    ]


def seconds(value: float) -> str:
    """`75` → `1 min 15 s`."""
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
