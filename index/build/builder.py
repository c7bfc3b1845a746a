"""Builds a version directory from processed tables and stored vectors, in a child process. Nothing is embedded here.

The collection may have rows already: those that a killed build of the same content has sent (`index.chroma.leftover`),
or a copy of the parent's. Each is compared as it is read by the client; what differs is sent again, and what is foreign
is deleted. A copy of the parent's was verified once, and its files have their hashes: rows that both tables have alike
are left to verification, which reads all. So a delta, a build that goes on after a kill, and a full one are the same
work. It can begin before all texts have a vector: rows are sent as soon as theirs is there.
"""

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError

from almanac.core.digests import DigestSet, digests_in, digests_of
from almanac.core.durable import move, remove
from almanac.core.logs import get_logger
from almanac.core.progress import OnProgress, ignore
from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS, read_table
from almanac.core.verified import verified_file
from almanac.index.build.child_process import ForkServer, Message, run_child
from almanac.index.build.job import BuildFacts, BuildJob, row_layout
from almanac.index.chroma.chroma_rows import CHROMA, STORED_COLUMNS
from almanac.index.chroma.compared import differences
from almanac.index.chroma.copy import copy_database, copy_file, copy_listed
from almanac.index.chroma.leftover import Making, leftover_of, note_making, read_making
from almanac.index.segments.segment_rows import MappedRows, write_rows
from almanac.index.segments.segment_store import is_sealed, segment_in
from almanac.index.vectors.keys import RowNumbers
from almanac.index.vectors.quantized import write_quantized
from almanac.index.vectors.vector_matrix import create_matrix
from almanac.index.vectors.vector_store import VectorStore
from almanac.index.versions.version_store import manifest_in
from almanac.schemas.errors import AlmanacError, DamagedVersion, OperationalError, as_storage_error
from almanac.schemas.manifest import Manifest, Sealed

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection

    from almanac.index.lexical.writer import KnownRows

BUILDER = "almanac.index.build.builder"  # the child's module
_SENT = 1000  # rows at a time; Chroma takes up to 5,461
_WORTH = 250  # rows that have to stay, for a copy of the parent's collection to be cheaper
# HNSW does not reuse the slots of deleted rows. With 2 % of 3,000 rows changed each time, files grew from 43 to 48 MB
# until half of the rows had been replaced, and to 63 MB after 80 deltas; recall@10 stayed at .99.
_MOST_SLOTS = 1.5  # for each row
_log = get_logger("almanac.build")


def build_version(
    job: BuildJob,
    *,
    on_progress: OnProgress = ignore,
    until: threading.Event | None = None,
    fork_server: ForkServer | None = None,
) -> BuildFacts:
    """Builds `job.version_dir` in a child process, without a manifest; returns how it was built.

    A collection that was there already may be damaged so that it crashes the child, or takes all memory: all rows are
    then sent anew.

    Args:
        job: What to build.
        on_progress: Called with numbers of rows that are in the collection, and of all rows.
        until: Set once all texts have a vector; None where all have.
        fork_server: A process that was started ahead.

    Raises OperationalError when the directory is not empty or the child dies, DamagedVersion when a vector is missing,
    StorageError when the disk fails.
    """
    built: list[BuildFacts] = []
    crashed: list[str] = []

    def forward(message: Message) -> None:
        if "facts" in message:
            built.append(BuildFacts.model_validate(message["facts"]))
        else:
            on_progress(message["done"], message["total"])

    def build(this: BuildJob, on_signal: Callable[[str], None] | None) -> None:
        run_child(BUILDER, this.model_dump_json(), forward, on_signal=on_signal, until=until, fork_server=fork_server)

    is_left = job.name is not None and leftover_of(_index_dir(job), job.name).is_dir()
    build(job, crashed.append if is_left or job.parent is not None else None)
    if crashed:
        _log.warning("the builder crashed on a collection that was there: begun anew", kb=job.kb, signal=crashed[0])
        for path in list(job.version_dir.glob("*")):  # not the folder: another segment would take its name
            remove(path)
        build(job.model_copy(update={"parent": None}), None)
    [facts] = built
    if facts.why_full:
        tell = _log.warning if facts.parent_damaged else _log.info
        tell("built in full", kb=job.kb, parent=job.parent.name if job.parent else None, why=facts.why_full)
    if facts.found:
        _log.info("rows already in the staged collection", kb=job.kb, rows=facts.found, sent=facts.added)
    return facts


def _index_dir(job: BuildJob) -> Path:
    return job.version_dir.parent.parent


def build_here(job: BuildJob, on_progress: OnProgress = ignore, more: Iterable[object] = ()) -> BuildFacts:
    """Builds the version in this process; called in the child. Arguments, result and errors as in `build_version`.

    `more` yields as long as texts may get a vector.
    """
    from almanac.index.chroma.chroma_client import as_disk_full
    from almanac.index.lexical.writer import build_lexical

    if job.version_dir.exists() and any(job.version_dir.iterdir()):
        raise OperationalError(
            "the directory of the new version is not empty",
            where=str(job.version_dir),
            hint="an unfinished version is discarded by the next almanac run",
        )
    job.version_dir.mkdir(parents=True, exist_ok=True)
    for source, name in ((job.chunks, CHUNKS), (job.records, RECORDS), (job.documents, DOCUMENTS)):
        if source is not None:
            copy_file(source, job.version_dir / name)  # not a hard link, which would change with the original
    write_rows(job.version_dir)

    # Read from the copy, so that Chroma's rows match the table beside them even if the original changes meanwhile.
    table = read_table(job.version_dir / CHUNKS, ["chunk_id", "text_sha256", "fetched_at"])
    _refuse_duplicates(table)
    known = _known_rows(job, table)

    with as_disk_full(job.version_dir):
        build_lexical(job.version_dir, job.language, known)  # first: texts may still be without a vector
        rows = _Rows(job, table)
        facts = _fill(job, rows, known, on_progress, more)
        write_quantized(job.version_dir, rows.matrix)
    return facts


class _Begun(NamedTuple):
    """The collection that a build begins with. Where there is no such, `why_full` says so of a parent's."""

    slots: int = 0
    is_delta: bool = False
    is_there: bool = False
    why_full: str | None = None
    parent_damaged: bool = False
    same: RowNumbers | None = None  # rows that it has from the parent as they should be


def _fill(
    job: BuildJob, rows: "_Rows", known: "list[KnownRows]", on_progress: OnProgress, more: Iterable[object]
) -> BuildFacts:
    """Makes the collection, from what there is of it."""
    begun = _begin(job, rows, known)
    try:
        return _filled(job, rows, begun, on_progress, more)
    except (OSError, AlmanacError):
        raise
    # Chroma raises various types from its Rust core; a fault that is not of what was there will show again
    except Exception as error:
        if not begun.is_there:
            raise
        remove(job.version_dir / CHROMA)
        why = f"Chroma cannot go on from the collection that was there: {error}"
        return _filled(job, rows, _Begun(why_full=why, parent_damaged=True), on_progress, more)


def _begin(job: BuildJob, rows: "_Rows", known: "list[KnownRows]") -> _Begun:
    """Puts the collection that a kill has left, or a copy of the parent's, into the folder."""
    if job.name is not None and (left := leftover_of(_index_dir(job), job.name)).is_dir():
        making = read_making(left)
        if making is not None and (left / CHROMA).is_dir():
            note_making(job.version_dir, making)
            move(left / CHROMA, job.version_dir / CHROMA)
            remove(left)
            return _Begun(making.slots, making.is_delta, is_there=True)
        remove(left)
    begun = _copy_of_parent(job, rows, known)
    if job.name is not None:
        slots = max(begun.slots, len(rows))
        note_making(job.version_dir, Making(name=job.name, slots=slots, is_delta=begun.is_delta))
    return begun


def _copy_of_parent(job: BuildJob, rows: "_Rows", known: "list[KnownRows]") -> _Begun:
    if job.parent is None:
        return _Begun()
    total = len(rows)
    try:
        manifest = manifest_in(job.parent, job.parent.parent.parent, job.parent.name)
        earlier = next((rows for rows in known if rows.folder == job.parent), None)
        slots = _slots_of(manifest)
        if (manifest.kb, manifest.collection, manifest.embedder.fingerprint) != (
            job.kb,
            job.collection,
            job.embedder.fingerprint,
        ):
            return _Begun(why_full="another collection or embedder")
        if slots is None:
            return _Begun(why_full="rows are laid out in another way now")
        if earlier is None:
            return _Begun(why_full="its table is damaged", parent_damaged=True)
        stay = len(earlier.kept)
        if stay < _WORTH:
            return _Begun(why_full=f"{stay} rows stay")
        if slots + total - stay > _MOST_SLOTS * total:
            return _Begun(why_full=f"its index has room for {slots} rows, of which {stay} stay")
        copy_listed(job.parent, manifest, job.version_dir, f"{CHROMA}/")
        copy_database(job.parent, job.version_dir)
    except AlmanacError as error:
        if (job.version_dir / CHROMA).is_dir():
            remove(job.version_dir / CHROMA)
        where = f": {error.where}" if error.where else ""
        return _Begun(why_full=f"{error.message}{where}", parent_damaged=True)
    return _Begun(slots + total - stay, is_delta=True, is_there=True, same=rows.same_as(earlier))


def _slots_of(manifest: Manifest) -> int | None:
    try:
        facts = BuildFacts.model_validate(manifest.lineage.get("build"))
    except ValidationError:
        return None
    return facts.slots if facts.layout == row_layout() else None


def _filled(job: BuildJob, rows: "_Rows", begun: _Begun, on_progress: OnProgress, more: Iterable[object]) -> BuildFacts:
    from almanac.index.chroma.chroma_client import create_collection, flush, open_client, open_collection

    with open_client(job.version_dir) as client:
        if begun.is_there:
            filling = _Filling(open_collection(client, job.collection), rows, begun.same)
        else:
            filling = _Filling(create_collection(client, job.collection, job.kb, job.embedder, len(rows)), rows)
        pending = filling.send(rows.by_id, on_progress)
        for _ in more:
            pending = filling.send(pending, on_progress)
        if len(pending := filling.send(pending, on_progress)):
            rows.read_vectors(pending)  # raises
        flush(filling.collection)
    return BuildFacts(
        kind="delta" if begun.is_delta else "full",
        added=filling.sent,
        removed=filling.removed,
        found=filling.found,
        slots=max(begun.slots, len(rows)),
        layout=row_layout(),
        why_full=begun.why_full,
        parent_damaged=begun.parent_damaged,
    )


class _Filling:
    """A collection that gets the rows whose vectors are there. Counts rows that were `found` as they should be, `sent`,
    and `removed`. Rows that are the `same` are not compared.
    """

    def __init__(self, collection: "Collection", rows: "_Rows", same: RowNumbers | None = None) -> None:
        self.collection, self._rows = collection, rows
        self._is_same = np.zeros(len(rows), dtype=bool)
        self._is_same[[] if same is None else same] = True
        self._there = set(collection.get(include=[])["ids"])
        self.sent, self.found, self.removed = 0, 0, 0
        if len(self._there) != collection.count():
            raise ValueError(f"it counts {collection.count()} rows, and lists {len(self._there)}")
        foreign = sorted(self._there - set(rows.ids.to_pylist())) if self._there else []
        self._delete(foreign)
        self._there -= set(foreign)

    def send(self, pending: RowNumbers, on_progress: OnProgress) -> RowNumbers:
        """Sends those of the rows whose vector is there by now; returns the others."""
        ready = self._rows.have_vectors(pending)
        numbers = pending[ready]
        self._rows.read_vectors(numbers)
        ids = self._rows.ids.take(pa.array(numbers)).to_pylist()
        is_left = ~self._is_same[numbers] | np.array([chunk_id not in self._there for chunk_id in ids], dtype=bool)
        self.found += int(np.count_nonzero(~is_left))
        left = numbers[is_left]
        for begin in range(0, len(left), _SENT):
            self._put(left[begin : begin + _SENT])
            on_progress(self.sent + self.found, len(self._rows))
        if len(numbers) and not len(left):
            on_progress(self.sent + self.found, len(self._rows))
        rest: RowNumbers = pending[~ready]
        return rest

    def _put(self, numbers: RowNumbers) -> None:
        from almanac.index.chroma.chroma_client import add_rows

        rows, vectors = self._rows.read(numbers), self._rows.matrix[numbers]
        there = [place for place, row in enumerate(rows) if row["chunk_id"] in self._there]
        wrong = {
            difference.chunk_id
            for difference in differences(self.collection, [rows[place] for place in there], vectors[there])
        }
        self._delete(sorted(wrong))
        right = {rows[place]["chunk_id"] for place in there} - wrong
        new = [place for place, row in enumerate(rows) if row["chunk_id"] not in right]
        if new:
            add_rows(self.collection, [rows[place] for place in new], vectors[new])
        self.found, self.sent = self.found + len(right), self.sent + len(new)

    def _delete(self, ids: list[str]) -> None:
        for begin in range(0, len(ids), _SENT):
            self.collection.delete(ids=ids[begin : begin + _SENT])
        self.removed += len(ids)


class _Rows:
    """The rows of the folder, mapped and not loaded. `matrix`, float32 (n, dimension), has the vectors of those that
    were read.
    """

    def __init__(self, job: BuildJob, table: pa.Table) -> None:
        self._mapped = MappedRows(job.version_dir, len(table))
        self._keys = table.column("text_sha256").combine_chunks()
        self._times = table.column("fetched_at")
        self.ids = table.column("chunk_id")
        self.by_id: RowNumbers = pc.sort_indices(self.ids).to_numpy().astype(np.int64)
        self.matrix = create_matrix(job.version_dir, len(table), job.embedder.dimension)
        self._store = VectorStore(job.vectors_root, job.embedder)
        self._digests = digests_of(self._keys)
        self._have_vectors = np.zeros(len(table), dtype=np.bool_)
        self._seen = set[str]()

    def __len__(self) -> int:
        return len(self.ids)

    def same_as(self, earlier: "KnownRows") -> RowNumbers:
        """The rows that the folder has as they are: when one was fetched is stored, and no part of its id."""
        times = read_table(earlier.folder / CHUNKS, ["fetched_at"]).column(0)
        before, now = times.take(pa.array(earlier.places)), self._times.take(pa.array(earlier.kept))
        is_same = pc.fill_null(pc.equal(before, now), fill_value=False).to_numpy()
        same: RowNumbers = earlier.kept[is_same]
        return same

    def have_vectors(self, numbers: RowNumbers) -> npt.NDArray[np.bool_]:
        """Of which of these rows a vector is there by now, bool (n,). Parts that were there the last time, such as
        those of other knowledge bases, are not read again.
        """
        new = set(self._store.parts()) - self._seen
        self._seen |= new
        columns = []
        for name in sorted(new):
            with suppress(DamagedVersion):  # told at the end
                columns.append(read_table(self._store.folder / name, ["text_sha256"]).column(0))
        self._have_vectors |= DigestSet(digests_in(columns)).has(self._digests)
        return self._have_vectors[numbers]

    def read(self, numbers: RowNumbers) -> list[dict[str, Any]]:
        return self._mapped.rows(numbers, STORED_COLUMNS)

    def read_vectors(self, numbers: RowNumbers) -> None:
        """Puts the vectors of these rows into the matrix. Raises DamagedVersion where one is missing."""
        if len(numbers):
            self._store.read_into(self._keys.take(pa.array(numbers)), self.matrix, numbers)


def _known_rows(job: BuildJob, table: pa.Table) -> "list[KnownRows]":
    """The rows that the folder has of the parent and of `job.known_from`; those of a damaged one are left out, and
    analyzed again.
    """
    from almanac.index.lexical.writer import KnownRows

    ids, known = table.column("chunk_id").combine_chunks(), []
    for folder in [*([job.parent] if job.parent else []), *job.known_from]:
        try:
            sealed: Sealed = (
                segment_in(folder) if is_sealed(folder) else manifest_in(folder, folder.parent.parent, folder.name)
            )
            earlier = read_table(verified_file(folder, sealed, CHUNKS), ["chunk_id"]).column(0).combine_chunks()
        except AlmanacError as error:
            _log.warning("damaged: its rows are analyzed again", kb=job.kb, folder=folder.name, why=error.message)
            continue
        places = pc.index_in(ids, value_set=earlier)
        shared = pc.indices_nonzero(pc.is_valid(places)).to_numpy().astype(np.int64)
        known.append(KnownRows(folder, sealed, shared, places.take(pa.array(shared)).to_numpy().astype(np.int64)))
    return known


def _refuse_duplicates(table: pa.Table) -> None:
    counts = table.group_by("chunk_id").aggregate([([], "count_all")])
    twice = counts.filter(pc.field("count_all") > 1).column("chunk_id")
    if len(twice):
        raise OperationalError(f"the chunk id {twice[0]} stands twice", where=CHUNKS, hint="a defect: please report it")


def work(job_text: str, send: Callable[[Message], None], more: Iterable[object] = ()) -> None:
    job = BuildJob.model_validate_json(job_text)

    def report(done: int, total: int) -> None:
        send({"done": done, "total": total})

    with as_storage_error(job.version_dir):
        facts = build_here(job, report, more)
    send({"facts": facts.model_dump()})


def prepare() -> None:
    """Imports what the work needs, before there is any."""
    import pandas  # noqa: F401  # pyarrow imports it with the first array

    import almanac.index.chroma.chroma_client
    import almanac.index.lexical.writer  # noqa: F401
