"""Steps of the pipeline as tasks of Prefect."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from prefect import Task
from prefect.cache_policies import NO_CACHE
from prefect.context import FlowRunContext
from prefect.utilities.annotations import opaque, quote

from almanac.flows.pipeline.handles import HANDLES

_P = ParamSpec("_P")
_R = TypeVar("_R")


def in_flow_run() -> bool:
    """Whether Prefect carries this out. Tests and benchmarks take the same steps below it."""
    return FlowRunContext.get() is not None


class StepTask(Task[_P, _R]):
    """A step as a task: named as the function is, and without stored results, since steps return handles to files.
    Outside of a flow run it is the function.
    """

    def __init__(self, step: Callable[_P, _R], **options: Any) -> None:
        name = options.pop("name", step.__name__.replace("_", " "))
        named = {"name": name, "task_run_name": name, **options}
        super().__init__(step, cache_policy=NO_CACHE, persist_result=False, **named)

    def __call__(self, *arguments: _P.args, **named: _P.kwargs) -> _R:  # type: ignore[override]  # no other results
        """Prefect searches all arguments for results of other tasks, which become the edges of the graph, and mistakes
        equal texts and numbers for such results. Therefore it sees handles but not their contents, and no other
        argument.
        """
        if not in_flow_run():
            return self.fn(*arguments, **named)
        return super().__call__(*map(_shown, arguments), **named)


def _shown(argument: Any) -> Any:
    if isinstance(argument, tuple):
        return tuple(map(_shown, argument))
    return opaque(argument) if isinstance(argument, HANDLES) else quote(argument)
