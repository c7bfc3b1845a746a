"""The batches of a run, shared out: over its tasks, and to workers of a cluster, without knowing which cluster: `flows/cluster.py` does it on Dask."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from almanac.flows.pipeline.run import Run

_MOST_TASKS = 200  # of a run: Prefect keeps each, and its graph has to be read
_OTHER_TASKS = 15  # at most, beside one for each source
Span = tuple[int, int]  # first and last batch, numbered from 1


def spans_of(run: Run, batches: int) -> Iterator[Span]:
    """The batches of each task, first and last, from 1 on: one, or as many as keep a run below 200 tasks.

    Where workers map pages, half of these tasks are theirs, and half embed.
    """
    tasks = max(1, _MOST_TASKS - _OTHER_TASKS - len(run.declaration.sources)) // (1 if run.declaration.run.engine == "local" else 2)
    size = max(1, -(-batches // max(1, tasks)))
    yield from ((first + 1, min(first + size, batches)) for first in range(0, batches, size))


def span_name(what: str, span: Span) -> str:
    """The name of a task in Prefect: `map batch 3`, `embed checkpoints 1 to 4`."""
    first, last = span
    return f"{what} {first}" if first == last else f"{what}{'es' if what.endswith('ch') else 's'} {first} to {last}"


class FanOut(Protocol):
    """Calls a step for each span, in processes that share nothing with the run but the data directory."""

    def __call__(self, step: Callable[..., Any], run: Run, batches: Any, spans: Sequence[Span], name: Callable[[int, int], str]) -> Iterator[Any]:
        """Yields the results of `step(run, batches, first, last, wanted)`, in the order in which they come; `wanted` is what `worker.abilities` gives here.

        Args:
            step: a function of a module, which pickles by its name
            run: the run
            batches: the handle that the step takes
            spans: what is to be done
            name: names the first unfinished batch of a span, for errors

        Raises UsageError where a worker has other code or models than the run, OperationalError where a batch ends the workers that it is given to, or
        the cluster is gone; and what the step raises.
        """
