"""Progress reporting for long operations, independent of how the progress is displayed."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

OnProgress = Callable[[int, int], None]  # called with (done, total); total is 0 where it is not known
Show = Callable[[str], AbstractContextManager[OnProgress]]  # displays a step of the given name while the block runs


def ignore(_done: int, _total: int) -> None:
    """Progress callback that does nothing."""


def silent(_step: str) -> AbstractContextManager[OnProgress]:
    """Display that shows nothing."""
    return nullcontext(ignore)
