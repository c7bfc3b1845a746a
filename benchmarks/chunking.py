"""How much of what answers a question is found, and how little else, by the way documents are cut.

    python -m benchmarks.chunking --set DIR [--by recursive:800 recursive:200:0:tokens ...] [--mode hybrid dense] [--n
    5] [--share 0.9 ...]

The set is a folder with corpus.jsonl {id, text} and spans.jsonl {id, corpus_id, references: [{start, end}]}, with the
questions in queries.jsonl {id, text}. Each configuration is run as a knowledge base (`clean: none`), and asked through
the retrieval that searches use. Over characters, means of all questions: recall is the share of the references that the
first n chunks hold; IoU that share of all that is in either; precision-omega what a perfect retriever could reach with
these chunks (Smith and Troynikov, "Evaluating Chunking Strategies for Retrieval", 2024). With --share, each search is
made with `retrieve.share` too, which leaves out those of the n chunks that score less than this share of the best one.
What is printed is Markdown.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from ruamel.yaml import YAML

from almanac.core.logs import log_through_stdlib
from almanac.query import PublishedIndex, open_index
from almanac.query.retrieval.request import Request, SearchMode
from almanac.schemas.hashing import file_sha256
from benchmarks.evaluation import retriever_for, run_below_prefect


class Span(NamedTuple):
    """Characters from `start` up to `end` of a document."""

    document: str
    start: int
    end: int


class Question(NamedTuple):
    text: str
    references: list[Span]


def main() -> None:
    log_through_stdlib()  # else what runs log would stand between the tables
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", type=Path, required=True)
    parser.add_argument(
        "--by",
        nargs="+",
        default=["recursive:800"],
        help="chunker:size, with :overlap (else 0) and :unit (else its own) after it",
    )
    parser.add_argument("--mode", nargs="+", choices=("dense", "lexical", "hybrid"), default=["hybrid", "dense"])
    parser.add_argument("--n", type=int, default=5)
    parser.add_argument("--share", type=float, nargs="*", default=[])
    parser.add_argument("--data", type=Path, help="a data directory that is kept, with its vectors")
    arguments = parser.parse_args()
    questions = list(_questions(arguments.set))
    searches = [(mode, share) for mode in arguments.mode for share in (None, *arguments.share)]
    with tempfile.TemporaryDirectory(prefix="almanac-chunking-") as folder:
        data = arguments.data or Path(folder)
        lines = [
            "| cut by | search | chunks | hits | recall | IoU | precision-omega |",
            "|---|---|---:|---:|---:|---:|---:|",
        ]
        for configuration in arguments.by:
            declaration = _declared(arguments.set, configuration, Path(folder))
            run_below_prefect(declaration, data)
            with open_index(str(declaration), data=data) as index:
                vectors = index.embedder.embed_queries([question.text for question in questions])
                requests = [
                    (question, Request(question.text, vector, arguments.n, "hybrid"))
                    for question, vector in zip(questions, vectors, strict=True)
                ]
                lines += [_row(index, configuration, mode, share, requests) for mode, share in searches]
    lines += [
        "",
        f"{len(questions)} questions, n = {arguments.n}; corpus {file_sha256(arguments.set / 'corpus.jsonl')[:8]}.",
    ]
    sys.stdout.write("\n".join(lines) + "\n")


def _questions(folder: Path) -> Iterator[Question]:
    texts = {row["id"]: row["text"] for row in _rows(folder / "queries.jsonl")}
    for row in _rows(folder / "spans.jsonl"):
        if row["id"] in texts:
            yield Question(
                texts[row["id"]],
                [Span(row["corpus_id"], reference["start"], reference["end"]) for reference in row["references"]],
            )


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _declared(folder: Path, configuration: str, scratch: Path) -> Path:
    by, size, overlap, unit, *_ = [*configuration.split(":"), "", ""]
    chunk = {"by": by, "size": int(size), "overlap": int(overlap or 0), "unit": unit or None}
    fields = {"id": {"json": "id", "required": True}, "text": {"json": "text", "required": True}}
    source = {
        "name": "corpus",
        "kind": "files",
        "glob": str(folder / "corpus.jsonl"),
        "yields": "documents",
        "id": "{id}",
        "fields": fields,
    }
    path = scratch / f"{configuration.replace(':', '-')}.yaml"
    YAML().dump(
        {
            "name": path.stem,
            "sources": [{**source, "body": "{text}", "metadata": ["id"]}],
            "clean": "none",
            "chunk": chunk,
        },
        path,
    )
    return path


def _row(
    index: PublishedIndex,
    configuration: str,
    mode: SearchMode,
    share: float | None,
    requests: Sequence[tuple[Question, Request]],
) -> str:
    opened = index.version()
    columns = (opened.column(name).to_pylist() for name in ("document_id", "start", "end"))
    chunks = [Span(document, start, end) for document, start, end in zip(*columns, strict=True)]
    retriever = retriever_for(index, index.declaration.retrieve.model_copy(update={"share": share}))
    figures = []
    for question, request in requests:
        hits = retriever.find(replace(request, mode=mode)).hits
        spans = [Span(hit.document_id, hit.start or 0, hit.end or 0) for hit in hits]
        figures.append((*_held(question.references, spans), _omega(question.references, chunks), len(spans) / 100))
    recall, iou, omega, hits_each = (f"{100 * value:.1f}" for value in np.mean(figures, axis=0))
    search = mode if share is None else f"{mode}, share {share}"
    return f"| {configuration} | {search} | {len(chunks):,} | {hits_each} | {recall} | {iou} | {omega} |"


def _held(references: Sequence[Span], retrieved: Sequence[Span]) -> tuple[float, float]:
    """Recall and IoU. Text that stands in two of the found chunks counts twice in what was found, as a reader would
    read it twice.
    """
    held = _covered([_common(reference, other) for reference in references for other in retrieved])
    wanted = sum(reference.end - reference.start for reference in references)
    read = sum(span.end - span.start for span in retrieved)
    missed = _covered(references) - held
    return held / wanted, held / (read + missed)


def _omega(references: Sequence[Span], chunks: Sequence[Span]) -> float:
    """What is wanted, of all in the chunks that touch it."""
    touching = [
        chunk
        for chunk in chunks
        if any(
            chunk.document == other.document and chunk.start <= other.end and other.start <= chunk.end
            for other in references
        )
    ]
    held = _covered([_common(reference, other) for reference in references for other in touching])
    return held / _covered([*touching, *references]) if held else 0.0


def _common(first: Span, second: Span) -> Span:
    start, end = max(first.start, second.start), min(first.end, second.end)
    return (
        Span(first.document, start, end)
        if first.document == second.document and start < end
        else Span(first.document, 0, 0)
    )


def _covered(spans: Sequence[Span]) -> int:
    """Characters in any of the spans."""
    total, document, reached = 0, "", 0
    for span in sorted(spans):
        if span.document != document:
            document, reached = span.document, 0
        total += max(0, span.end - max(span.start, reached))
        reached = max(reached, span.end)
    return total


if __name__ == "__main__":
    main()
