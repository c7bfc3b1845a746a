"""A glob, matched name by name on the way down, as Python's `glob` matches it: `**` stands for any folders, and hidden
names are named on purpose only.
"""

import fnmatch
import glob
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

Rest = frozenset[int]  # places in a glob that a folder's path leads to; empty if nothing below it can match
_ANY_FOLDERS = "**"


def fixed_part(base: Path, pattern: str) -> tuple[Path, str]:
    """The folder in which a glob starts, and the rest of the glob."""
    parts = Path(pattern).parts
    fixed = next((number for number, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1)
    # Only the declared part is a pattern: the checkout may be in a folder called `[work]`.
    return Path(os.path.normpath(base.joinpath(*parts[:fixed]))), str(Path(*parts[fixed:]))


class GlobPattern:
    """The moving part of a glob."""

    def __init__(self, pattern: str) -> None:
        self._parts = Path(pattern).parts
        self._rules = [
            re.compile(fnmatch.translate(part)).match if glob.has_magic(part) else None for part in self._parts
        ]
        self.start: Rest = self._closed({0})

    def below(self, rest: Rest, name: str) -> Rest:
        """What is left of the glob in the folder `name`."""
        reached = {
            place if self._parts[place] == _ANY_FOLDERS else place + 1 for place in rest if self._fits(place, name)
        }
        return self._closed(reached) if reached else frozenset()

    def names(self, rest: Rest, name: str) -> bool:
        """Whether the file `name` matches."""
        return any(place == len(self._parts) - 1 and self._fits(place, name) for place in rest)

    def after(self, folders: Iterable[str]) -> Rest:
        """What is left of the glob below a path of folders."""
        rest = self.start
        for name in folders:
            rest = self.below(rest, name)
        return rest

    def matches(self, path: Sequence[str]) -> bool:
        """Whether a file's path, in its parts, matches."""
        return self.names(self.after(path[:-1]), path[-1])

    def _closed(self, places: Iterable[int]) -> Rest:
        """The places with those behind `**`, which may stand for no folder; the end is no place."""
        closed = set()
        for place in places:
            while place < len(self._parts):
                closed.add(place)
                if self._parts[place] != _ANY_FOLDERS:
                    break
                place += 1
        return frozenset(closed)

    def _fits(self, place: int, name: str) -> bool:
        part, rule = self._parts[place], self._rules[place]
        if rule is None:
            return name == part
        return (part.startswith(".") or not name.startswith(".")) and rule(name) is not None
