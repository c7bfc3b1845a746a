"""Files that a test writes, read as a source of files reads them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from almanac.schemas.crawl_outcome import CrawlOutcome
from almanac.schemas.declaration.chunk_section import Chunk
from almanac.schemas.declaration.source import FilesSource
from almanac.schemas.items import Draft, Item, Reject
from almanac.spiders.crawling.read_files import read_files
from almanac.spiders.mapping.pages import map_pages
from almanac.spiders.reading.document import Document
from almanac.spiders.store.raw import RawStore
from almanac.transforms.chunking.chunker import Chunker
from almanac.transforms.prepare import prepare_items


def _read(
    folder: Path, files: Mapping[str, bytes | str], keys: Mapping[str, Any]
) -> tuple[CrawlOutcome, list[Draft], list[Reject]]:
    (folder / "in").mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / "in" / name).write_bytes(content.encode() if isinstance(content, str) else content)
    source = FilesSource.model_validate({"name": "f", "kind": "files", "glob": "in/*", **keys})
    raw = RawStore(folder / "raw")
    outcome = read_files(source, folder, raw, "r1")
    extractions = list(map_pages(raw.pages("r1"), source, "en"))
    drafts = [draft for extraction in extractions for draft in extraction.drafts]
    return outcome, drafts, [reject for extraction in extractions for reject in extraction.rejects]


def read_items(folder: Path, files: Mapping[str, bytes | str], **keys: Any) -> tuple[list[Draft], list[Reject]]:
    """Writes files, all of which can be fetched, reads them as a source declares, and gives drafts and rejects."""
    outcome, drafts, rejects = _read(folder, files, keys)
    assert outcome.pages.fetched == len(files)
    return drafts, rejects


def only_draft(drafts_and_rejects: tuple[list[Draft], list[Reject]]) -> Draft:
    """The draft that is all that files gave."""
    drafts, rejects = drafts_and_rejects
    assert (len(drafts), rejects) == (1, [])
    return drafts[0]


def read_with_refusals(
    folder: Path, files: Mapping[str, bytes | str], **keys: Any
) -> tuple[list[Draft], list[Reject], dict[str, str]]:
    """Drafts, rejects, and what was refused with its reason."""
    outcome, drafts, rejects = _read(folder, files, keys)
    return drafts, rejects, {failure.url: f"{failure.reason}: {failure.detail}" for failure in outcome.failures}


def cut_sections(folder: Path, files: Mapping[str, bytes | str], **keys: Any) -> list[tuple[dict[str, Any], str]]:
    """Metadata and text of the chunks by sections."""
    drafts, rejects, _ = read_with_refusals(folder, files, **keys)
    assert rejects == []
    source = FilesSource.model_validate({"name": "f", "kind": "files", "glob": "in/*", **keys})
    chunker = Chunker(Chunk.model_validate({"by": "sections", "unit": "words", "size": 200}), "en")
    items = prepare_items(drafts, source, "standard", language="en", workspace=None)
    return [(row.metadata, row.text) for item in items if isinstance(item, Item) for row in chunker.rows(item)]


def element_texts(document: Document) -> list[Any]:
    """The text of each element, or the rows of a table."""
    return [[list(row) for row in element.rows] or element.text for element in document.elements]
