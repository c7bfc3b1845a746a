"""`almanac explain`: what each word means that commands print. The words stand in words.yaml."""

import textwrap
from functools import cache
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from almanac.cli.options import Json
from almanac.cli.output import print_json, say, width
from almanac.schemas.errors import UsageError


class Word(NamedTuple):
    """A word that commands print; `json` is what it is called in JSON, where that is another, and `also` are words that
    it explains along.
    """

    name: str
    means: str
    printed: str
    do: str
    json: str | None = None
    also: str | None = None

    def answers_to(self) -> set[str]:
        """Its name, those in JSON, what it explains along, and each without an s."""
        named = {self.name, *f"{self.json or ''}, {self.also or ''}".replace("_", " ").split(", ")} - {""}
        return named | {name.removesuffix("s") for name in named}


@cache
def printed_words() -> tuple[Word, ...]:
    """All words, in the order of the file."""
    from ruamel.yaml import YAML

    table = YAML(typ="safe").load((Path(__file__).parent / "words.yaml").read_text(encoding="utf-8"))
    return tuple(Word(name=name, **about) for name, about in table.items())


def explain(
    word: Annotated[
        list[str] | None, typer.Argument(metavar="[WORD]", help="default: all of them, by name", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what a word means that commands print, where it is printed, and what to do."""
    words = printed_words()
    if not word:
        if as_json:
            print_json({"words": [entry._asdict() for entry in words]})
            return
        say(textwrap.fill(", ".join(sorted(entry.name for entry in words)), width()))
        say("  → almanac explain WORD")
        return
    wanted = " ".join(word).lower().replace("_", " ")
    entry = next((entry for entry in words if {wanted, wanted.removesuffix("s")} & entry.answers_to()), None)
    if entry is None:
        from almanac.schemas.declaration.near_words import did_you_mean

        close = did_you_mean(wanted, [entry.name for entry in words])
        raise UsageError(
            f"commands print no word '{wanted}'{close}", where="WORD", hint="almanac explain lists those there are"
        )
    if as_json:
        print_json(entry._asdict())
        return
    say(entry.name + (f" ({entry.json} in JSON)" if entry.json else ""))
    for line in (entry.means, f"Printed by: {entry.printed}", f"What to do: {entry.do}"):
        say(textwrap.fill(line, width(), initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False))
