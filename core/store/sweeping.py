"""Sweeping: objects that no tree of CURRENT needs are removed from a store. Only the holder of the lock may do it."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from almanac.core.store.head import Head
from almanac.core.store.trees import objects_below
from almanac.core.store.working_copy import WorkingCopy

_BATCH = 200  # objects between two looks at the lock


class Swept(NamedTuple):
    """What was removed: the number of objects, and their bytes."""

    objects: int
    bytes: int


def sweep_objects(copy: WorkingCopy, head: Head, require_held: Callable[[], None], *, older_than_s: float) -> Swept:
    """Removes the objects that CURRENT does not need and that are older than that, by the clock of the store; returns
    what was removed.

    `require_held` raises where the lock was lost: whoever has it now may need what this process takes for unneeded.
    """
    needed: set[str] = set()
    if head.root:
        objects_below(head.root, copy.read_tree, needed)
    copy.notes.keep_trees(needed)
    copy.there &= needed
    listed = copy.objects.listed(f"objects/{copy.kb}/")
    gone = [
        (key, size) for key, size, age_s in listed if key.rpartition("/")[2] not in needed and age_s >= older_than_s
    ]
    for first in range(0, len(gone), _BATCH):
        require_held()
        copy.do_all([partial(copy.objects.delete, key) for key, _ in gone[first : first + _BATCH]])
    return Swept(len(gone), sum(size for _, size in gone))
