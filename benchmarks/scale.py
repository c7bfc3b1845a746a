"""What refreshes, queries and memory come to as a knowledge base grows, in versions of several segments.

    python -m benchmarks.scale [--chunks 100000 300000] [--rounds 10] [--folder DIR]

Chunks of some 1 KB and vectors of 384 dimensions are made up, as for `benchmarks.index`; nothing is embedded. A full
build by one process (one core, one segment after another) is the measure; then come the same build on all cores,
refreshes that each replace 1 % of the chunks, merges included, and a reader that opens the last version and answers
hybrid queries. Each step is a process of its own. Published are ratios; seconds are this machine's. Memory is that of a
step with all its children at its peak, what is mapped from files told apart: the system takes that back where it needs
room.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from almanac.core.logs import log_through_stdlib
from almanac.core.tables import (
    CHUNK_SCHEMA,
    CHUNKS,
    DOCUMENTS,
    RECORDS,
    TableWriter,
    batches_of,
    chunks_table,
    items_table,
    read_batches,
    read_table,
    write_table,
)
from almanac.index.build.derived import derive
from almanac.index.build.digest import DIGESTED, digest_of
from almanac.index.build.job import SegmentSpec
from almanac.index.build.planner import PlanJob
from almanac.index.composing.version import build_segmented
from almanac.index.reader import OpenVersion
from almanac.index.segments.segment_store import remove_unnamed_segments
from almanac.index.vectors.vector_store import VectorStore
from almanac.index.verify.verifier import verify_composition
from almanac.index.versions.publish import finish_version, publish
from almanac.index.versions.version_store import current_version, next_version, version_dir
from almanac.query.retrieval.request import Request
from almanac.query.retrieval.retriever import Retriever
from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.manifest import Counts, EmbedderInfo, Manifest, Verdict
from benchmarks.index import machine, made_up_rows

_INFO = EmbedderInfo(provider="benchmark", model="made-up", revision="1", dimension=384, fingerprint="benchmark0000000")
_SPEC = {"kb": "benchmark", "collection": "benchmark", "language": "en", "embedder": _INFO}
_CHANGED = 100  # one chunk of so many goes in each round, and as many come
_PART = 500  # vectors of a part, as embedding writes them
# Dimensions in which made-up vectors differ. Of 100,000 with five of a topic, HNSW finds .98 of the ten nearest, as
# many as of 100,000 pieces of program text whose words' vectors were summed; where they differ in all 384, .78.
_MEANING = 64
_LIMIT = 50_000  # `index.segment`
# timed at first, and once so many others are answered: by then most pages of the files are mapped
_QUERIES, _BEFORE = 200, 2_000
_STEPS = ("make", "change", "full build, one process", "full build", "refresh", "read", "read from the disk")
_EVERY_S = 0.1  # between two looks at memory


def main() -> None:
    log_through_stdlib()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, nargs="+", default=[100_000, 300_000])
    parser.add_argument("--rounds", type=int, default=14, help="refreshes, one after another")
    parser.add_argument(
        "--folder", type=Path, help="where files are made and removed again; a million chunks take 35 GB"
    )
    parser.add_argument(
        "--single-up-to",
        type=int,
        default=300_000,
        help="chunks up to which a full build by one process is made; beyond, it is extrapolated",
    )
    parser.add_argument("--step", choices=_STEPS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:
        _measure(arguments.step, arguments.folder, arguments.chunks[0])
        return
    measured: dict[int, dict[str, list[dict[str, Any]]]] = {}
    for chunks in arguments.chunks:
        with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="benchmark-scale-") as name:
            measured[chunks] = _measured(Path(name), chunks, arguments.rounds, arguments.single_up_to)
        _show(measured, arguments.rounds)


def _measured(folder: Path, chunks: int, rounds: int, single_up_to: int) -> dict[str, list[dict[str, Any]]]:
    figures: dict[str, list[dict[str, Any]]] = {step: [] for step in _STEPS}

    def do(step: str) -> None:
        command = [
            sys.executable,
            "-m",
            "benchmarks.scale",
            "--step",
            step,
            "--folder",
            str(folder),
            "--chunks",
            str(chunks),
        ]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        figures[step].append(json.loads(done.stdout.splitlines()[-1]))
        sys.stderr.write(f"{chunks:,} {step}: {figures[step][-1]}\n")

    do("make")
    if chunks <= single_up_to:
        do("full build, one process")
    do("full build")
    do("read")
    do("read from the disk")
    for _ in range(rounds):
        do("change")
        do("refresh")
    do("read")
    do("read from the disk")
    return figures


def _measure(step: str, folder: Path, chunks: int) -> None:
    """Does one step and prints what it took."""
    if step == "full build, one process":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    works: dict[str, Callable[[], dict[str, Any]]] = {
        "make": lambda: _make(folder, chunks),
        "change": lambda: _change(folder, chunks),
        "full build, one process": lambda: _version(folder, folder / "index" / "single", from_parent=False),
        "full build": lambda: _version(folder, folder / "index" / "benchmark", from_parent=False),
        "refresh": lambda: _version(folder, folder / "index" / "benchmark", from_parent=True),
        "read": lambda: _read(folder),
        "read from the disk": lambda: _read(folder, from_disk=True),
    }
    # To sample the memory of a reader takes tens of milliseconds each time, for a page table of gigabytes, in which it
    # can map nothing.
    with nullcontext() if step.startswith("read") else _Memory() as memory:
        begin = time.perf_counter()
        facts = works[step]()
        seconds = time.perf_counter() - begin
    sys.stdout.write(
        "\n" + json.dumps({"seconds": round(seconds, 2), **(memory.peak if memory else {}), **facts}) + "\n"
    )


def _make(folder: Path, chunks: int) -> dict[str, Any]:
    """The tables of a run, and vectors for its chunks and for those that come later."""
    store = VectorStore(folder / "vectors", _INFO)
    rows = made_up_rows(chunks + 20 * max(1, chunks // _CHANGED))
    random = np.random.default_rng(1)
    topics = random.normal(size=(max(1, chunks // 50), _MEANING)).astype(np.float32)
    spread = random.normal(size=(_MEANING, _INFO.dimension)).astype(np.float32)
    written = 0
    with (
        TableWriter(folder / "tables" / CHUNKS, CHUNK_SCHEMA) as now,
        TableWriter(folder / "coming.parquet", CHUNK_SCHEMA) as coming,
    ):
        while batch := list(islice(rows, _PART)):
            keys = [row.text_sha256 for row in batch]
            # As those of texts do, vectors crowd around topics in fewer dimensions than they have; independent ones are
            # far harder for HNSW.
            meaning = topics[random.integers(0, len(topics), size=len(keys))] + 0.7 * random.normal(
                size=(len(keys), _MEANING)
            ).astype(np.float32)
            vectors = meaning @ spread
            store.write_part(keys, vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
            table = chunks_table(batch)
            now.write(table.slice(0, max(0, chunks - written)))
            coming.write(table.slice(max(0, chunks - written)))
            written += len(batch)
    for name in (RECORDS, DOCUMENTS):
        write_table(folder / "tables" / name, items_table([]))
    (folder / "round").write_text("0", encoding="utf-8")
    return {}


def _change(folder: Path, chunks: int) -> dict[str, Any]:
    """The tables of the next run: 1 % of the chunks are gone, and as many have come."""
    number, each = int((folder / "round").read_text(encoding="utf-8")), max(1, chunks // _CHANGED)
    stays = np.ones(pq.read_metadata(folder / "tables" / CHUNKS).num_rows, dtype=np.bool_)
    stays[np.random.default_rng(number).choice(len(stays), each, replace=False)] = False
    begin = 0
    with TableWriter(folder / "next.parquet", CHUNK_SCHEMA) as table:
        for batch in read_batches(folder / "tables" / CHUNKS):
            table.write(batch.filter(pa.array(stays[begin : begin + batch.num_rows])))
            begin += batch.num_rows
        table.write(read_table(folder / "coming.parquet").slice(number * each, each))
    (folder / "next.parquet").replace(folder / "tables" / CHUNKS)
    (folder / "round").write_text(str(number + 1), encoding="utf-8")
    return {}


def _version(folder: Path, index_dir: Path, *, from_parent: bool) -> dict[str, Any]:
    """The index stage of a run, Prefect left out: plan and build, verify, seal, publish, remove what no version
    names.
    """
    laps, before = [time.perf_counter()], _size(index_dir)
    name, parent = next_version(index_dir), current_version(index_dir) if from_parent else None
    directory, chunks, spec = (
        version_dir(index_dir, name),
        folder / "tables" / CHUNKS,
        SegmentSpec(vectors_root=folder / "vectors", **_SPEC),
    )
    job = PlanJob(
        index_dir=index_dir, version_dir=directory, spec=spec, limit=_LIMIT, chunks=chunks,
        records=folder / "tables" / RECORDS,
        documents=folder / "tables" / DOCUMENTS, parent=version_dir(index_dir, parent) if parent else None,
    )  # fmt: skip
    with ThreadPoolExecutor(1) as thread:
        deriving = thread.submit(derive, batches_of(chunks), Embed())
        built = build_segmented(job)
        derived = deriving.result()
    laps.append(time.perf_counter())
    if problems := verify_composition(index_dir, directory, built.segments, chunks, _INFO):
        raise SystemExit(f"{name} is not what was built: {problems[:3]}")
    laps.append(time.perf_counter())
    digest = digest_of(read_table(chunks, DIGESTED), _INFO.fingerprint)
    laps.append(time.perf_counter())
    manifest = Manifest(
        kb="benchmark", version=name, parent=parent, created_at="2026-01-01T00:00:00+00:00", run_id="benchmark",
        digest=digest,
        counts=Counts(records=0, documents=0, chunks=pq.read_metadata(chunks).num_rows), fingerprints={},
        embedder=_INFO, derived=derived,
        declaration_sha256="0" * 64, collection="benchmark", language="en", gate=Verdict(verdict="passed", checks=[]),
        lineage={"build": built.facts.model_dump()}, software={}, files=[], segments=list(built.segments),
    )  # fmt: skip
    finish_version(index_dir, manifest)
    publish(index_dir, name)
    disk = _size(index_dir) - before
    remove_unnamed_segments(index_dir)
    laps.append(time.perf_counter())
    parts = dict(zip(("build", "verify", "digest", "publish"), np.diff(laps).round(2).tolist(), strict=True))
    return {
        "disk": disk,
        "segments": len(built.segments),
        "merged": built.facts.merged,
        "deleted": sum(use.deleted for use in built.segments),
        "parts": parts,
    }


def _read(folder: Path, *, from_disk: bool = False) -> dict[str, Any]:
    """Opens the version, answers a first hybrid query, and then others, all different, with given vectors. `from_disk`:
    none of its files is in memory.
    """
    index_dir = folder / "index" / "benchmark"
    declaration = Declaration.model_validate(
        {"name": "benchmark", "sources": [{"name": "s", "kind": "files", "glob": "*"}], "language": "en"}
    )
    coming = next(read_batches(folder / "coming.parquet", ["text", "text_sha256"], rows=_BEFORE + _QUERIES))
    questions = [" ".join(text.split()[20:28]) for text in coming.column("text").to_pylist()]
    vectors = VectorStore(folder / "vectors", _INFO).read(coming.column("text_sha256").to_pylist())
    if from_disk:
        _forget(index_dir)
    begin = time.perf_counter()
    with OpenVersion(index_dir, current_version(index_dir) or "") as opened:
        retriever = Retriever(declaration, opened, lambda _: vectors[:0])
        retriever.warm(_INFO.dimension)  # as `almanac serve` does, before a version's first answer
        times = []
        for question, vector in zip(questions, vectors, strict=True):
            retrieved = retriever.find(Request(question, vector, 10, "hybrid"))
            if len(retrieved.hits) != 10:
                raise SystemExit(f"{len(retrieved.hits)} hits")
            times.append(time.perf_counter() - begin)
            begin = time.perf_counter()
        early, late = (np.percentile(some, [50, 99]).tolist() for some in (times[20:_QUERIES], times[_BEFORE:]))
        shown = {
            "early_ms": [round(1000 * seconds, 2) for seconds in early],
            "late_ms": [round(1000 * seconds, 2) for seconds in late],
        }
        return {"first_s": round(times[0], 2), **shown, **_memory_of(os.getpid())}


def _forget(folder: Path) -> None:
    """Has the system drop files from its memory, as far as it can."""
    os.sync()
    for path in (path for path in folder.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


class _Memory:
    """Context manager that samples the memory of this process and its children; `peak` is the largest sum of what is
    not mapped from files, and the rest.
    """

    def __init__(self) -> None:
        self.peak = {"anonymous_mib": 0, "mapped_mib": 0}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> "_Memory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._over.wait(_EVERY_S):
            memories = [_memory_of(pid) for pid in _family(os.getpid())]
            total = {key: sum(memory[key] for memory in memories) for key in self.peak}
            self.peak = {key: max(total[key], self.peak[key]) for key in self.peak}


def _family(pid: int) -> Iterator[int]:
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
        others = [
            child
            for task in Path(f"/proc/{pid}/task").iterdir()
            if task.name != str(pid)
            for child in (task / "children").read_text().split()
        ]
    except OSError:
        return
    for child in {*children, *others}:
        yield from _family(int(child))


def _memory_of(pid: int) -> dict[str, int]:
    """Resident memory of a process in MiB: its own, and what is mapped from files. A page that forks share counts for
    each in part, and once for all.
    """
    try:
        shares = dict(
            line.split(":", 1)
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
            if ":" in line
        )
        return {
            "anonymous_mib": int(shares["Pss_Anon"].split()[0]) // 1024,
            "mapped_mib": int(shares["Pss_File"].split()[0]) // 1024,
        }
    except (OSError, KeyError):  # it has ended
        return {"anonymous_mib": 0, "mapped_mib": 0}


def _show(measured: dict[int, dict[str, list[dict[str, Any]]]], rounds: int) -> None:
    lines = [
        "| chunks | step | seconds | of one process | disk, of the full one | memory MiB, own + mapped | |",
        "|---:|---|---:|---:|---:|---:|---|",
    ]
    # seconds a chunk of a full build by one process, of the largest base for which it was made
    rate: float | None = None
    for chunks, figures in measured.items():
        if single := figures["full build, one process"]:
            rate = single[0]["seconds"] / chunks
        base = chunks * rate if rate is not None else None
        full, refreshes = figures["full build"][0], figures["refresh"]
        for step in ("full build, one process", "full build"):
            lines += [
                _line(
                    chunks,
                    step,
                    build["seconds"],
                    base,
                    build["disk"] / full["disk"],
                    build,
                    f"{build['segments']} segments",
                )
                for build in figures[step]
            ]
        seconds, disk = (float(np.mean([refresh[key] for refresh in refreshes])) for key in ("seconds", "disk"))
        peak = {key: max(refresh[key] for refresh in refreshes) for key in ("anonymous_mib", "mapped_mib")}
        merged, last = sum(refresh["merged"] > 0 for refresh in refreshes), refreshes[-1]
        merges = (
            f"{rounds} rounds, {merged} merges, {last['segments']} segments, {last['deleted']:,} deleted at the end"
        )
        lines.append(_line(chunks, "1 % changed, mean", seconds, base, disk / full["disk"], peak, merges))
        for when, from_memory, from_disk in zip(
            ("full build", "the refreshes"), figures["read"], figures["read from the disk"], strict=True
        ):
            early, late = (" / ".join(map(str, from_memory[name])) for name in ("early_ms", "late_ms"))
            first = f"first answer {from_memory['first_s']} s, from the disk {from_disk['first_s']} s"
            latencies = f"{first}; hybrid p50 / p99 of the first {_QUERIES}: {early} ms, after {_BEFORE:,}: {late} ms"
            lines.append(f"| {chunks:,} | reader after {when} | | | | {_memory(from_memory)} | {latencies} |")
    lines += ["", f"Chunks of 1 KB, {_INFO.dimension} dimensions, `index.segment` {_LIMIT:,}; {machine()}."]
    sys.stdout.write("\n".join(lines) + "\n")


def _line(
    chunks: int, step: str, seconds: float, base: float | None, disk: float, memory: dict[str, Any], remark: str
) -> str:
    share = "" if base is None else f"{seconds / base:.1%}"
    return f"| {chunks:,} | {step} | {seconds:.1f} | {share} | {disk:.1%} | {_memory(memory)} | {remark} |"


def _memory(memory: dict[str, Any]) -> str:
    return f"{memory['anonymous_mib']:,} + {memory['mapped_mib']:,}"


if __name__ == "__main__":
    main()
