"""Cache of mapped and cleaned pages from run to run: a page whose bytes and rules did not change is not mapped again.

A Parquet file with one row per batch of a page's items: the page's key (hash of bytes, URL and card), the time at which
it was fetched, and the JSON of `Mapped` without that time, which the next run writes again as it is. The file belongs
to the fingerprints of mapping and cleaning and is ignored under others. It may be deleted at any time.
"""

import json
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, is_dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from almanac.core.digests import SortedDigests, digest_of, digests_in, digests_of
from almanac.core.tables import TableWriter, open_table, read_batches
from almanac.core.unforeseen import FORESEEN, reason_of_defect
from almanac.schemas.declaration.source import SiteSource, Source
from almanac.schemas.declaration.workspace import Workspace
from almanac.schemas.items import Extraction, Item, Reject
from almanac.schemas.left_out import LeftOut, characters_in
from almanac.transforms.clean import Clean, clean_text
from almanac.transforms.html.blocks_beside import blocks_beside, keeps_little, marked_page
from almanac.transforms.html.edges import Edges, edges_of
from almanac.transforms.prepare import prepare_items

_ROWS, _BYTES = 64, 4 << 20  # approximate size of a row group, which is read as a whole
_NOT_IN_JSON = frozenset(("fetched_at", "payload"))  # what is no part of the JSON
_KEPT_BYTES = 64 << 20  # of row groups in memory: pages that come in another order than last time share them


@dataclass(slots=True)
class Mapped:
    """A batch of a page's items, cleaned.

    Attributes:
        matched: as in `Extraction`.
        extracted: number of drafts and rejects.
        without_text: pages without any text, where that is not a fault.
        side_blocks: for each document the blocks of its page beside its main text (`blocks_beside`), cleaned; None if
            its text is no main text of a page.
        edges: for each document the outer blocks of its page, where `side_blocks` is not None.
        little: URLs of pages of which extraction kept little, with or without an item.
        characters: of the texts of its items.
        left_out: text of the page that none of its items has on purpose, by reason.
        payload: its JSON, where it was read from a cache, which is what a `MappedWriter` writes: such a batch is not to
            be changed. Empty otherwise.
    """

    items: list[Item] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    matched: dict[str, int] = field(default_factory=dict)
    extracted: int = 0
    without_text: int = 0
    whole: bool = True  # as in Extraction
    side_blocks: list[list[str] | None] = field(default_factory=list)
    edges: list[Edges | None] = field(default_factory=list)
    little: list[str] = field(default_factory=list)
    characters: int = 0
    left_out: LeftOut = field(default_factory=LeftOut)
    payload: bytes = field(default=b"", compare=False, repr=False)

    def read(self) -> Iterator[tuple[Item, list[str] | None, Edges | None]]:
        """Yields each item with the blocks beside its main text and the edges of its page, None where its text is no
        main text of a page.
        """
        none = [None] * len(self.items)
        return zip(self.items, self.side_blocks or none, self.edges or none, strict=True)


def clean_extraction(
    extraction: Extraction, source: Source, clean: Clean, *, language: str, workspace: Workspace | None
) -> Mapped:
    """Cleans the drafts of an extraction; `clean`, `language` and `workspace` are those of `prepare_items`.

    An empty page counts as `without_text`, not as a reject, if the source takes every page of a site as a document:
    crawls meet pages of pictures.
    """
    extracted = len(extraction.drafts) + len(extraction.rejects)
    mapped = Mapped(
        rejects=list(extraction.rejects),
        matched=dict(extraction.matched),
        extracted=extracted,
        whole=extraction.whole,
        left_out=extraction.left_out,
    )
    may_be_empty = (
        isinstance(source, SiteSource) and source.yields == "documents" and source.match is None and source.each is None
    )
    for draft in extraction.drafts:
        side_blocks: list[str] | None = None
        edges: Edges | None = None
        prepared: Item | Reject
        try:
            (prepared,) = prepare_items(
                [draft], source, clean, language=language, workspace=workspace, left_out=mapped.left_out
            )
            if draft.kind == "document" and draft.markup == "html" and source.body == "main":
                text = prepared.text if isinstance(prepared, Item) else ""
                page = marked_page(draft.body or "")
                side_blocks = [
                    clean_text(block, clean, entities=False, code=True) for block in blocks_beside(page, text)
                ]
                edges = edges_of(page)
                mapped.little += [draft.url] if keeps_little(text, side_blocks) else []
        except FORESEEN:
            raise
        except Exception as error:
            prepared = Reject(
                draft.source, draft.url, draft.document_id, "clean", reason_of_defect(error, url=draft.url)
            )
        if isinstance(prepared, Item):
            mapped.items.append(prepared)
            mapped.characters += characters_in(prepared.passage or prepared.text)
            mapped.side_blocks += [side_blocks] if draft.kind == "document" else []
            mapped.edges += [edges] if draft.kind == "document" else []
        elif may_be_empty and prepared.field == "text":
            mapped.without_text += 1
        else:
            mapped.rejects.append(prepared)
    return mapped


class MappedPages:
    """The cached pages of an earlier run. Whatever cannot be read counts as missing. Memory: 40 bytes a page, and some
    row groups.

    `stages` is the fingerprint of mapping and cleaning; a file with another one is ignored.
    """

    def __init__(self, path: Path, stages: str) -> None:
        self._keys = SortedDigests(digests_of([]))
        self._file: pq.ParquetFile | None = None
        self._starts: list[int] = []  # the first row of each row group
        self._groups: OrderedDict[int, pa.Array] = OrderedDict()  # payloads of row groups, the one used last at the end
        self._bytes = 0  # of these
        self.rows = 0
        try:
            file = open_table(path)
            if (file.schema_arrow.metadata or {}).get(b"stages") == stages.encode():
                self._keys = SortedDigests(digests_in(batch.column(0) for batch in file.iter_batches(columns=["key"])))
                sizes = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
                self._starts = list(accumulate(sizes[:-1], initial=0))
                self._file, self.rows = file, file.metadata.num_rows
        except Exception:  # a damaged footer raises whatever it leads to
            self._keys, self._file, self.rows = SortedDigests(digests_of([])), None, 0

    def batches(self, key: str, fetched_at: str, read: Callable[[], Iterator[Mapped]]) -> Iterator[Mapped]:
        """Yields what the page of that key yielded, one batch at a time, with `fetched_at` set on its items.

        Falls back to `read` where the key is unknown, or from the first batch that cannot be read: mapping is
        deterministic, so it can resume in the middle.
        """
        done = 0
        rows = self._rows_of(key)
        for row in rows:
            try:
                mapped = _decoded(self._payload(row), fetched_at)
            except Exception:  # as above
                break
            done += 1
            yield mapped
        if not rows or done < len(rows):
            yield from islice(read(), done, None)

    def knows(self, key: str) -> bool:
        """Whether the page of that key is cached."""
        return bool(self._rows_of(key))

    def _rows_of(self, key: str) -> list[int]:
        rows: list[int] = self._keys.span(digest_of(key)).tolist()
        return rows

    def _payload(self, row: int) -> bytes:
        assert self._file is not None
        number = bisect_right(self._starts, row) - 1
        if number not in self._groups:
            group = self._file.read_row_group(number, columns=["mapped"]).column(0).combine_chunks()
            self._groups[number], self._bytes = group, self._bytes + group.nbytes
            while len(self._groups) > 1 and self._bytes > _KEPT_BYTES:
                self._bytes -= self._groups.popitem(last=False)[1].nbytes
        self._groups.move_to_end(number)
        payload: bytes = self._groups[number][row - self._starts[number]].as_py()
        return payload


def staged_batches(path: Path) -> Iterator[Mapped]:
    """Yields all batches of a table that a `MappedWriter` has just written, in order. Raises as `read_batches`."""
    for rows in read_batches(path, ["fetched_at", "mapped"], rows=_ROWS):
        for fetched_at, payload in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            yield _decoded(payload, fetched_at)


class MappedWriter:
    """Context manager that writes the cache, batch by batch."""

    def __init__(self, path: Path, stages: str) -> None:
        self._schema = pa.schema(
            [("key", pa.string()), ("fetched_at", pa.string()), ("mapped", pa.binary())], metadata={"stages": stages}
        )
        # of payloads: up to 8 KB in the footer for each row group
        self._writer = TableWriter(path, self._schema, statistics=False)
        self._waiting: list[tuple[str, str, bytes]] = []
        self._bytes = 0

    @property
    def rows(self) -> int:
        return self._writer.rows + len(self._waiting)

    def add(self, key: str, mapped: Mapped) -> None:
        """Adds a batch of the page of that key; the batches of a page must be added in order."""
        encoded = mapped.payload or _encoded(mapped)
        # one for all items of a page
        self._waiting.append((key, mapped.items[0].fetched_at if mapped.items else "", encoded))
        self._bytes += len(encoded)
        if len(self._waiting) == _ROWS or self._bytes > _BYTES:
            self._flush()

    def __enter__(self) -> "MappedWriter":
        self._writer.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if error[0] is None:
            try:
                self._flush()
            except BaseException as failed:
                self._writer.__exit__(type(failed), failed, failed.__traceback__)
                raise
        self._writer.__exit__(*error)

    def _flush(self) -> None:
        if self._waiting:
            columns = zip(*self._waiting, strict=True)
            self._writer.write(
                pa.Table.from_arrays(
                    [pa.array(column, kind) for column, kind in zip(columns, self._schema.types, strict=True)],
                    schema=self._schema,
                )
            )
        self._waiting, self._bytes = [], 0


def _encoded(mapped: Mapped) -> bytes:
    return json.dumps(mapped, separators=(",", ":"), default=_plain).encode()


def _plain(value: Any) -> Any:
    """A dataclass as its fields, without the copies that `asdict` makes; what JSON does not know otherwise, as text."""
    return (
        {name: getattr(value, name) for name in value.__dataclass_fields__ if name not in _NOT_IN_JSON}
        if is_dataclass(value)
        else str(value)
    )


def _decoded(payload: bytes, fetched_at: str) -> Mapped:
    values = json.loads(payload)
    items = [Item(**item, fetched_at=fetched_at) for item in values.pop("items")]
    return Mapped(
        items=items,
        rejects=[Reject(**reject) for reject in values.pop("rejects")],
        edges=[edges and Edges(**edges) for edges in values.pop("edges")],
        left_out=LeftOut(values.pop("left_out")),
        payload=payload,
        **values,
    )
