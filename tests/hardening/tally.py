"""Counts what a generator tried and what did not hold, and makes the table of docs/security.md: `python -m
tests.hardening.tally FOLDER`.

Where the variable HARDENING_ROWS names a folder, each whole run of a generator leaves its row there, as a JSON file.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from tests.conftest import ROOT
from tests.proof.base import TORTURE

PAGE = ROOT / "docs/security.md"
_HEADING = "## What generated attacks tried"
_HEAD = """

This section is written by `make hardening`, which runs every generator of attacks in `tests/hardening/` whole; `make test` tries a sample of each. They are
seeded: each run tries the same. What did not hold is named behind the number of tries, and is a defect.

"""  # noqa: E501
_T = TypeVar("_T")


@dataclass
class Tally:
    """Tries of one attack, and those that did not hold, with the finding of each."""

    attack: str
    promise: str
    least: int
    tries: int = 0
    fallen: list[str] = field(default_factory=list)

    def note(self, tried: object, finding: str | None = None, *, held: bool | None = None) -> None:
        """Notes a try: what it was, and either a finding (None where it held) or whether it held."""
        self.tries += 1
        if finding is not None or held is False:
            self.fallen.append(f"{tried!s:.300}: {finding or 'did not hold'}")

    def failures(self) -> str:
        return f"{self.attack}: did not hold: {'; '.join(self.fallen[:5])}".replace("\n", " ") if self.fallen else ""


@contextmanager
def tallied(attack: str, promise: str, least: int) -> Iterator[Tally]:
    """A tally that fails at the end of the block where something did not hold or, in a whole run, where fewer than
    `least` tries were made.
    """
    tally = Tally(attack, promise, least)
    yield tally
    if TORTURE and (folder := os.environ.get("HARDENING_ROWS")):
        name = "".join(character if character.isalnum() else "-" for character in attack)
        (Path(folder) / f"{name}.json").write_text(
            json.dumps({"attack": attack, "tries": tally.tries, "failures": tally.failures()}), encoding="utf-8"
        )
    assert tally.fallen == [], f"{promise}: {len(tally.fallen)} of {tally.tries}: {tally.fallen[:20]}"
    assert tally.tries >= (least if TORTURE else 1), f"{tally.tries} tries of {attack}"


def some(whole: Sequence[_T], sample: int) -> list[_T]:
    """All under torture, else as many, drawn as ever."""
    return list(whole) if TORTURE or len(whole) <= sample else Random(11).sample(list(whole), sample)


def _write(folder: Path) -> None:
    rows = sorted(
        (json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")), key=lambda row: row["attack"]
    )
    if not rows:
        raise SystemExit(
            f"{folder}: no rows; ALMANAC_TORTURE=1 HARDENING_ROWS={folder} pytest tests/hardening makes them"
        )
    total = f"\n{sum(row['tries'] for row in rows):,} tries in all.\n"
    before, heading, _ = PAGE.read_text(encoding="utf-8").partition(_HEADING)
    PAGE.write_text(before + heading + _HEAD + _list(rows) + total, encoding="utf-8")


def _list(rows: Sequence[dict[str, Any]]) -> str:
    """A line for each kind of attack, which is what stands before the colon of its name, with what did not hold."""
    lines = []
    for kind, group in groupby(rows, key=lambda row: row["attack"].partition(":")[0]):
        attacks = list(group)
        failures = "".join(f"; {row['failures']}" for row in attacks if row["failures"])
        lines.append(f"- {kind}: {sum(row['tries'] for row in attacks):,}{failures}\n")
    return "".join(lines)


if __name__ == "__main__":
    _write(Path(sys.argv[1]))
