"""YAML that stands for more than it says, in declarations and in front matter."""

import json
import resource
from pathlib import Path

import pytest

from almanac.core.load import load_declaration
from almanac.schemas.errors import DeclarationError
from almanac.spiders.reading.front_matter import BrokenFrontMatter, split_front_matter
from tests.hardening.tally import some, tallied
from tests.hardening.yaml_bombs import yaml_bombs

_EACH_S = 8.0  # of processor time that a try may take


def _used_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _declared(text: str, folder: Path) -> str | None:
    path = folder / "kb.yaml"
    path.write_text(f"name: kb\n{text}\n", encoding="utf-8")
    try:
        load_declaration(str(path))
    except DeclarationError as error:
        message = f"{error.where} {error.message}"
        return None if f"{path}:" in message else f"no file and line: {message[:200]}"
    return "accepted"


def _read(text: str) -> str | None:
    try:
        values, _ = split_front_matter(f"---\n{text}\n---\n\nBody.\n")
    except BrokenFrontMatter as error:
        return None if error.line else "no line"
    written = len(json.dumps(values))
    return None if written < 4 << 20 else f"{written} characters"


@pytest.mark.filterwarnings("ignore:.*duplicate anchor")
def test_no_yaml_stands_for_more_than_it_says(tmp_path: Path) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    bombs = yaml_bombs()
    with tallied(
        "YAML: aliases, merges, circles, nesting, endless scalars",
        "declaration: refused with file and line; front matter: read or refused",
        150,
    ) as tally:
        for what, text in some(list(bombs.items()), 12):
            for place, find in (("declaration", lambda text: _declared(text, tmp_path)), ("front matter", _read)):
                begun = _used_s()
                finding = find(text)
                used_s = _used_s() - begun
                tally.note(f"{place}: {what}", finding or (None if used_s < _EACH_S else f"took {used_s:.1f} s"))
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) >> 10
        assert grown < 256, f"{grown} MiB more"
