"""Seconds of mapping, cutting and embedding: the plain run, one Dask worker of one thread, and two.

    python -m benchmarks.distributed [--pages 600] [--paragraphs 12] [--mapped 6000] [--workers 1 2]

Needs as many idle cores as workers, and one for the run and the scheduler: on a busy machine the ratio says nothing.
For each number of workers a scheduler and workers are started on loopback, and a small knowledge base is run on them
first, so that imports and loading of the model are not timed. Then two others made by a seed are run, each from an
empty data directory, with the bundled model in one thread: one whose texts all differ, for cutting and embedding, and
one of many pages with few different texts, for mapping. What is printed is the run's own seconds for these stages, and
the digest, which has to be the same for all. Published are ratios.
"""

import argparse
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_DECLARATION = """
name: made
sources:
  - {name: pages, kind: files, glob: "pages/*.html", yields: documents}
chunk: {by: paragraphs, size: 600, overlap: 0}
run: {engine: ENGINE}
"""
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_STAGES = {"map": "map", "chunk": "cut", "embed": "embed"}  # as the report names them
_SHOWN = {"many": ("chunk", "embed"), "mapped": ("map",)}  # stages that each of the knowledge bases is for
_DIFFERENT = 200  # texts of the pages that are only mapped
_SYLLABLES = ("ka", "lo", "mi", "ne", "pu", "ra", "si", "to", "ve", "zu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=600)
    parser.add_argument("--paragraphs", type=int, default=12, help="of a page, each a chunk")
    parser.add_argument("--mapped", type=int, default=6000, help="pages of the knowledge base for mapping")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="almanac-distributed-") as folder:
        bases = {name: Path(folder, name) for name in _SHOWN}
        _make(few := Path(folder, "few"), 30, 12)  # as many as every worker gets some of
        _make(bases["many"], arguments.pages, arguments.paragraphs)
        _make(bases["mapped"], arguments.mapped, arguments.paragraphs, different=_DIFFERENT)
        rows = {name: {"plain": _timed(base, "plain", "local")} for name, base in bases.items()}
        for workers in arguments.workers:
            with _cluster(workers) as address:
                _timed(few, f"warm{workers}", "dask", address)
                for name, base in bases.items():
                    rows[name][f"Dask, {workers} worker{'s' if workers > 1 else ''}"] = _timed(
                        base, f"dask{workers}", "dask", address
                    )
    for name, stages in _SHOWN.items():
        _show(rows[name], stages)


def _make(folder: Path, pages: int, paragraphs: int, *, different: int | None = None) -> None:
    """Makes a knowledge base whose texts all differ, or of so many different texts."""
    chosen = random.Random(20)
    words = ["".join(chosen.choices(_SYLLABLES, k=chosen.randint(1, 4))) for _ in range(5000)]

    def text() -> str:
        return " ".join(chosen.choices(words, k=80)).capitalize()

    texts = [text() for _ in range(different or 0)]
    (folder / "pages").mkdir(parents=True)
    for engine in ("local", "dask"):
        (folder / f"{engine}.yaml").write_text(_DECLARATION.replace("ENGINE", engine))
    for number in range(pages):
        body = "".join(f"<p>{chosen.choice(texts) if texts else text()}.</p>" for _ in range(paragraphs))
        page = (
            f"<html><head><title>Page {number}</title></head><body><main><h1>Page {number}</h1>{body}</main>"
            "</body></html>"
        )
        (folder / "pages" / f"{number:06}.html").write_text(page)


@contextmanager
def _cluster(workers: int) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    address, quiet = (
        f"tcp://127.0.0.1:{port}",
        {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": {**os.environ, **_ONE_THREAD}},
    )
    ready = ["--host", "127.0.0.1", "--no-dashboard"]
    scheduler = ["distributed.cli.dask_scheduler", "--port", str(port), *ready]
    worker = ["distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny", *ready]
    started = [
        subprocess.Popen([sys.executable, "-m", *command], **quiet)  # type: ignore[call-overload]
        for command in (scheduler, *[worker] * workers)
    ]
    try:
        yield address
    finally:
        for process in started:
            process.kill()
            process.wait()


def _timed(folder: Path, data: str, engine: str, address: str = "") -> dict[str, Any]:
    """The report of a whole command, and the digest of what it published."""
    command = [
        sys.executable,
        "-m",
        "almanac.cli.main",
        "run",
        str(folder / f"{engine}.yaml"),
        "--json",
        "--data",
        str(folder / data),
    ]
    done = subprocess.run(
        command, env={**os.environ, **_ONE_THREAD, "ALMANAC_DASK": address}, capture_output=True, text=True, check=True
    )
    [manifest] = (folder / data).glob("index/made/versions/v0001/manifest.json")
    report: dict[str, Any] = json.loads(done.stdout)
    return {**report["seconds"], "digest": json.loads(manifest.read_bytes())["digest"]}


def _show(rows: dict[str, dict[str, Any]], stages: tuple[str, ...]) -> None:
    first, *_ = rows.values()
    columns = [*(f"{_STAGES[stage]}, s" for stage in stages), *(f"plain ÷ {_STAGES[stage]}" for stage in stages)]
    sys.stdout.write(f"| engine | {' | '.join(columns)} | digest |\n|{'---|' * (len(columns) + 2)}\n")
    for name, row in rows.items():
        seconds, shares = (
            (f"{row[stage]:.1f}" for stage in stages),
            (f"{first[stage] / row[stage]:.2f}" for stage in stages),
        )
        sys.stdout.write(f"| {name} | {' | '.join([*seconds, *shares])} | {row['digest'][:12]} |\n")
    sys.stdout.write("\n")
    if len({row["digest"] for row in rows.values()}) != 1:
        sys.exit("the digests differ")


if __name__ == "__main__":
    main()
