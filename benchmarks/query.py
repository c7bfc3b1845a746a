"""What a hybrid query costs beside its bare parts: embedding it, and asking Chroma for the nearest.

    python -m benchmarks.query [--chunks 100000] [--queries 600] [--folder DIR]

Chunks and vectors are made up as for `benchmarks.index`; questions are words of theirs, embedded by the real model. All
of it happens in one process that is warm: `SentenceTransformer.encode` in single precision and `collection.query` for
ten rows, then the whole road of a search for ten hits, the question embedded as searches embed it. They take turns,
twenty questions each, since machines grow slower and quicker meanwhile. Published are ratios; seconds are this
machine's.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer

from almanac.core.logs import log_through_stdlib
from almanac.index.chroma.chroma_client import open_client, open_collection
from almanac.index.embedding.embedder import load_embedder
from almanac.index.embedding.model_folder import find_model
from almanac.index.reader import OpenVersion
from almanac.index.versions.version_store import version_dir
from almanac.query.retrieval.request import Request
from almanac.query.retrieval.retriever import Retriever
from almanac.schemas.declaration import Declaration
from benchmarks.index import MAKE, command, machine, make_version

_K = 10
_TURN = 20  # questions
_FILTERS: dict[str, dict[str, Any] | None] = {
    "no filter": None,
    "a filter that 6 % pass": {"section": "s3"},
    "a filter that half pass": {"number": {"$gte": 50_000}},
}


def main() -> None:
    log_through_stdlib()  # else what runs log would stand between the tables
    arguments = _arguments()
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="benchmark-query-") as name:
        folder = Path(name)
        subprocess.run(command(MAKE, folder, arguments.chunks), check=True)
        make_version(folder, "before", "v0001", None)
        _measure(folder, arguments.chunks, arguments.queries)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=600)
    parser.add_argument("--folder", type=Path, help="where files are made and removed again; 100,000 chunks take 3 GB")
    return parser.parse_args()


def _measure(folder: Path, chunks: int, queries: int) -> None:
    declaration = Declaration.model_validate(
        {"name": "benchmark", "sources": [{"name": "s", "kind": "files", "glob": "*"}], "retrieve": {"k": _K}}
    )
    embedder = load_embedder(declaration.embed, for_queries=True)
    model = SentenceTransformer(str(find_model(declaration.embed).path), device="cpu", local_files_only=True)
    index_dir = folder / "index" / "benchmark"
    with OpenVersion(index_dir, "v0001") as opened, open_client(version_dir(index_dir, "v0001")) as client:
        collection = open_collection(client, opened.manifest.collection)
        questions = _questions(opened, queries)
        retriever = Retriever(declaration, opened, embedder.embed_queries)

        def bare(question: str) -> None:
            collection.query(
                query_embeddings=model.encode([question], normalize_embeddings=True),
                n_results=_K,
                include=["distances"],
            )

        def search(where: dict[str, Any] | None) -> Callable[[str], None]:
            def ask(question: str) -> None:
                retriever.find(Request(question, embedder.embed_queries([question])[0], _K, "hybrid", where))

            return ask

        works = {"bare `encode` and Chroma query": bare} | {
            f"hybrid, {name}": search(where) for name, where in _FILTERS.items()
        }
        _show(_times(works, questions), chunks, queries)


def _questions(opened: OpenVersion, count: int) -> list[str]:
    ids = opened.chunk_ids
    rows = opened.rows([ids[i] for i in np.linspace(0, len(ids) - 1, num=count, dtype=int)])
    return [" ".join(row["text"].split()[20:28]) for row in rows]


def _times(works: Mapping[str, Callable[[str], None]], questions: Sequence[str]) -> dict[str, list[float]]:
    """Milliseconds of each question by each work, after a turn that nobody counts."""
    times: dict[str, list[float]] = {name: [] for name in works}
    turns = [questions[begin : begin + _TURN] for begin in range(0, len(questions), _TURN)]
    for number, turn in enumerate([turns[0], *turns]):
        for name, work in works.items():
            for question in turn:
                start = time.perf_counter()
                work(question)
                if number:
                    times[name].append(1000 * (time.perf_counter() - start))
    return times


def _show(measured: dict[str, list[float]], chunks: int, queries: int) -> None:
    bare = np.percentile(next(iter(measured.values())), [50, 99])
    lines = ["| query | p50 ms | p99 ms | of the bare one, p50 | p99 |", "|---|---:|---:|---:|---:|"]
    for name, times in measured.items():
        half, most = np.percentile(times, [50, 99])
        lines.append(f"| {name} | {half:.1f} | {most:.1f} | {half / bare[0]:.2f} | {most / bare[1]:.2f} |")
    lines += ["", f"{chunks:,} chunks of 1 KB, 384 dimensions, {queries} questions of eight words; {machine()}."]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
