"""adv_blns: strings that break programs, through every way in which text comes in; kept to the character where the
format can carry it.
"""

import csv
import html
import json
import tempfile
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

from almanac.schemas.items import Item
from tests.reference.figures import Figure
from tests.reference.journey import CONTENT, SourceContent, travel

Reading = Callable[[str], str]
_BINARY = 2  # strings that are mostly control characters: as a file of its own, each is refused as no text
_PAGE = (
    '<!DOCTYPE html><html><head><meta charset="utf-8"><title>t</title></head><body><p>Before.</p><p '
    'class="naughty">{}</p><p>After.</p></body></html>'
)


def adv_blns() -> Iterator[Figure]:
    strings: list[str] = json.loads((CONTENT / "adv_blns/blns.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder), strings)
        contents = travel("adv_blns", STRINGS=folder)
    for name in ("jsonl", "csv"):
        yield _compare_strings(
            f"{name}: to the character",
            strings,
            {item.document_id: item.fields["naughty"] or "" for item in contents[name].items},
            _exact,
        )
    for name in ("markdown", "text"):
        yield _compare_strings(f"{name}: to the character", strings, _texts(contents[name]), _exact, _BINARY)
    page = {_number(item): item for item in contents["html"].items}
    yield _compare_strings(
        "html: text field",
        strings,
        {number: item.fields["as_text"] or "" for number, item in page.items()},
        _collapsed,
        _BINARY,
    )
    yield _compare_strings(
        "html: readable field",
        strings,
        {number: item.fields["as_html"] or "" for number, item in page.items()},
        _without_spaces,
        _BINARY,
    )
    bodies = {number: item.text.removeprefix("Before.").removesuffix("After.") for number, item in page.items()}
    yield _compare_strings("html: body", strings, bodies, _visible, _BINARY)
    rejected = [
        reject.reason
        for name in ("markdown", "text", "html")
        for reject in contents[name].rejects
        if "not text" in reject.reason
    ]
    yield Figure("files that are no text, told", len(rejected), 3 * _BINARY, rejected)


def _write(folder: Path, strings: list[str]) -> None:
    for number, text in enumerate(strings):
        for suffix, content in (("md", text), ("txt", text), ("html", _PAGE.format(html.escape(text)))):
            (folder / f"{number}.{suffix}").write_bytes(content.encode("utf-8", "surrogatepass"))
    with (folder / "all.jsonl").open("w", encoding="utf-8") as lines:
        lines.writelines(
            json.dumps({"id": str(number), "naughty": text}, ensure_ascii=False) + "\n"
            for number, text in enumerate(strings)
        )
    with (folder / "all.csv").open("w", encoding="utf-8", newline="") as table:
        csv.writer(table).writerows([("id", "naughty"), *((str(number), text) for number, text in enumerate(strings))])


def _texts(content: SourceContent) -> dict[str, str]:
    return {_number(item): item.text for item in content.items}


def _number(item: Item) -> str:
    return Path(item.url).stem


def _compare_strings(
    what: str, strings: list[str], texts: dict[str, str], reading: Reading, refused: int = 0
) -> Figure:
    """How many of the strings in which there is anything to read are there as they were, read in a certain way."""
    wanted = {str(number): text for number, text in enumerate(strings) if text.strip("\ufeff").strip()}
    wrong = [
        f"{number}: {_shown(texts.get(number))}, expected {_shown(text)}"
        for number, text in wanted.items()
        if reading(texts.get(number, "")) != reading(text)
    ]
    return Figure(what, len(wanted) - len(wrong), len(wanted), wrong, floor=len(wanted) - refused)


def _exact(text: str) -> str:
    return text


def _collapsed(text: str) -> str:
    """What a text field of a page keeps: white space is single spaces, and control characters are no text in HTML."""
    return " ".join("".join(c for c in text if c.isspace() or unicodedata.category(c) != "Cc").split())


def _without_spaces(text: str) -> str:
    return "".join(_collapsed(text).split())


def _visible(text: str) -> str:
    """Without what prints nothing."""
    return "".join(c for c in _without_spaces(text) if unicodedata.category(c) not in ("Cf", "Cn"))


def _shown(text: str | None) -> str:
    return repr(text)[:90]
