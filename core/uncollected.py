"""What garbage collection need not look through: imports, and what a server has once it is ready."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_is_kept = False


@contextmanager
def uncollected() -> Iterator[None]:
    """Collects no garbage inside the block, for imports: they make many objects and drop hardly any.

    Python would look through all of them again and again, a quarter of the time that it takes to import Prefect's
    server. What there is at the end of the block is never looked at again.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.freeze()
            gc.enable()


def keep_what_is_there() -> None:
    """From now on, garbage collection looks through nothing that there is: of a server, a hundred thousand objects,
    while all of its requests wait.

    Objects are still freed with their last reference; those that refer to each other in circles are kept. So only the
    first call in a process does this.
    """
    global _is_kept
    if not _is_kept:
        _is_kept = True
        gc.freeze()
