"""Proposes sources for a file or a folder: one for each format that has rows, and documents."""

import glob
import os
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

from almanac.core.settings import document
from almanac.schemas.declaration.source import FilesSource
from almanac.schemas.errors import NoRecords, NotFound
from almanac.schemas.items import Page
from almanac.spiders.crawling.find_files import FoundFile, find_files
from almanac.spiders.crawling.read_files import read_file
from almanac.spiders.mapping.diagnose import identifier
from almanac.spiders.mapping.parts import Part, read_parts
from almanac.spiders.proposing.proposal import ProposedSource, counted, field_name
from almanac.spiders.proposing.rows_to_fields import TITLES, fields_of, id_of
from almanac.spiders.reading.content import Content
from almanac.spiders.reading.formats import has_known_name
from almanac.spiders.reading.language import UNDETERMINED, language_of, language_of_values

_ROWS = (".csv", ".tsv", ".tab", ".json", ".jsonl", ".ndjson")
_LOOKED_AT = 100  # rows of a file


def propose_files(path: Path, folder: Path, language: str | None = None) -> list[ProposedSource]:
    """The sources that a file, or the files below a folder, speak for, with globs relative to the declaration's
    `folder`. Raises NotFound where there is none, NoRecords where it cannot be read.
    """
    listed = find_files(path, "**/*") if path.is_dir() else [FoundFile(path.name, str(path))] * path.is_file()
    files = sorted(Path(file.path) for file in listed if isinstance(file, FoundFile) and has_known_name(file.url))
    if not files:
        raise NotFound(
            "no file that can be read",
            where=str(path),
            hint=f"{document('sources.md')} lists formats; a URL begins with https://",
        )
    numbers = Counter(file.suffix for file in files)
    # one glob for all documents, but beside rows, which it would name, too
    suffixes = (
        [*numbers] if len(numbers) == 1 or any(suffix.lower() in (*_ROWS, ".xlsx") for suffix in numbers) else [""]
    )
    base = glob.escape(os.path.relpath(path, folder))
    proposed, left = list[ProposedSource](), list[str]()
    for suffix in suffixes:
        seen = ", ".join(counted(numbers[kind], f"{kind} file") for kind in numbers if kind.endswith(suffix))
        name = field_name(suffix) or "files"
        is_taken = any(other.keys["name"] == name for other in proposed)  # of .md and .MD
        source = ProposedSource({"name": f"{name}-{len(proposed)}" if is_taken else name, "kind": "files"})
        source.declare("glob", f"{base}/**/*{suffix}" if path.is_dir() else base, seen)
        first = next(file for file in files if file.suffix.endswith(suffix))
        try:
            _look(source, first, language)
        except ValueError as error:
            if path.is_file() or suffix.lower() in _ROWS:
                left.append(f"left out: {seen}; {first.name}: {error}")
                continue
            source.declare_documents()
            source.remarks.append(f"{first.name} cannot be read: {error}")
        proposed.append(source)
    if not proposed:
        raise NoRecords(
            "; ".join(left), where=str(path), hint="almanac test-url KB FILE says what is wrong with a file"
        )
    proposed[-1].remarks += left
    return proposed


def _look(proposed: ProposedSource, path: Path, language: str | None) -> None:
    """Declares what a file shows: the fields of its rows, or a text. Raises ValueError where it cannot be read."""
    source = FilesSource(name="look", kind="files", glob="*", yields="records")
    page = read_file(source, FoundFile(path.name, os.path.realpath(path)))
    if not isinstance(page, Page):
        raise ValueError(f"{page.reason}: {page.detail}")
    content = Content.from_page(page, source, language or "")
    is_sheet, rows = content.form == "xlsx", list[dict[str, Any]]()
    if is_sheet:
        names = content.selector.css("tr:first-child th").xpath("normalize-space(.)").getall()
        cells = [row.css("td").xpath("normalize-space(.)").getall() for row in content.selector.css("tr")]
        rows = [dict(zip(names, row, strict=True)) for row in cells if names and len(row) == len(names)]
    elif path.suffix.lower() in _ROWS:
        rows = [part.own for part in islice(read_parts(content, source), _LOOKED_AT) if isinstance(part, Part)]
    spoken = language or (language_of_values([*rows]) if rows else language_of(content, "auto"))
    proposed.language = None if spoken == UNDETERMINED else spoken
    fields, left = fields_of(rows, spoken)
    if not fields and path.suffix.lower() in _ROWS:
        raise ValueError("no rows with values")
    if not fields:
        proposed.declare_documents()
        return
    if is_sheet:
        proposed.declare("each", {"xpath": "//tr[td]"}, "rows below the names of columns")
        columns = {identifier(column): number for number, column in enumerate(names, start=1)}
        fields = {name: {"css": f"td:nth-child({columns[rule.pop('json')]})", **rule} for name, rule in fields.items()}
    proposed.declare_records(fields, TITLES, f"{path.name}, {counted(len(rows), 'row')}{left}", id_of(fields, rows))
