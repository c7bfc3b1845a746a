"""What belongs to URLs in the tables of versions, segments and the latest run: found, and left out."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from almanac.core.durable import remove
from almanac.core.tables import CHUNK_SCHEMA, CHUNKS, DOCUMENTS, ITEM_SCHEMA, RECORDS, TableWriter, read_batches
from almanac.index.segments.segment_store import SEGMENT, SEGMENTS, segment_dir
from almanac.index.upkeep.composition import TABLES
from almanac.index.versions.version_store import manifest_in, read_pointer, version_dir, version_names, version_number
from almanac.schemas.errors import AlmanacError, DamagedVersion
from almanac.schemas.manifest import Manifest

_BATCH = 5000  # rows


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


def versions_to_clean(index_dir: Path) -> list[str]:
    """Returns all versions in the order of cleaning: the live one, which is being served, then the others, newest
    first.
    """
    live = read_pointer(index_dir)
    return sorted(version_names(index_dir), key=lambda version: (version != live, -version_number(version)))


def table_folders(index_dir: Path) -> list[Path]:
    """Returns the folders that have tables of versions: the versions that are a single segment, and all segments, with
    every row that they ever had.

    A version whose manifest cannot be read counts as a single segment. Segments that a version names are among them
    even if they are gone.
    """
    folders, segments = [], {path.parent: None for path in sorted((index_dir / SEGMENTS).glob(f"*/{SEGMENT}"))}
    for version in versions_to_clean(index_dir):
        folder = version_dir(index_dir, version)
        try:
            named = manifest_in(folder, index_dir, version).segments
        except AlmanacError:
            named = []
        segments |= {segment_dir(index_dir, use.segment): None for use in named}
        folders += [] if named else [folder]
    return [*folders, *segments]


def find_in_version(index_dir: Path, folder: Path, manifest: Manifest, urls: Collection[str]) -> UrlContent:
    """Returns the content of these URLs in a version, and in rows of its segments that it has deleted. Raises
    DamagedVersion as `find_in_tables`.
    """
    content = UrlContent()
    for tables in [segment_dir(index_dir, use.segment) for use in manifest.segments] or [folder]:
        content.add(find_in_tables(tables, urls))
    return content


def find_in_tables(folder: Path, urls: Collection[str]) -> UrlContent:
    """Returns the content of these URLs in the tables of a folder: of a version, a segment or the latest run. Raises
    DamagedVersion where one is unreadable.
    """
    content = UrlContent()
    for name in (RECORDS, DOCUMENTS):
        if (folder / name).is_file():
            for rows in _under(folder / name, ["source", "document_id", "url"], urls):
                content.items |= set(
                    zip(rows.column("source").to_pylist(), rows.column("document_id").to_pylist(), strict=True)
                )
    if (folder / CHUNKS).is_file():
        for rows in _under(folder / CHUNKS, ["chunk_id", "text_sha256", "url"], urls):
            content.chunks |= set(rows.column("chunk_id").to_pylist())
            content.keys |= set(rows.column("text_sha256").to_pylist())
    return content


def urls_in_tables(folder: Path) -> Iterator[str]:
    """Yields the URLs of all items in the tables of a folder; missing and unreadable tables are skipped."""
    for name in (RECORDS, DOCUMENTS):
        try:
            for batch in read_batches(folder / name, ["url"], rows=_BATCH):
                yield from batch.column(0).to_pylist()
        except DamagedVersion:
            continue


def forget_in_tables(folder: Path, urls: Collection[str]) -> UrlContent:
    """Removes the content of these URLs from the latest run's tables and returns it. If a table cannot be read, all are
    removed; the next run writes them.
    """
    content = UrlContent()
    try:
        content = find_in_tables(folder, urls)
    except DamagedVersion:
        for name in TABLES:
            remove(folder / name)
    if content.items or content.chunks:
        for name in TABLES:
            if (folder / name).is_file():
                rewrite(folder / name, folder / name, urls)
    return content


def rewrite(source: Path, target: Path, urls: Collection[str]) -> int:
    """Writes a table without the rows of these URLs, which may be the same file; returns the number of rows left."""
    with TableWriter(target, CHUNK_SCHEMA if source.name == CHUNKS else ITEM_SCHEMA) as writer:
        for batch in rest_of(source, urls):
            writer.write(batch)
    return writer.rows


def rest_of(table: Path, urls: Collection[str]) -> Iterator[pa.Table]:
    """Yields the rows of a table that are not under these URLs, in batches."""
    for batch in read_batches(table):
        yield batch.filter(pc.invert(is_under(batch.column("url"), urls)))


def _under(path: Path, columns: list[str], urls: Collection[str]) -> Iterator[pa.Table]:
    """Yields the rows of these URLs, in batches."""
    for batch in read_batches(path, columns, rows=_BATCH):
        yield batch.filter(is_under(batch.column("url"), urls))


def is_under(column: pa.ChunkedArray, urls: Collection[str]) -> pa.ChunkedArray:
    """Returns a mask of the URLs that are among `urls`, with or without their fragment."""
    wanted = pa.array(sorted(urls), pa.string())
    page = pc.replace_substring_regex(column, "(?s)#.*", "")
    return pc.or_(pc.is_in(column, value_set=wanted), pc.is_in(page, value_set=wanted))
