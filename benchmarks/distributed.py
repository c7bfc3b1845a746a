"""Seconds of mapping, cutting and embedding: the plain run, one Dask worker of one thread, and two.

    python -m benchmarks.distributed [--pages 600] [--paragraphs 12] [--workers 1 2]

Needs as many idle cores as workers, and one for the run and the scheduler: on a busy machine the ratio says nothing. For each number of workers a scheduler
and workers are started on loopback, and a small knowledge base is run on them first, so that imports and loading of the model are not timed. Then pages made
by a seed are run, from an empty data directory, with the bundled model in one thread. What is printed is the run's own seconds for `map`, `chunk` and
`embed`, and the digest, which has to be the same for all. Published are ratios.
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
_SYLLABLES = ("ka", "lo", "mi", "ne", "pu", "ra", "si", "to", "ve", "zu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=600)
    parser.add_argument("--paragraphs", type=int, default=12, help="of a page, each a chunk")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="almanac-distributed-") as folder:
        few, many = Path(folder, "few"), Path(folder, "many")
        _make(few, 8, 2)
        _make(many, arguments.pages, arguments.paragraphs)
        rows = {"plain": _timed(many, "plain", "local")}
        for workers in arguments.workers:
            with _cluster(workers) as address:
                _timed(few, f"warm{workers}", "dask", address)
                rows[f"Dask, {workers} worker{'s' if workers > 1 else ''}"] = _timed(many, f"dask{workers}", "dask", address)
    _show(rows)


def _make(folder: Path, pages: int, paragraphs: int) -> None:
    chosen = random.Random(20)
    words = ["".join(chosen.choices(_SYLLABLES, k=chosen.randint(1, 4))) for _ in range(5000)]
    (folder / "pages").mkdir(parents=True)
    for engine in ("local", "dask"):
        (folder / f"{engine}.yaml").write_text(_DECLARATION.replace("ENGINE", engine))
    for number in range(pages):
        texts = (" ".join(chosen.choices(words, k=80)) for _ in range(paragraphs))
        body = "".join(f"<p>{text.capitalize()}.</p>" for text in texts)
        page = f"<html><head><title>Page {number}</title></head><body><main><h1>Page {number}</h1>{body}</main></body></html>"
        (folder / "pages" / f"{number:06}.html").write_text(page)


@contextmanager
def _cluster(workers: int) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    address, quiet = f"tcp://127.0.0.1:{port}", {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": {**os.environ, **_ONE_THREAD}}
    scheduler = ["distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    worker = ["distributed.cli.dask_worker", address, "--host", "127.0.0.1", "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    started = [subprocess.Popen([sys.executable, "-m", *command], **quiet) for command in (scheduler, *[worker] * workers)]  # type: ignore[call-overload]
    try:
        yield address
    finally:
        for process in started:
            process.kill()
            process.wait()


def _timed(folder: Path, data: str, engine: str, address: str = "") -> dict[str, Any]:
    """The report of a whole command, and the digest of what it published."""
    command = [sys.executable, "-m", "almanac.cli.main", "run", str(folder / f"{engine}.yaml"), "--json", "--data", str(folder / data)]
    done = subprocess.run(command, env={**os.environ, **_ONE_THREAD, "ALMANAC_DASK": address}, capture_output=True, text=True, check=True)
    [manifest] = (folder / data).glob("index/made/versions/v0001/manifest.json")
    report: dict[str, Any] = json.loads(done.stdout)
    return {**report["seconds"], "digest": json.loads(manifest.read_bytes())["digest"]}


def _show(rows: dict[str, dict[str, Any]]) -> None:
    first, *_ = rows.values()
    columns = [*(f"{name}, s" for name in _STAGES.values()), *(f"plain ÷ {name}" for name in _STAGES.values())]
    sys.stdout.write(f"| engine | {' | '.join(columns)} | digest |\n|{'---|' * (len(columns) + 2)}\n")
    for name, row in rows.items():
        seconds, shares = (f"{row[stage]:.1f}" for stage in _STAGES), (f"{first[stage] / row[stage]:.2f}" for stage in _STAGES)
        sys.stdout.write(f"| {name} | {' | '.join([*seconds, *shares])} | {row['digest'][:12]} |\n")
    if len({row["digest"] for row in rows.values()}) != 1:
        sys.exit("the digests differ")


if __name__ == "__main__":
    main()
