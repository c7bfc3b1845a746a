"""A tally of text that was left out on purpose: by reason, how many blocks and how many characters."""

from collections.abc import Callable
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

Amount = dict[str, int]  # {"blocks": n, "characters": n}
MUCH = 0.1  # of a text
# What to declare where much is left out for a reason. Of others, however much it is, nobody misses anything:
# navigation, prices that hold no more, feeds.
CURES = {
    "hidden": (
        "if it is meant, `hidden: true` reads it: beside the selector of a field, of `each`, or of a body, such "
        "as body: {css: body, hidden: true}"
    ),
    "prose_beside": "say where the text of these pages is: body: {css: …}, or body: all",
    "repeated_lines": "almanac test-url KB FILE shows what is left of a file",
    "no_pair": "almanac test-url KB FILE shows the pairs; without `format: faq` a file is a document, read as a whole",
    "deleted": "accept or reject the changes that the file tracks",
    "comments": "put into the text what is to be read",
}
# takes a reason, a text that is left out, and what it is the text of, which counts once
LeaveOut = Callable[[str, str, Any], None]


class LeftOut(dict[str, Amount]):
    """Reason → amount. It is its own JSON: `{"hidden": {"blocks": 3, "characters": 412}}`. A reason is a word in
    snake_case; one without text is not there.
    """

    def add(self, reason: str, text: str) -> None:
        """Counts a block of text that is left out for that reason; nothing where it is blank."""
        if characters := characters_in(text):
            self._add(reason, 1, characters)

    def add_all(self, other: dict[str, Amount]) -> None:
        """Adds the amounts of another tally."""
        for reason, amount in other.items():
            self._add(reason, amount["blocks"], amount["characters"])

    def much(self, characters: int) -> dict[str, float]:
        """Reasons of CURES for which more than MUCH of a text is left out, of which so many characters are kept → the
        share.
        """
        shares = {
            reason: amount["characters"] / (characters + amount["characters"])
            for reason, amount in self.items()
            if reason in CURES
        }
        return {reason: share for reason, share in shares.items() if share > MUCH}

    def give_back(self, characters: int, *reasons: str) -> None:
        """Takes so many characters off the amounts of some reasons, the first one first: they are not left out after
        all.
        """
        for reason in reasons:
            less = min(characters, self.get(reason, {"characters": 0})["characters"])
            characters -= less
            if less:
                self[reason] = {**self[reason], "characters": self[reason]["characters"] - less}
            if less and not self[reason]["characters"]:
                del self[reason]

    def _add(self, reason: str, blocks: int, characters: int) -> None:
        before = self.get(reason, {"blocks": 0, "characters": 0})
        self[reason] = {"blocks": before["blocks"] + blocks, "characters": before["characters"] + characters}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """A field of a report. Where reports written before there were tallies hold a list of documents under this
        name, nothing was tallied.
        """
        counts = core_schema.no_info_before_validator_function(
            lambda value: {} if isinstance(value, list) else value, handler(dict[str, Amount])
        )
        return core_schema.no_info_after_validator_function(cls, counts)


def untold(reason: str, text: str, what: Any) -> None:
    """The `LeaveOut` of readers whose text nobody tallies."""


def characters_in(text: str) -> int:
    """How many characters a text has, as tallies count them: runs of white space as one, none at its ends."""
    return len(" ".join(text.split()))
