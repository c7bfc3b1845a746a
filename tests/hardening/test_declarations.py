"""Good declarations with one mistake each: exit code 2, the file, the line of the mistake, and a way out."""

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from almanac.core.load import load_declaration
from almanac.schemas.errors import DeclarationError
from tests.conftest import ROOT, Almanac
from tests.hardening.tally import some, tallied

_KEY = re.compile(r"(?:(?<=[\s{,])|^)([a-z_]+):(?=\s)(?:[ ]+([^#{\[|>\s,}][^#,}\n]*))?")
_FREE = {
    "fields",
    "headers",
    "cookies",
    "labels",
    "values",
    "synonyms",
    "weights",
    "parts",
    "replace",
    "lookup",
    "map",
    "const",
    "boosts",
}  # whose keys are anybody's
# A value that is wrong for a key, wherever it stands.
_WRONG: dict[str, list[str]] = {
    **{key: ["'h1[('", "'(['", "[1]", "{a: 1}", "''"] for key in ("css", "xpath", "json")},
    **{key: ["'h1[('", "'(['", "[1]", "{a: 1}"] for key in ("match", "pattern")},
    **{key: ["'{unclosed'", "'unopened}'", "{a: 1}", "[a]"] for key in ("title", "text", "id", "body")},
    **{
        key: ["nonsense", "7", "[]", "{}", "''"]
        for key in ("kind", "yields", "provider", "type", "by", "format", "mode", "as", "on_fail")
    },
    **{
        key: ["many", "-1", "1.5", "{}", "[1]", "1e400", ".nan", "true"]
        for key in ("size", "overlap", "k", "pages", "depth", "seconds", "dimension", "max_pages", "step")
    },
    **{key: ["perhaps", "7", "[]", "{}", "''"] for key in ("required", "robots", "noindex", "allow_private", "links")},
    "name": ["'Bad Name'", "''", "[]", "7", "../up", "'a\\0b'"],
    "start_urls": [
        "'http://x.test/'",
        "[ftp://x.test/]",
        "[7]",
        "['http://']",
        "['http://user:pass@x.test/']",
        "{a: 1}",
    ],
    "schedule": ["every day", "'* * *'", "7", "[]"],
    "metadata": ["[no_such_field]", "text", "[[a]]", "{a: 1}"],
    "glob": ["[]", "''", "{a: 1}"],
    "language": ["7", "[]", "{}"],
    "collection": ["'-'", "'a/b'", "[]", "''"],
    "floor": ["high", "7", "[]", ".inf"],
    "confident": ["high", "7", "[]", ".nan"],
    "sources": ["[]", "7", "{a: 1}", "nothing"],
    "delay_s": ["-1", ".inf", "long", "[]"],
    "expect": ["7", "nothing", "[7]"],
    "bytes_per_page": ["16 gigs", "-1", "[]"],
    "max_rejected": ["300%", "some", "[]", "-1"],
    "max_lost": ["300%", "some", "[]", "-1"],
    "max_failed": ["300%", "some", "[]", "-1"],
}
_BROKEN = [
    "\tname: tab",
    "  : :",
    "a: *nowhere",
    "a: !!python/object/apply:os.system [id]",
    "a: &a [*a",
    "a: 'open",
    "- item",
    "a: {b",
    "%YAML 9.9",
    "? [a]: b: c",
    "a: \x07",
]


class _Mistake(NamedTuple):
    what: str
    line: int  # 1 for the first
    text: str


def _examples() -> dict[str, str]:
    texts = {
        path.name: path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "knowledge").glob("*.yaml"))
        if path.name.count(".") == 1
    }
    texts |= {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests/reference").glob("*.yaml"))}
    return {
        name: texts[name]
        .replace("${SITE}", "http://127.0.0.1:9")
        .replace("${CONTENT}", "content")
        .replace("${STRINGS}", "strings")
        .replace("${EVAL}", "eval")
        for name in some(list(texts), 3)
    }


def _tree(text: str) -> Any:
    try:
        return YAML(typ="safe").load(text)
    except YAMLError:
        return None


def _paths(value: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*at, str(key))
            yield from _paths(inner, (*at, str(key)))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _paths(inner, (*at, str(number)))


def _misspelt(key: str, random: Random) -> str:
    place = random.randrange(len(key))
    return random.choice(
        [
            key[:place] + key[place + 1 :],
            key[: place + 1] + key[place:],
            key + "s",
            key.upper(),
            key.replace("_", "-") + "x",
            f"{key[1:]}{key[0]}",
        ]
    )


def _mistakes(text: str, random: Random) -> Iterator[_Mistake]:
    lines, whole = text.splitlines(), _tree(text)
    known = set(_paths(whole))
    for number, line in enumerate(lines):
        for match in _KEY.finditer(line.partition("#")[0]):
            key = match[1]
            misspelt = _misspelt(key, random)
            changed = _with(lines, number, line[: match.start(1)] + misspelt + line[match.end(1) :])
            new = set(_paths(_tree(changed))) - known
            if len(new) and all(path[-1] == misspelt or misspelt in path for path in new):
                place = min(new, key=len)
                if (
                    misspelt != key and not _FREE.intersection(place[:-1]) and place[:-1] not in known | {()}
                ) or _is_strict(place):
                    yield _Mistake(f"{key} → {misspelt}", number + 1, changed)
            if match[2] and key in _WRONG:
                for wrong in _WRONG[key]:
                    changed = _with(lines, number, line[: match.start(2)] + wrong + line[match.end(2) :])
                    after = set(_paths(_tree(changed)))
                    if (
                        known - after <= set()
                        and _is_strict(next((path for path in known if path[-1] == key), (key,)))
                        and not _is_named(line, match.start(1), key)
                    ):
                        yield _Mistake(f"{key}: {wrong}", number + 1, changed)
        if re.match(r"[a-z_]+:", line):
            yield _Mistake(
                f"{line.partition(':')[0]} twice", number + 1, "\n".join([*lines, line.partition(":")[0] + ": 1"])
            )
            unknown = random.choice(["javascript", "extra", "sourcess", "x-note", "embedding"])
            yield _Mistake(f"unknown key {unknown}", number + 1, _with(lines, number, f"{unknown}: 1\n{line}"))
            yield _Mistake(
                f"broken: {(broken := random.choice(_BROKEN))!r}", 0, _with(lines, number, f"{broken}\n{line}")
            )


def _is_strict(path: tuple[str, ...]) -> bool:
    """Whether the keys of the mapping in which a path ends are the declaration's own."""
    return not _FREE.intersection(path[:-1][-1:])


def _is_named(line: str, start: int, key: str) -> bool:
    """Whether a key is the name of a declared field, such as `title: {css: h1}`: then nobody knows what may stand
    there.
    """
    is_title = key == "title" and not start  # of the knowledge base, which may be anything
    return is_title or (
        key in ("title", "text", "id", "body", "name") and start > 4 and not line.lstrip().startswith("-")
    )


def _with(lines: list[str], number: int, line: str) -> str:
    return "\n".join([*lines[:number], line, *lines[number + 1 :]]) + "\n"


def _all() -> list[tuple[str, _Mistake]]:
    random = Random(53)
    return [(name, mistake) for name, text in _examples().items() for mistake in _mistakes(text, random)]


def _finding(path: Path, mistake: _Mistake) -> str | None:
    path.write_text(mistake.text, encoding="utf-8")
    try:
        load_declaration(str(path))
    except DeclarationError as error:
        message = f"{error.where} {error.message}"
        if str(path) not in message:
            return f"names no file: {message}"
        if not error.hint:
            return f"no way out: {message}"
        line = mistake.line
        is_told = re.search(rf":{line}\b|line {line}\b", message) if line else re.search(r":\d+\b|line \d+\b", message)
        # what lacks it is told, and nobody can know which key was meant
        is_without_kind = mistake.what.startswith("kind →") and "kind: is required" in message
        return None if is_told or is_without_kind else f"not line {line}: {message}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "accepted"


def test_a_mistake_is_told_with_its_file_its_line_and_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("QUOTES_URL", "VOYAGO_URL", "SITE_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    promise = (
        "refused with the file, the line and a way out (misspelt, unknown, repeated keys; wrong types, "
        "references, selectors, patterns, templates; broken YAML)"
    )
    with tallied("Declarations with one mistake", promise, 1_000) as tally:
        for name, mistake in some(_all(), 250):
            tally.note(f"{name}:{mistake.line}: {mistake.what}", _finding(tmp_path / name, mistake))


@pytest.mark.slow
def test_the_command_ends_with_2(almanac: Almanac, tmp_path: Path) -> None:
    with tallied(
        "Declarations with one mistake: `almanac validate`",
        "exit code 2, one document with file, line and hint, no traceback",
        60,
    ) as tally:
        for name, mistake in Random(59).sample(_all(), 60)[: len(some(range(60), 3))]:
            path = tmp_path / name
            path.write_text(mistake.text, encoding="utf-8")
            done = almanac("validate", str(path), "--json")
            error = done.json.get("error", {}) if done.stdout else {}
            is_fine = (
                done.code == 2
                and error.get("kind") == "declaration_error"
                and error.get("hint")
                and str(path) in str(error)
                and "Traceback" not in done.stderr
            )
            tally.note(f"{name}: {mistake.what}", held=bool(is_fine))
