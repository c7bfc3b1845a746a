"""What the steps of a run hand to each other: paths, counts and fingerprints, never rows.

acquire → Pages · map_pages → Items · validate → Validated · compare → Comparison · chunk → Tables · stage_texts → Texts · embed_texts → Embedded ·
build → Built · verify → Verified · measure → Measured

Each is frozen and pickles to a few kilobytes, however large the knowledge base is: a step can be carried out by another thread, process or machine that
sees the same data directory. Prefect knows them by their identity, which is how a run's graph gets its edges.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from almanac.core.durable import write_file
from almanac.index.build.delta import BuildFacts
from almanac.schemas.items import Reject
from almanac.schemas.manifest import Manifest
from almanac.schemas.reports import ItemCounts, PageCounts, Recall


@dataclass(frozen=True)
class Rejects:
    """A file of rejects, one JSON object a line, and how many there are. `path` is None where there are none."""

    path: Path | None = None
    count: int = 0

    @classmethod
    def write(cls, path: Path, rejects: Sequence[Reject]) -> "Rejects":
        """Keeps them in `path`, which is not made where there are none."""
        if not rejects:
            return cls()
        lines = (json.dumps(reject.as_json(), ensure_ascii=False, default=str) for reject in rejects)
        write_file(path, "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"), synced=False)
        return cls(path, len(rejects))

    def read(self) -> Iterator[Reject]:
        """The rejects, in the order in which they were found."""
        if self.path is not None:
            with self.path.open(encoding="utf-8") as lines:
                yield from (Reject(**json.loads(line)) for line in lines)


@dataclass(frozen=True)
class Live:
    """The live version as the run begins. Not `is_whole` where a file is missing or a table is not what was published: it then confirms nothing."""

    manifest: Manifest
    folder: Path
    is_whole: bool


@dataclass(frozen=True)
class Pages:
    """A source's pages in `data/raw`. `fingerprint` is that of the journal of `crawl`; `outcome` is the file with the CrawlOutcome."""

    source: str
    crawl: str
    finish: str
    counts: PageCounts
    kept: int
    fingerprint: str
    outcome: Path


@dataclass(frozen=True)
class MappedSource:
    """What one source's pages yielded. `found` counts items and rejects; `without_text` counts pages in which there was nothing to read."""

    source: str
    found: int
    without_text: int


@dataclass(frozen=True)
class Items:
    """Items of all sources, cleaned and de-duplicated, in one table. `redirects` is a JSON file of [source, URL, where it leads to], None where there is none.

    Not `is_whole` where stored bytes were damaged: of this run's pages nobody may conclude that nothing changed.
    """

    table: Path
    sources: tuple[MappedSource, ...]
    found: int
    deduplicated: int
    rejects: Rejects
    redirects: Path | None
    is_whole: bool


@dataclass(frozen=True)
class Validated:
    """What Great Expectations said. `quarantined` is a JSON file with the row numbers of the items that are left out, None where there is none.

    `report` holds a row for each expectation, of which `broken` are not met; None where nothing is expected.
    """

    rejects: tuple[Rejects, ...]
    quarantined: Path | None
    report: Path
    broken: int | None

    @property
    def rejected(self) -> int:
        return sum(rejects.count for rejects in self.rejects)

    def quarantined_rows(self) -> frozenset[int]:
        return frozenset() if self.quarantined is None else frozenset(json.loads(self.quarantined.read_bytes()))

    def report_rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(self.report.read_bytes())
        return rows


@dataclass(frozen=True)
class Comparison:
    """The run's items against the live version's `live_items`. `unchanged` is a table of the keys of items that did not change, None where there is none.

    `records` and `documents` are staged: `chunk` puts them in their place, together with the chunks.
    """

    counts: ItemCounts
    live_items: int | None
    records: Path
    documents: Path
    unchanged: Path | None


@dataclass(frozen=True)
class Tables:
    """The run's tables in their place, and how many chunks there are. `digest` identifies the chunks and their embedder."""

    records: Path
    documents: Path
    chunks: Path
    total: int
    truncated: int | None
    digest: str


@dataclass(frozen=True)
class Texts:
    """The `count` texts without a vector, longest first, a row group for each of `checkpoints`. `cached` rows of the chunks table need none of them.

    `tokens` is an estimate, made where the cost of embedding is limited.
    """

    table: Path
    count: int
    checkpoints: int
    cached: int
    tokens: int | None


@dataclass(frozen=True)
class Embedded:
    """Texts that got their vectors. `tokens` were billed by an API, None for a local model; `refused` is a JSON file of text key → reason, or None."""

    texts: int
    tokens: int | None
    refused: Path | None


@dataclass(frozen=True)
class Built:
    """A version directory without a manifest, and how it was built."""

    version: str
    folder: Path
    facts: BuildFacts


@dataclass(frozen=True)
class Verified:
    """A built version that holds what it was built from."""

    version: str
    folder: Path
    facts: BuildFacts


@dataclass(frozen=True)
class Measured:
    """What a version finds of the golden questions, and where a drop is limited, the live one; JSON files of Recall."""

    recall: Path
    live: Path | None

    def read(self) -> Recall:
        return Recall.model_validate_json(self.recall.read_bytes())

    def read_live(self) -> Recall | None:
        return None if self.live is None else Recall.model_validate_json(self.live.read_bytes())


HANDLES = (Pages, Items, Validated, Comparison, Tables, Texts, Embedded, Built, Verified, Measured)
