"""Handles: what the steps of a run hand to each other. Paths, counts and fingerprints, never rows.

acquire → Pages · map_pages → Items · validate → Validated · compare → Comparison · chunk → Tables · stage_texts → Texts
· embed_texts → Embedded · build → Built · verify → Verified · measure → Measured

Where pages or documents are shared out: acquire → Pages · stage_pages → PageBatches · map_pages → Items · compare →
Comparison · stage_items → ItemBatches · chunk → Tables

Each is frozen and pickles to a few kilobytes, however large the knowledge base is. Prefect recognizes a handle by its
identity when it is passed to another task; from this it draws the edges of a run's graph.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from almanac.core.durable import write_file
from almanac.index.build.job import BuildFacts
from almanac.index.build.planner import Plan
from almanac.index.segments.version_tables import VersionTables
from almanac.schemas.crawl_outcome import PageCounts, SourceTexts
from almanac.schemas.items import Duplicate, Reject
from almanac.schemas.manifest import Calibration, Check, Derived, Manifest, SegmentUse
from almanac.schemas.reports import ItemCounts, JudgedExpectation, Recall


@dataclass(frozen=True)
class Rejects:
    """A file of rejects, one JSON object a line with all that is known of a reject, and how many there are. `path` is
    None where there are none.
    """

    path: Path | None = None
    count: int = 0

    @classmethod
    def write(cls, path: Path, rejects: Sequence[Reject]) -> "Rejects":
        """Writes the rejects to `path`; without rejects, no file is made."""
        return cls(_write_lines(path, map(asdict, rejects)), len(rejects))

    @classmethod
    def from_file(cls, path: Path) -> "Rejects":
        """Those that a step wrote before it failed; none without a file."""
        if not path.is_file():
            return cls()
        with path.open("rb") as lines:
            return cls(path, sum(1 for _ in lines))

    def read(self) -> Iterator[Reject]:
        """Yields the rejects in the order of the file."""
        if self.path is not None:
            with self.path.open(encoding="utf-8") as lines:
                yield from (Reject(**json.loads(line)) for line in lines)


@dataclass(frozen=True)
class Duplicates:
    """A file of items that equal another one, one JSON object a line, and how many there are. `path` is None where
    there are none.
    """

    path: Path | None = None
    count: int = 0

    @classmethod
    def write(cls, path: Path, duplicates: Sequence[Duplicate]) -> "Duplicates":
        """Writes the duplicates to `path`; without duplicates, no file is made."""
        return cls(_write_lines(path, (duplicate.as_json() for duplicate in duplicates)), len(duplicates))


def _write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path | None:
    content = "".join(f"{json.dumps(row, ensure_ascii=False, default=str)}\n" for row in rows)
    if not content:
        return None
    write_file(path, content.encode("utf-8", "replace"), synced=False)
    return path


@dataclass(frozen=True)
class Live:
    """The live version as the run finds it. `is_whole` is False if a file is missing or a table differs from its hash;
    such a version confirms nothing.
    """

    manifest: Manifest
    folder: Path
    is_whole: bool

    @property
    def tables(self) -> VersionTables:
        """Its tables, over all of its segments."""
        return VersionTables.in_folder(self.folder, self.manifest)


@dataclass(frozen=True)
class Pages:
    """The pages of a source in `data/raw`: run id of the `crawl`, `fingerprint` of its journal, links `unfollowed`,
    known URLs `not_fetched` for a limit.

    The CrawlOutcome is staged (`acquire`).
    """

    source: str
    crawl: str
    finish: str
    counts: PageCounts
    carried_over: int
    fingerprint: str
    unfollowed: int = 0
    not_fetched: int = 0


@dataclass(frozen=True)
class PageBatches:
    """Pages that no earlier run has mapped: `size` rows, a row group for each of `count` batches. Only where several
    processes map them.

    `listed` are tables of all pages that may yield items, by source, where listing pages had to be read to find them.
    """

    table: Path
    size: int
    count: int
    listed: tuple[tuple[str, Path], ...] = ()


@dataclass(frozen=True)
class MappedSource:
    """The result of mapping one source. `extracted` counts items and rejects; `texts` says what extraction made of its
    pages.
    """

    source: str
    extracted: int
    texts: SourceTexts


@dataclass(frozen=True)
class Items:
    """Items of all sources, cleaned and de-duplicated, in one table. `redirects` is a JSON file of [source, URL, where
    it leads to], None where there is none.

    `is_whole` is False if stored bytes were damaged or their reading interrupted: a later run must not conclude from
    such pages that nothing changed.
    """

    table: Path
    sources: tuple[MappedSource, ...]
    extracted: int
    duplicates: Duplicates
    rejects: Rejects
    redirects: Path | None
    is_whole: bool

    @property
    def deduplicated(self) -> int:
        return self.duplicates.count


@dataclass(frozen=True)
class Validated:
    """The result of validation. `quarantined` is a JSON file with the row numbers of the items that are left out, None
    if there are none.

    `report` is a JSON file with the result of each declared rule. `broken` counts those that do not hold; None if
    nothing is declared. `checks` are for the gate, one for each rule that may refuse the version. `judged_by` is the
    run whose results these are, where an earlier run judged the same items; None for this run.
    """

    rejects: tuple[Rejects, ...]
    quarantined: Path | None
    report: Path
    broken: int | None
    checks: tuple[Check, ...] = ()
    judged_by: str | None = None

    @property
    def rejected(self) -> int:
        return sum(rejects.count for rejects in self.rejects)

    def quarantined_rows(self) -> frozenset[int]:
        return frozenset() if self.quarantined is None else frozenset(json.loads(self.quarantined.read_bytes()))

    def results(self) -> list[JudgedExpectation]:
        """The result of each declared rule, in declared order."""
        return [JudgedExpectation.model_validate(result) for result in json.loads(self.report.read_bytes())]


@dataclass(frozen=True)
class Comparison:
    """The items of the run compared with the `live_items` of the live version. `unchanged` is a table with the keys of
    unchanged items, None if there are none.

    `records` and `documents` are staged; `chunk` moves them to their place together with the chunks. Of the items that
    were in the live version and still are, `rewritten` have another text, and `shrunk` of these less than half of the
    characters that they had. `duplicates` and `sources` are those of `Items`. `compared_with` is the version that is
    live, and `incomparable` why its items could not be read; both are None before the first publication.
    """

    counts: ItemCounts
    live_items: int | None
    records: Path
    documents: Path
    unchanged: Path | None
    duplicates: Duplicates
    sources: tuple[MappedSource, ...] = ()
    rewritten: int = 0
    shrunk: int = 0
    compared_with: str | None = None
    incomparable: str | None = None


@dataclass(frozen=True)
class ItemBatches:
    """Documents that are to be cut: `size` rows, a row group for each of `count` batches. Only where several processes
    cut them.
    """

    table: Path
    size: int
    count: int


@dataclass(frozen=True)
class Tables:
    """The run's tables in their place, and how many chunks there are. `digest` identifies the chunks and their
    embedder.
    """

    records: Path
    documents: Path
    chunks: Path
    total: int
    truncated: int | None
    digest: str


@dataclass(frozen=True)
class Texts:
    """The `size` texts without a vector, longest first, a row group for each of `count` checkpoints. `cached` rows of
    the chunks table need none of them.

    `tokens` is an estimate, made where the cost of embedding is limited.
    """

    table: Path
    size: int
    count: int
    cached: int
    tokens: int | None


@dataclass(frozen=True)
class Embedded:
    """Embedded checkpoints. `tokens` were billed by an API, None for a local model; `refused` is a JSON file of text
    key → reason, or None.
    """

    texts: int
    tokens: int | None
    refused: Path | None


@dataclass(frozen=True)
class PlannedSegments:
    """A version of several segments: the JSON file of its Plan, and how many segments are new, of `size` chunks. Only
    where workers make them.
    """

    plan: Path
    count: int
    size: int

    def read(self) -> Plan:
        return Plan.model_validate_json(self.plan.read_bytes())


@dataclass(frozen=True)
class Built:
    """A version directory without a manifest, how it was built, the parameters of search derived from its chunks, and
    its segments, if it is not one itself.
    """

    version: str
    folder: Path
    facts: BuildFacts
    derived: Derived
    segments: tuple[SegmentUse, ...] = ()


@dataclass(frozen=True)
class Verified(Built):
    """A built version, verified against the tables and vectors it was built from."""


@dataclass(frozen=True)
class Measured:
    """JSON files with the Recall of the new version and, if a drop is limited, of the live one; and the calibration of
    relevance, if one was fitted.

    `unasked` is why the live version, such as one of another format, cannot be asked although a drop is limited.
    """

    recall: Path
    live: Path | None
    calibration: Calibration | None = None
    unasked: str | None = None

    def read(self) -> Recall:
        return Recall.model_validate_json(self.recall.read_bytes())

    def read_live(self) -> Recall | None:
        return None if self.live is None else Recall.model_validate_json(self.live.read_bytes())


HANDLES = (
    Pages,
    PageBatches,
    Items,
    Validated,
    Comparison,
    ItemBatches,
    Tables,
    Texts,
    Embedded,
    PlannedSegments,
    Built,
    Verified,
    Measured,
)
