"""Progress of long steps: a bar on the terminal, and a progress artifact in Prefect."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from prefect.artifacts import create_progress_artifact, update_progress_artifact
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from almanac.core.progress import OnProgress
from almanac.flows.artifacts import artifact_key
from almanac.flows.availability import tell_prefect
from almanac.flows.steps import in_flow_run

_ARTIFACT_EVERY_S = 2.0


@contextmanager
def show_progress(kb: str, step: str) -> Iterator[OnProgress]:
    """Yields the progress callback of one step. The bar is shown on terminals only, the artifact within flow runs
    only.
    """
    artifact: UUID | None = None
    if in_flow_run():
        described = {"key": artifact_key(kb, step), "description": f"{step} of {kb}"}
        artifact = tell_prefect(step, create_progress_artifact, 0.0, **described)
    last_sent = time.monotonic()

    def send(percent: float) -> None:
        if artifact is not None:
            tell_prefect(step, update_progress_artifact, artifact, progress=percent)

    with _terminal_bar() as bar:
        task = bar.add_task(f"{kb} {step}", total=None)

        def on_progress(done: int, total: int) -> None:
            nonlocal last_sent
            bar.update(task, completed=done, total=total or None)
            if time.monotonic() - last_sent >= _ARTIFACT_EVERY_S:
                last_sent = time.monotonic()
                send(min(100.0, 100.0 * done / max(total, 1)))

        yield on_progress
    send(100.0)


def _terminal_bar() -> Progress:
    columns = (
        TextColumn("{task.description:<24}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True)
