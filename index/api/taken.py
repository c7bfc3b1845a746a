"""What a model takes of a request, as its server says: newer models of OpenAI refuse `max_tokens`, which is named
`max_completion_tokens` there, and those that reason refuse a temperature.
"""

import json
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

from almanac.core.durable import write_file

# What may have to change: the option that is refused, and the one in its place; None: it is left out.
_CHANGES: Mapping[str, str | None] = {"max_tokens": "max_completion_tokens", "temperature": None}


class Taken:
    """The changes that a model's requests need, kept in a file for all processes.

    Args:
        path: The file; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def known(self) -> frozenset[str]:
        """The options that have to change. Where the file is damaged, that is found out again."""
        try:
            options = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return frozenset()
        return frozenset(_CHANGES).intersection(options if isinstance(options, list) else ())

    def keep(self, changes: Set[str]) -> None:
        """Keeps changes with which a request was answered."""
        if changes and changes != self.known():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_file(self._path, json.dumps(sorted(changes)), synced=False)


def change_for(refusal: str, changes: Set[str]) -> str | None:
    """The option that a server says it does not support, if it may be changed and is not in `changes` yet."""
    named = (option for option in _CHANGES if option in refusal and option not in changes)
    return next(named, None) if "support" in refusal.casefold() else None


def changed(options: Mapping[str, Any], changes: Set[str]) -> dict[str, Any]:
    """The options of a request with some of them changed."""
    named = {_CHANGES[name] if name in changes else name: value for name, value in options.items()}
    return {name: value for name, value in named.items() if name is not None}
