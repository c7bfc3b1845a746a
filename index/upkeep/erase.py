"""Erases the content of takedowns from versions: from a version that is a single segment, and from the segments of
others, also rows deleted there.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from almanac.core.durable import remove
from almanac.core.pins import hidden_folder
from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS, read_table
from almanac.index.build.derived import derive
from almanac.index.build.digest import digest_of
from almanac.index.build.job import SegmentSpec
from almanac.index.build.staged_segments import KEYS, StagedSegment, keys_of, stage_segment
from almanac.index.composing.made_segments import make_segments
from almanac.index.embedding.model_folder import describe_embedder
from almanac.index.embedding.precision import resolve
from almanac.index.segments.segment_store import read_segment, segment_dir
from almanac.index.segments.version_tables import VersionTables
from almanac.index.upkeep.composition import TABLES, Deletions, read_deletions, recompose
from almanac.index.upkeep.rebuild import replace_folder, require_tables
from almanac.index.upkeep.takedown import Takedown
from almanac.index.upkeep.url_content import UrlContent, find_in_tables, is_under, rest_of, rewrite
from almanac.index.vectors.keys import RowNumbers, keys_in
from almanac.index.vectors.restore import restore_vectors
from almanac.index.vectors.vector_store import VectorStore
from almanac.index.versions.lock import Lease
from almanac.index.versions.version_store import read_manifest, version_dir
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.errors import AlmanacError, OperationalError
from almanac.schemas.manifest import Counts, Derived, Manifest, SegmentUse


def forget_in_version(
    index_dir: Path, version: str, takedown: Takedown, vectors_root: Path, embed: Embed, *, lease: Lease | None = None
) -> UrlContent:
    """Replaces a version by one without the content of a takedown; returns that content. A version without such content
    is not touched.

    The replacement is built in full, because Chroma's files retain deleted rows; of a version of segments, that is done
    for each segment that has such content, once for all versions that share it, and also where the version has deleted
    it already. A version that becomes empty stays, and returns no hits.

    Args:
        index_dir: The knowledge base's index directory.
        version: Name of the version.
        takedown: The URLs to remove.
        vectors_root: Folder of the vector store.
        embed: The declared embedder, from whose tokenizer the parameters of search are derived anew where the version
            was built with it.
        lease: The writer's lock.

    Raises DamagedVersion where a table of the version, or of one of its segments, is damaged or a vector is missing.
    """
    folder, manifest = version_dir(index_dir, version), read_manifest(index_dir, version)
    if manifest.segments:
        return _forget_in_segments(index_dir, manifest, takedown, vectors_root, embed, lease=lease)
    # a table that is lost may have had the content, which Chroma's files then still have
    require_tables(folder, manifest)
    content = find_in_tables(folder, takedown.urls)
    if not content.items and not content.chunks:
        return content
    tables = hidden_folder(folder)
    try:
        for name in TABLES:
            if (folder / name).is_file():
                rewrite(folder / name, tables / name, takedown.urls)
        cleaned = _after(takedown, content, VersionTables(index_dir, tables, manifest), embed)
        replace_folder(folder, manifest, cleaned, tables, vectors_root, lease=lease)
    finally:
        if tables.is_dir():
            remove(tables)
    return content


def _forget_in_segments(
    index_dir: Path,
    manifest: Manifest,
    takedown: Takedown,
    vectors_root: Path,
    embed: Embed,
    *,
    lease: Lease | None = None,
) -> UrlContent:
    deletions = read_deletions(version_dir(index_dir, manifest.version), manifest)
    erased, affected = UrlContent(), []
    for use in manifest.segments:
        folder = segment_dir(index_dir, use.segment)
        require_tables(folder, read_segment(index_dir, use.segment))
        content = find_in_tables(folder, takedown.urls)
        erased.add(content)
        affected += [use.segment] if content.items or content.chunks else []
    if not affected:
        return erased
    cleaned = _without_content(index_dir, manifest, affected, takedown, vectors_root, lease)
    uses, rest = _renamed(index_dir, manifest, deletions, cleaned, takedown)
    recompose(
        index_dir,
        manifest.model_copy(update={"segments": uses}),
        rest,
        complete=lambda tables: _after(takedown, erased, tables, embed),
        lease=lease,
    )
    return erased


def _without_content(
    index_dir: Path,
    manifest: Manifest,
    affected: list[str],
    takedown: Takedown,
    vectors_root: Path,
    lease: Lease | None,
) -> dict[str, StagedSegment]:
    """Makes the segments that take the places of those affected, by the names of these. One that another version needed
    already is found.
    """
    spec, embedder = SegmentSpec.from_manifest(manifest, vectors_root), manifest.embedder
    made: dict[str, StagedSegment] = {}
    for name in affected:
        folder = segment_dir(index_dir, name)
        restore_vectors(
            VectorStore(vectors_root, embedder), keys_in(folder / CHUNKS), folder, read_segment(index_dir, name)
        )
        made[name] = stage_segment(index_dir, spec, {table: rest_of(folder / table, takedown.urls) for table in TABLES})
    different = {segment.name: segment for segment in made.values()}
    make_segments(index_dir, spec, list(different.values()), known_from=affected, lease=lease)
    return made


def _renamed(
    index_dir: Path, manifest: Manifest, deletions: Deletions, cleaned: dict[str, StagedSegment], takedown: Takedown
) -> tuple[list[SegmentUse], dict[str, dict[str, RowNumbers]]]:
    """The segments of the version after the takedown, with their deleted rows; those of which nothing is live are left
    out, but for the last one.
    """
    rest: dict[str, dict[str, RowNumbers]] = {}
    counts: dict[str, Counts] = {}
    for use in manifest.segments:
        new = cleaned.get(use.segment)
        name = use.segment if new is None else new.name
        rows = {
            table: deletions[use.segment][table]
            if new is None
            else _renumbered(
                segment_dir(index_dir, use.segment) / table,
                segment_dir(index_dir, name) / table,
                deletions[use.segment][table],
                takedown,
            )
            for table in TABLES
        }
        # Two segments may have become equal: a row of them is live if it was in either.
        rest[name] = (
            {table: np.intersect1d(rows[table], rest[name][table]) for table in TABLES} if name in rest else rows
        )
        counts[name] = read_segment(index_dir, name).counts
    live = [
        name for name in rest if any(getattr(counts[name], field) > len(rest[name][table]) for field, table in _COUNTED)
    ] or list(rest)[:1]
    return [SegmentUse(segment=name, chunks=counts[name].chunks, deleted=len(rest[name][CHUNKS])) for name in live], {
        name: rest[name] for name in live
    }


_COUNTED = (("chunks", CHUNKS), ("records", RECORDS), ("documents", DOCUMENTS))


def _renumbered(before: Path, after: Path, deleted: RowNumbers, takedown: Takedown) -> RowNumbers:
    """The numbers of deleted rows in the table that takes the place of another one, by what the rows are: their order
    may be another one.
    """
    if not len(deleted):
        return deleted
    name = before.name
    rows = read_table(before, [*KEYS[name], "url"]).take(pa.array(deleted))
    keys = keys_of(rows.filter(pc.invert(is_under(rows.column("url"), takedown.urls))), name)
    places = pc.index_in(keys, value_set=keys_of(read_table(after, list(KEYS[name])), name).combine_chunks())
    if places.null_count:
        raise OperationalError(
            "a deleted row is lost in a segment without a takedown", where=str(after), hint="a defect: please report it"
        )
    numbers: RowNumbers = np.unique(places.to_numpy().astype(np.int64))
    return numbers


def _after(takedown: Takedown, content: UrlContent, tables: VersionTables, embed: Embed) -> Manifest:
    """The manifest of a version of which `tables` are left, without the `content` of a takedown."""
    manifest = tables.manifest
    rows = {name: sum(batch.num_rows for batch in tables.batches(name, ["source"])) for name in TABLES}
    entry = {"url": takedown.url, "at": takedown.at, "items": len(content.items), "chunks": len(content.chunks)}
    return manifest.model_copy(
        update={
            "digest": digest_of(tables.batches_of(CHUNKS), manifest.embedder.fingerprint),
            "derived": _derived_anew(tables, embed),
            "counts": Counts(records=rows[RECORDS], documents=rows[DOCUMENTS], chunks=rows[CHUNKS]),
            "lineage": {**manifest.lineage, "forgotten": [*manifest.lineage.get("forgotten", []), entry]},
        }
    )


def _derived_anew(tables: VersionTables, embed: Embed) -> Derived:
    """Parameters of search for what is left of a version. Those of its languages stay as they are where the declared
    embedder is another one, or gone.
    """
    was = tables.manifest
    try:
        is_declared = describe_embedder(resolve(embed, was.embedder)).fingerprint == was.embedder.fingerprint
    except AlmanacError:
        is_declared = False
    return derive(tables.batches_of(CHUNKS), embed, known=None if is_declared else was.derived.language_fit)
