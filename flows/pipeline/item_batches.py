"""Steps of a run whose documents are cut by several processes: the documents that are to be cut, staged in batches, and
cut batch by batch.

A batch is a row group of a staged table. What it yields is a *part*: a table of chunks, named by a hash of the
documents and of how they are cut. A part that exists is complete, so a batch that runs twice changes nothing, and a
later run finds the parts of one that was cut off. `chunk` (chunk.py) then reads the parts in the order of the
documents. The time since when a document is known is no part's business: `chunk` puts it in.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from almanac.core.durable import remove
from almanac.core.logs import get_logger
from almanac.core.tables import (
    CHUNK_SCHEMA,
    ITEM_SCHEMA,
    TableWriter,
    column_bytes,
    groups_in,
    read_group,
    read_table,
    write_table,
)
from almanac.flows.pipeline.batches import at_batch
from almanac.flows.pipeline.compare import copied_items
from almanac.flows.pipeline.handles import Comparison, ItemBatches, Live
from almanac.flows.pipeline.run import Run
from almanac.flows.pipeline.worker import model
from almanac.index.embedding.embedder import Embedder
from almanac.index.embedding.tokens import token_spans
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.hashing import canonical_json, sha256
from almanac.transforms.assemble import cut_items, items_to_cut
from almanac.transforms.chunking.chunker import Chunker
from almanac.transforms.item_changes import item_keys

log = get_logger("almanac.chunk")
_ITEMS, _BYTES = 500, 2_000_000  # of texts, at most in a batch: a second of work
_BEGINS = 250  # one item in so many begins a batch
_WORTH_SHARING = 16_000_000  # bytes of texts: one second of work by paragraphs, many by tokens or topics
_TIME, _PART = "fetched_at", "part"
_NO_MATTER = [_TIME, "raw_sha256"]  # to chunks
_SCHEMA = ITEM_SCHEMA.append(pa.field(_PART, pa.string()))


def chunker_with(run: Run, model: Callable[[], Embedder]) -> Chunker:
    """What cuts the documents of a run; it asks for the model only where chunks follow topics."""
    declared = run.declaration
    spans = partial(token_spans, declared.embed)
    return Chunker(
        declared.chunk, declared.language, embed=lambda texts: model().embed_documents(texts), token_spans=spans
    )


def parts_folder(run: Run) -> Path:
    """Where parts lie until `chunk` has read them. A plan leaves nothing in the data directory."""
    return (run.staging if run.is_plan else run.processed) / "cut"


def is_much_to_cut(run: Run, comparison: Comparison, live: Live | None, *, by_workers: bool = False) -> bool:
    """Whether there is so much to cut that dividing it into batches pays.

    To find topics, texts are embedded: that is work for workers, however little it is, but not for processes of this
    machine, which would hold a model each, nor where an API embeds.
    """
    if run.declaration.chunk.by == "semantic":
        return by_workers and run.embed.provider == "local"
    counts = comparison.counts
    items = counts.added + counts.changed + counts.moved + counts.unchanged
    is_new = 1 - counts.unchanged / items if items and copied_items(run, comparison, live) is not None else 1
    return column_bytes(comparison.documents, "text") * is_new >= _WORTH_SHARING


def stage_items(run: Run, comparison: Comparison, live: Live | None) -> ItemBatches:
    """Stages the documents to cut, in their order. Parts that none of the batches needs are removed."""
    table, wanted = run.staging / "documents-to-cut.parquet", set()
    cut_for = run.run_id if run.scope.full else ""  # of a run that cuts everything anew, it alone
    with TableWriter(table, _SCHEMA, statistics=False) as writer:
        for items in _batches(items_to_cut(comparison.documents, copied_items(run, comparison, live))):
            part = sha256(canonical_json([run.stages["chunker"], cut_for, items.drop_columns(_NO_MATTER).to_pylist()]))
            writer.write(items.append_column(_SCHEMA.field(_PART), pa.array([part] * items.num_rows)))
            wanted.add(_path(run, part))
    for path in parts_folder(run).glob("*.parquet"):
        if path not in wanted:
            remove(path)
    return ItemBatches(table, writer.rows, groups_in(table))


def _batches(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Divides items into batches. An item's key decides whether a batch begins with it, so that one more or less
    changes one batch, and not all that follow.
    """
    waiting: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        begin = 0
        begins = item_keys(table).view("<u8")[::2] % _BEGINS == 0
        for row, (length, is_first) in enumerate(
            zip(pc.binary_length(table.column("text")).to_pylist(), begins.tolist(), strict=True)
        ):
            if rows and (is_first or rows == _ITEMS or size + length > _BYTES):
                yield pa.concat_tables([*waiting, table.slice(begin, row - begin)])
                waiting, rows, size, begin = [], 0, 0, row
            rows, size = rows + 1, size + length
        waiting.append(table.slice(begin))
    if rows:
        yield pa.concat_tables(waiting)


def cut_batch(run: Run, batches: ItemBatches, number: int) -> int:
    """Cuts a batch, unless its part exists; returns the number of its documents."""
    items, part = _read_batch(run, batches, number)
    rows: int = items.num_rows
    if not part.exists():
        name = f"batch {number} of {batches.count} of the documents to cut: {rows}, the first "
        with at_batch(run, f"{name}{items.column('url')[0]}"):
            write_table(part, cut_items(items, chunker_with(run, lambda: model(run.embed, run.data))))
        log.info("cut", kb=run.kb, batch=number, of=batches.count, items=rows)
    return rows


def read_parts(run: Run, batches: ItemBatches, chunker: Chunker) -> Iterator[pa.Table]:
    """Yields the chunks of all batches, in the order of their documents. A batch whose part is lost or damaged is cut
    by the `chunker`.
    """
    for number in range(1, batches.count + 1):
        items, part = _read_batch(run, batches, number, ["source", "document_id", _TIME, _PART])
        try:
            chunks = read_table(part)
        except DamagedVersion as error:
            log.warning("a batch is cut again", kb=run.kb, batch=number, of=batches.count, error=error.message)
            chunks = cut_items(_read_batch(run, batches, number)[0], chunker)
        times = {
            (source, document_id): time
            for source, document_id, time in zip(
                *(items.column(name).to_pylist() for name in ("source", "document_id", _TIME)), strict=True
            )
        }
        keys = zip(*(chunks.column(name).to_pylist() for name in ("source", "document_id")), strict=True)
        place = CHUNK_SCHEMA.get_field_index(_TIME)
        yield chunks.set_column(place, CHUNK_SCHEMA.field(_TIME), pa.array([times[key] for key in keys], pa.string()))


def _read_batch(run: Run, batches: ItemBatches, number: int, columns: list[str] | None = None) -> tuple[pa.Table, Path]:
    items = read_group(batches.table, number - 1, columns)
    return items, _path(run, items.column(_PART)[0].as_py())


def _path(run: Run, part: str) -> Path:
    return parts_folder(run) / f"{part}.parquet"
