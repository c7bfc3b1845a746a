"""The batches of a run, shared out: over its tasks, and to workers of a cluster, without knowing which cluster:
`flows/cluster.py` does it on Dask.
"""

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from almanac.core.durable import remove, write_file
from almanac.flows.pipeline.run import Run

_MOST_TASKS = 200  # of a run: Prefect keeps each, and its graph has to be read
_OTHER_TASKS = 15  # at most, beside one for each source
DEATHS = 3  # of workers at the same batch, which ends the run
Span = tuple[int, int]  # first and last batch, numbered from 1


@dataclass(frozen=True)
class Unfinished:
    """The first batch of a span that is not done, the last one where all are: what errors call it, and how many workers
    have died at it in this run.
    """

    name: str
    deaths: int


@contextmanager
def at_batch(run: Run, what: str, number: int | str) -> Iterator[None]:
    """Notes in the staging folder that a worker is at a batch. A note that is left tells of a worker that died
    there.
    """
    note = run.staging / f"{_notes(what, number)}{secrets.token_hex(8)}"
    write_file(note, "", synced=False)
    try:
        yield
    finally:
        remove(note, synced=False)


def deaths_at(run: Run, what: str, number: int | str) -> int:
    """How many workers have died at a batch in this run."""
    return sum(1 for _ in run.staging.glob(f"{_notes(what, number)}*"))


def _notes(what: str, number: int | str) -> str:
    return f"at-{what}-{number}-"


def most_tasks(run: Run) -> int:
    """The tasks of a step with batches, so that a run stays below 200 of them. Of a cluster's four such steps each has
    a quarter, and more for many threads.
    """
    return max(
        1,
        max(1, _MOST_TASKS - _OTHER_TASKS - len(run.declaration.sources))
        // (1 if run.declaration.run.engine == "local" else 4),
    )


def spans_of(run: Run, batches: int) -> Iterator[Span]:
    """The batches of each task, first and last, from 1 on: one, or as many as keep a step below its most tasks."""
    size = max(1, -(-batches // most_tasks(run)))
    yield from ((first + 1, min(first + size, batches)) for first in range(0, batches, size))


def each_alone(batches: int) -> list[Span]:
    """Spans of one batch: who shares them out gives several at once where that suits."""
    return [(number, number) for number in range(1, batches + 1)]


def span_name(what: str, span: Span) -> str:
    """The name of a task in Prefect: `map batch 3`, `embed checkpoints 1 to 4`."""
    first, last = span
    return f"{what} {first}" if first == last else f"{what}{'es' if what.endswith('ch') else 's'} {first} to {last}"


class FanOut(Protocol):
    """Calls a step for each span, in processes that share nothing with the run but the data directory."""

    def __call__(
        self,
        step: Callable[..., Any],
        run: Run,
        batches: Any,
        spans: Sequence[Span],
        unfinished: Callable[[int, int], Unfinished],
    ) -> Iterator[Any]:
        """Yields the results of `step(run, batches, first, last, wanted)`, in the order in which they come; `wanted` is
        what `worker.abilities` gives here.

        Args:
            step: a function of a module, which pickles by its name
            run: the run
            batches: the handle that the step takes
            spans: what is to be done
            unfinished: looks what is the first batch of a span that is not done

        Raises UsageError where a worker has other code or models than the run, OperationalError where DEATHS workers
        die at the same batch, or the cluster is gone; and what the step raises.
        """
