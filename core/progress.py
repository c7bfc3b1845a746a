"""How long work says how far it has come, without knowing who watches."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

OnProgress = Callable[[int, int], None]  # how much is done, and of how much as far as that is known; 0 where it is not
Show = Callable[[str], AbstractContextManager[OnProgress]]  # shows a step of that name for as long as the block runs


def ignore(_done: int, _total: int) -> None:
    """Nobody watches."""


def silent(_step: str) -> AbstractContextManager[OnProgress]:
    """Shows nothing."""
    return nullcontext(ignore)
