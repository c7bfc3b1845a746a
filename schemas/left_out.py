"""A tally of text that was left out on purpose: by reason, how many blocks and how many characters."""

from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

Amount = dict[str, int]  # {"blocks": n, "characters": n}


class LeftOut(dict[str, Amount]):
    """Reason → amount. It is its own JSON: `{"hidden": {"blocks": 3, "characters": 412}}`. A reason is a word in snake_case; one without text is not there."""

    def add(self, reason: str, text: str) -> None:
        """Counts a block of text that is left out for that reason; nothing where it is blank."""
        if characters := characters_in(text):
            self._add(reason, 1, characters)

    def add_all(self, other: dict[str, Amount]) -> None:
        """Adds the amounts of another tally."""
        for reason, amount in other.items():
            self._add(reason, amount["blocks"], amount["characters"])

    def _add(self, reason: str, blocks: int, characters: int) -> None:
        before = self.get(reason, {"blocks": 0, "characters": 0})
        self[reason] = {"blocks": before["blocks"] + blocks, "characters": before["characters"] + characters}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """A field of a report. Where reports written before there were tallies hold a list of documents under this name, nothing was tallied."""
        counts = core_schema.no_info_before_validator_function(lambda value: {} if isinstance(value, list) else value, handler(dict[str, Amount]))
        return core_schema.no_info_after_validator_function(cls, counts)


def characters_in(text: str) -> int:
    """How many characters a text has, as tallies count them: runs of white space as one, none at its ends."""
    return len(" ".join(text.split()))
