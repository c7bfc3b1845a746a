"""What a new version costs: built in full, and with 1 % of its chunks changed; going back; opening; peak memory of
each.

    python -m benchmarks.index [--chunks 100000] [--folder DIR]

Chunks of some 1 KB and vectors of 384 dimensions are made up and kept as a run would have kept them; nothing is
embedded. Each piece of work is done by a process of its own that has its imports behind it; what it starts itself (the
builder, the verifier) imports Chroma on the clock. Published are ratios and peaks of resident memory, children
included; seconds are this machine's.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from almanac.core.logs import log_through_stdlib
from almanac.core.tables import CHUNKS, batches_of, chunks_table, read_table, write_table
from almanac.index.build.builder import build_version
from almanac.index.build.derived import derive
from almanac.index.build.digest import digest_of
from almanac.index.build.job import BuildJob
from almanac.index.reader import OpenVersion
from almanac.index.vectors.vector_store import VectorStore
from almanac.index.verify.verifier import verify_version
from almanac.index.versions.publish import finish_version, publish, rollback
from almanac.index.versions.version_store import current_version, read_manifest, version_dir
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.items import ChunkRow
from almanac.schemas.manifest import Counts, Derived, EmbedderInfo, Manifest, Verdict

_INFO = EmbedderInfo(provider="benchmark", model="made-up", revision="1", dimension=384, fingerprint="benchmark0000000")
_CHANGED = 100  # one chunk of so many goes, and as many come
_CHECKPOINT = 500
MAKE = "what is measured with"
_STEPS = ("full build", "1 % changed", "digest", "rollback", "open and first answer")


def main() -> None:
    log_through_stdlib()
    arguments = _arguments()
    if arguments.step == MAKE:
        _make(arguments.folder, arguments.chunks)
        return
    if arguments.step:
        _measure(arguments.step, arguments.folder)
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="benchmark-index-") as name:
        folder = Path(name)
        # In a process of its own, like each step: a child begins with the peak of memory that its parent has had.
        subprocess.run(command(MAKE, folder, arguments.chunks), check=True)
        measured = {step: _in_a_process(step, folder, arguments.chunks) for step in _STEPS}
    _show(arguments.chunks, measured)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help="where files are made and removed again; 100,000 chunks take 3 GB")
    parser.add_argument("--step", choices=(MAKE, *_STEPS), help=argparse.SUPPRESS)
    return parser.parse_args()


def _make(folder: Path, chunks: int) -> None:
    """The table before, the table after, and the vectors of both."""
    coming = max(1, chunks // _CHANGED)
    rows = list(made_up_rows(chunks + coming))
    store = VectorStore(folder / "vectors", _INFO)
    random = np.random.default_rng(1)
    topics = random.normal(size=(max(1, chunks // 50), _INFO.dimension)).astype(np.float32)
    for begin in range(0, len(rows), _CHECKPOINT):
        keys = [row.text_sha256 for row in rows[begin : begin + _CHECKPOINT]]
        # As texts do, vectors crowd around topics; independent ones are far harder for HNSW.
        vectors = topics[random.integers(0, len(topics), size=len(keys))] + 0.7 * random.normal(
            size=(len(keys), _INFO.dimension)
        ).astype(np.float32)
        store.write_part(keys, vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    write_table(folder / "before" / CHUNKS, chunks_table(rows[:chunks]))
    write_table(
        folder / "after" / CHUNKS,
        chunks_table(row for number, row in enumerate(rows) if number % _CHANGED or number >= chunks),
    )


def made_up_rows(count: int) -> Iterator[ChunkRow]:
    random = np.random.default_rng(0)
    words = np.array(
        [
            "".join(chr(97 + letter) for letter in random.integers(0, 26, size=random.integers(3, 11)))
            for _ in range(20_000)
        ]
    )
    for number in range(count):
        page = number // 5
        text = " ".join(words[(random.zipf(1.3, size=150) - 1) % len(words)])[:1000]
        yield ChunkRow(
            document_id=f"page{page}", source="site", url=f"https://example.org/{page}", title=f"Page {page}",
            kind="document", ordinal=number % 5,
            start=0, end=len(text), text=text, embedded_text=f"Page {page}. {text} {number}",
            metadata={"section": f"s{number % 17}", "number": number, "tags": ["a", "b"]},
            fetched_at="2026-01-01T00:00:00+00:00",
        )  # fmt: skip


def command(step: str, folder: Path, chunks: int) -> list[str]:
    return [sys.executable, "-m", "benchmarks.index", "--step", step, "--folder", str(folder), "--chunks", str(chunks)]


def _in_a_process(step: str, folder: Path, chunks: int) -> dict[str, Any]:
    done = subprocess.run(command(step, folder, chunks), check=True, stdout=subprocess.PIPE, text=True)
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def _measure(step: str, folder: Path) -> None:
    """Does one piece of work and prints what it took."""
    work = _prepared(step, folder)
    start, cpu = time.perf_counter(), _cpu_seconds()
    parts = work()
    seconds = time.perf_counter() - start
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024
    sys.stdout.write(
        "\n" + json.dumps({"seconds": seconds, "cpu": _cpu_seconds() - cpu, "mib": peak, "parts": parts}) + "\n"
    )


def _prepared(step: str, folder: Path) -> Callable[[], dict[str, float]]:
    """The work of a step, with everything imported that a process which runs for longer has imported."""
    index_dir = folder / "index" / "benchmark"
    if step == "full build":
        return lambda: make_version(folder, "before", "v0001", None)
    if step == "1 % changed":
        return lambda: make_version(folder, "after", "v0002", "v0001")
    if step == "digest":
        table = read_table(folder / "after" / CHUNKS, ["chunk_id", "text_sha256", "metadata"])
        return lambda: {"digest": len(digest_of(table, _INFO.fingerprint))}
    if step == "rollback":
        return lambda: {"to": float(rollback(index_dir)[1:])}
    import almanac.index.chroma.chroma_client  # noqa: F401

    return lambda: _ask(index_dir)


def make_version(folder: Path, table: str, name: str, parent: str | None) -> dict[str, float]:
    """The index stage, Prefect left out: build, verify, finish, publish; seconds of each."""
    index_dir, laps = folder / "index" / "benchmark", [time.perf_counter()]
    directory = version_dir(index_dir, name)
    job = BuildJob(
        version_dir=directory, kb="benchmark", collection="benchmark", language="en", chunks=folder / table / CHUNKS,
        vectors_root=folder / "vectors",
        embedder=_INFO, parent=version_dir(index_dir, parent) if parent else None,
    )  # fmt: skip
    facts = build_version(job)
    if facts.kind != ("delta" if parent else "full"):
        raise SystemExit(f"{name} was built in another way than it should: {facts}")
    laps.append(time.perf_counter())
    if problems := verify_version(directory, None, folder / "vectors", _INFO):
        raise SystemExit(f"{name} is not what was built: {problems[:3]}")
    laps.append(time.perf_counter())
    chunks = read_table(folder / table / CHUNKS, ["chunk_id", "text_sha256", "metadata"])
    derived = derive(batches_of(folder / table / CHUNKS), Embed())
    finish_version(
        index_dir,
        _manifest(name, parent, digest_of(chunks, _INFO.fingerprint), derived, chunks.num_rows, facts.model_dump()),
    )
    publish(index_dir, name)
    laps.append(time.perf_counter())
    return dict(zip(("build", "verify", "finish and publish"), np.diff(laps).tolist(), strict=True))


def _manifest(
    name: str, parent: str | None, digest: str, derived: Derived, chunks: int, facts: dict[str, Any]
) -> Manifest:
    return Manifest(
        kb="benchmark", version=name, parent=parent, created_at="2026-01-01T00:00:00+00:00", run_id="benchmark",
        digest=digest,
        counts=Counts(records=0, documents=0, chunks=chunks), fingerprints={}, embedder=_INFO, derived=derived,
        declaration_sha256="0" * 64,
        collection="benchmark", gate=Verdict(verdict="passed", checks=[]), lineage={"build": facts}, software={},
        files=[],
    )  # fmt: skip


def _ask(index_dir: Path) -> dict[str, float]:
    name = current_version(index_dir) or ""
    with OpenVersion(index_dir, name) as opened:
        hits = opened.query(np.full(_INFO.dimension, _INFO.dimension**-0.5, dtype=np.float32), 10)
        opened.rows([chunk_id for chunk_id, _ in hits])
    if len(hits) != min(10, read_manifest(index_dir, name).counts.chunks):
        raise SystemExit(f"{len(hits)} hits")
    return {}


def _cpu_seconds() -> float:
    """Of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _show(chunks: int, measured: dict[str, dict[str, Any]]) -> None:
    full = measured["full build"]
    lines = [
        "| work | seconds | of the full build | processor seconds | peak MiB | of it |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for step, figures in measured.items():
        share = f"{figures['seconds'] / full['seconds']:.1%}" if step in _STEPS[:2] else ""
        parts = (
            ", ".join(f"{name} {seconds:.1f}" for name, seconds in figures["parts"].items())
            if step in _STEPS[:2]
            else ""
        )
        lines.append(
            f"| {step} | {figures['seconds']:.2f} | {share} | {figures['cpu']:.2f} | {figures['mib']:.0f} | {parts} |"
        )
    names = ("chromadb", "pyarrow", "numpy")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    lines += [
        "",
        f"{chunks:,} chunks of 1 KB, {_INFO.dimension} dimensions. Python {platform.python_version()}, "
        f"{versions}; {machine()}.",
    ]
    sys.stdout.write("\n".join(lines) + "\n")


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    free = shutil.disk_usage(tempfile.gettempdir()).free / 2**30
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors, {memory:.0f} GiB, load "
        f"{os.getloadavg()[0]:.1f}, {free:.0f} GiB free"
    )


if __name__ == "__main__":
    main()
