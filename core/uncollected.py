"""Imports without garbage collection."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Collects no garbage inside the block, for imports: they make many objects and drop hardly any.

    Python would look through all of them again and again, a quarter of the time that it takes to import Prefect's server. What there is at the end of the
    block is never looked at again.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.freeze()
            gc.enable()
