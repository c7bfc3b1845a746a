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
            print_json({"words": [one._asdict() for one in words]})
            return
        say(textwrap.fill(", ".join(sorted(one.name for one in words)), width()))
        say("  → almanac explain WORD")
        return
    asked = " ".join(word).lower().replace("_", " ")
    found = next((one for one in words if {asked, asked.removesuffix("s")} & one.answers_to()), None)
    if found is None:
        from almanac.schemas.declaration.near_words import did_you_mean

        close = did_you_mean(asked, [one.name for one in words])
        raise UsageError(
            f"commands print no word '{asked}'{close}", where="WORD", hint="almanac explain lists those there are"
        )
    if as_json:
        print_json(found._asdict())
        return
    say(found.name + (f" ({found.json} in JSON)" if found.json else ""))
    for line in (found.means, f"Printed by: {found.printed}", f"What to do: {found.do}"):
        say(textwrap.fill(line, width(), initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False))
