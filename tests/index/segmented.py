"""A version of several segments with deleted rows, made by hand: for tests of what reads it."""

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from almanac.core.tables import CHUNKS, chunks_table, write_table
from almanac.index.build.builder import build_here
from almanac.index.segments.deleted import write_deleted_rows
from almanac.index.segments.segment_store import segment_dir
from almanac.index.versions.publish import finish_version
from almanac.index.versions.seal import seal
from almanac.index.versions.version_store import version_dir
from almanac.schemas.items import ChunkRow
from almanac.schemas.manifest import Manifest, Segment, SegmentUse, Verdict
from tests.index.conftest import Base

Rows = Sequence[tuple[ChunkRow, bool]]  # rows of a segment, and whether each is part of the version


def spread(live: Sequence[ChunkRow], dead: Sequence[ChunkRow], count: int, chance: random.Random) -> list[Rows]:
    """Spreads rows over segments, none of which is left empty, at will; a row stands in a segment once."""
    while True:
        segments: list[dict[str, tuple[ChunkRow, bool]]] = [{} for _ in range(count)]
        for rows, is_live in ((live, True), (dead, False)):
            for row in rows:
                chosen = [segment for segment in segments if row.chunk_id not in segment]
                if chosen:
                    chance.choice(chosen)[row.chunk_id] = (row, is_live)
        if all(segments):
            return [chance.sample(list(segment.values()), len(segment)) for segment in segments]


def build_segment(base: Base, name: str, rows: Sequence[ChunkRow], language: str = "en") -> None:
    """Builds and seals a segment."""
    base.embed(list(rows))
    folder = segment_dir(base.index_dir, name)
    build_here(base.job().model_copy(update={"version_dir": folder, "language": language}), lambda *_: None)
    whole = base.manifest("v0001", list(rows), Verdict(verdict="passed", checks=[])).model_dump()
    segment = Segment(**{key: value for key, value in whole.items() if key in Segment.model_fields}, segment=name)
    seal(folder, segment.model_copy(update={"language": language}))


def build_segmented(base: Base, version: str, segments: Sequence[Rows], language: str = "en") -> Manifest:
    """Builds the segments, named by their place, and the version that consists of their live rows."""
    folder = version_dir(base.index_dir, version)
    folder.mkdir(parents=True)
    uses = []
    for number, rows in enumerate(segments):
        name = f"{version}-{number}"
        build_segment(base, name, [row for row, _ in rows], language)
        deleted = np.array([place for place, (_, is_live) in enumerate(rows) if not is_live], dtype=np.int64)
        write_deleted_rows(folder, name, CHUNKS, deleted)
        uses.append(SegmentUse(segment=name, chunks=len(rows), deleted=len(deleted)))
    live = [row for rows in segments for row, is_live in rows if is_live]
    manifest = base.manifest(version, live, Verdict(verdict="passed", checks=[]))
    return finish_version(base.index_dir, manifest.model_copy(update={"segments": uses, "language": language}))


def as_one(base: Base, version: str, live: Sequence[ChunkRow], language: str = "en") -> Manifest:
    """Builds a version of these rows that is its own segment."""
    base.embed(list(live))
    build_here(base.job(version).model_copy(update={"language": language}), lambda *_: None)
    manifest = base.manifest(version, list(live), Verdict(verdict="passed", checks=[]))
    return finish_version(base.index_dir, manifest.model_copy(update={"language": language}))


def table_in(folder: Path, rows: Sequence[ChunkRow]) -> Path:
    """Writes a chunks table alone."""
    write_table(folder / CHUNKS, chunks_table(rows))
    return folder
