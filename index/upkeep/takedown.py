"""Takedowns: the list of forgotten URLs, and the removal of their content from versions and tables.

`<index_dir>/forgotten.jsonl` has one line per takedown. The line is written before anything is erased and marked as done at the end, so that a takedown
interrupted by a kill is completed by the next run or takedown. Listed URLs are never fetched again, and no item is made from them.
"""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict

from almanac.core.durable import remove, write_file
from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS, TableWriter, batches_of, read_batches, schema_of
from almanac.index.build.derived import derive
from almanac.index.build.digest import digest_of
from almanac.index.embedding.model_folder import describe_embedder
from almanac.index.upkeep.rebuild import TABLES, hidden_folder, replace_version, require_tables
from almanac.index.versions.lock import Lease
from almanac.index.versions.store import read_manifest, read_pointer, version_dir, version_names, version_number
from almanac.schemas.declaration.embed import Embed
from almanac.schemas.errors import AlmanacError, DamagedVersion, StorageError
from almanac.schemas.hashing import checked, unchecked
from almanac.schemas.manifest import Counts, Derived, Manifest

_RECORD = "forgotten.jsonl"
_BATCH = 5000  # rows
_SHOWN = 200  # characters of an unreadable line


class Takedown(BaseModel):
    """One takedown, as recorded in `forgotten.jsonl`. Times are ISO 8601, in UTC."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str  # as requested
    urls: list[str]  # all URLs by which the page is known
    at: str
    why: str | None = None
    keys: list[str] = []  # vector keys that may have to be removed; empty once the takedown is done
    done_at: str | None = None  # when everything was erased; None until then


@dataclass
class UrlContent:
    """The content that belongs to some URLs."""

    items: set[tuple[str, str]] = field(default_factory=set)  # (source, document_id)
    chunks: set[str] = field(default_factory=set)  # chunk ids
    keys: set[str] = field(default_factory=set)  # vector keys
    is_whole: bool = True  # False where a table could not be read, so that there may be more

    def add(self, other: "UrlContent") -> None:
        self.items |= other.items
        self.chunks |= other.chunks
        self.keys |= other.keys


def takedowns(index_dir: Path) -> list[Takedown]:
    """Returns all takedowns in file order. Raises StorageError for an unreadable line, since the URLs that it forbids are unknown."""
    path = index_dir / _RECORD
    if not path.is_file():
        return []
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").split("\n"), start=1):
        try:
            found += [_takedown_in(line)] if line.strip() else []
        except ValueError as error:
            hint = f"bring the file back from a backup; or remove the line, and then almanac forget KB URL --anyway for the URL that it names: {line[:_SHOWN]}"
            raise StorageError("a takedown cannot be read, and what it forbids is not known", where=f"{path}:{number}", hint=hint) from error
    return found


def _takedown_in(line: str) -> Takedown:
    """The takedown in a line. Raises ValueError where the line was altered."""
    return Takedown.model_validate(unchecked(json.loads(line)))


def _line_of(takedown: Takedown) -> str:
    """A takedown with a hash of itself: a bit that flips in a URL must not bring its page back."""
    values = json.loads(json.dumps(takedown.model_dump(), ensure_ascii=False).encode("utf-8", "replace"))
    return json.dumps(checked(values), ensure_ascii=False) + "\n"


def forgotten_urls(index_dir: Path) -> frozenset[str]:
    """Returns all URLs that were taken down; they must not be fetched, and no item may be made from them."""
    return frozenset(url for takedown in takedowns(index_dir) for url in takedown.urls)


def note_takedown(index_dir: Path, takedown: Takedown) -> None:
    """Records a takedown, replacing an earlier one of the same URL."""
    lines = {one.url: one for one in takedowns(index_dir)} | {takedown.url: takedown}
    write_file(index_dir / _RECORD, "".join(map(_line_of, lines.values())))


def find_in_tables(folder: Path, urls: Collection[str]) -> UrlContent:
    """Returns the content of these URLs in the tables of a version or of the latest run. Raises DamagedVersion where a table cannot be read."""
    found = UrlContent()
    for name in (RECORDS, DOCUMENTS):
        if (folder / name).is_file():
            for rows in _under(folder / name, ["source", "document_id", "url"], urls):
                found.items |= set(zip(rows.column("source").to_pylist(), rows.column("document_id").to_pylist(), strict=True))
    if (folder / CHUNKS).is_file():
        for rows in _under(folder / CHUNKS, ["chunk_id", "text_sha256", "url"], urls):
            found.chunks |= set(rows.column("chunk_id").to_pylist())
            found.keys |= set(rows.column("text_sha256").to_pylist())
    return found


def urls_in_tables(folder: Path) -> Iterator[str]:
    """Yields the URLs of all items in the tables of a folder; missing and unreadable tables are skipped."""
    for name in (RECORDS, DOCUMENTS):
        try:
            for batch in read_batches(folder / name, ["url"], rows=_BATCH):
                yield from batch.column(0).to_pylist()
        except DamagedVersion:
            continue


def versions_to_clean(index_dir: Path) -> list[str]:
    """Returns all versions in the order of cleaning: the live one, which is being served, then the others, newest first."""
    live = read_pointer(index_dir)
    return sorted(version_names(index_dir), key=lambda version: (version != live, -version_number(version)))


def forget_in_version(index_dir: Path, version: str, takedown: Takedown, vectors_root: Path, embed: Embed, *, lease: Lease | None = None) -> UrlContent:
    """Replaces a version by one without the content of a takedown; returns that content. A version without such content is not touched.

    The replacement is built in full, because Chroma's files retain deleted rows. A version that becomes empty stays, and returns no hits.

    Args:
        index_dir: The knowledge base's index directory.
        version: Name of the version.
        takedown: The URLs to remove.
        vectors_root: Folder of the vector store.
        embed: The declared embedder, from whose tokenizer the parameters of search are derived anew where the version was built with it.
        lease: The writer's lock.

    Raises DamagedVersion where a table of the version is damaged or a vector is missing.
    """
    folder, manifest = version_dir(index_dir, version), read_manifest(index_dir, version)
    require_tables(folder, manifest)  # a table that is lost may have had the content, which Chroma's files then still have
    found = find_in_tables(folder, takedown.urls)
    if not found.items and not found.chunks:
        return found
    tables = hidden_folder(folder)
    try:
        rows = {name: _rewrite(folder / name, tables / name, takedown.urls) for name in TABLES if (folder / name).is_file()}
        entry = {"url": takedown.url, "at": takedown.at, "items": len(found.items), "chunks": len(found.chunks)}
        cleaned = manifest.model_copy(
            update={
                "digest": digest_of(batches_of(tables / CHUNKS), manifest.embedder.fingerprint, scratch=tables),
                "derived": _derived_anew(tables / CHUNKS, manifest, embed),
                "counts": Counts(records=rows.get(RECORDS, 0), documents=rows.get(DOCUMENTS, 0), chunks=rows[CHUNKS]),
                "lineage": {**manifest.lineage, "forgotten": [*manifest.lineage.get("forgotten", []), entry]},
            }
        )
        replace_version(index_dir, cleaned, tables, vectors_root, lease=lease)
    finally:
        if tables.is_dir():
            remove(tables)
    return found


def _derived_anew(chunks: Path, manifest: Manifest, embed: Embed) -> Derived:
    """Parameters of search for what is left of a version. Those of its languages stay as they are where the declared embedder is another one, or gone."""
    try:
        is_declared = describe_embedder(embed).fingerprint == manifest.embedder.fingerprint
    except AlmanacError:
        is_declared = False
    return derive(chunks, embed, known=None if is_declared else manifest.derived.language_fit)


def forget_in_tables(folder: Path, urls: Collection[str]) -> UrlContent:
    """Removes the content of these URLs from the latest run's tables and returns it. If a table cannot be read, all are removed; the next run writes them."""
    found = UrlContent()
    try:
        found = find_in_tables(folder, urls)
    except DamagedVersion:
        for name in TABLES:
            remove(folder / name)
    if found.items or found.chunks:
        for name in TABLES:
            if (folder / name).is_file():
                _rewrite(folder / name, folder / name, urls)
    return found


def _rewrite(source: Path, target: Path, urls: Collection[str]) -> int:
    """Writes a table without the rows of these URLs; returns the number of rows left."""
    with TableWriter(target, schema_of(source)) as writer:
        for batch in read_batches(source, rows=_BATCH):
            writer.write(batch.filter(pc.invert(_is_under(batch.column("url"), urls))))
    return writer.rows


def _under(path: Path, columns: list[str], urls: Collection[str]) -> Iterator[pa.Table]:
    """Yields the rows of these URLs, in batches."""
    for batch in read_batches(path, columns, rows=_BATCH):
        yield batch.filter(_is_under(batch.column("url"), urls))


def _is_under(column: pa.ChunkedArray, urls: Collection[str]) -> pa.ChunkedArray:
    """Returns a mask of the URLs that are among `urls`, with or without their fragment."""
    wanted = pa.array(sorted(urls), pa.string())
    page = pc.replace_substring_regex(column, "(?s)#.*", "")
    return pc.or_(pc.is_in(column, value_set=wanted), pc.is_in(page, value_set=wanted))
