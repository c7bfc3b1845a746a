"""What bfloat16 changes in retrieval: nDCG@10 of dense search with texts embedded in either precision, and the same
questions in float32.

    python -m benchmarks.precision_cost --sets DIR [DIR ...]

A set is a folder with corpus.jsonl {id, title, text}, queries.jsonl {id, text} and qrels.tsv. Texts are embedded whole,
up to what the embedder reads; all products are exact. The processor has to have bfloat16. What is printed is Markdown.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

from almanac.index.embedding.embedder import LocalEmbedder, Vectors
from almanac.index.embedding.model_folder import BUNDLED
from almanac.index.embedding.precision import require_precision
from almanac.query.evaluation.evaluate import measure, read_qrels, read_queries
from almanac.schemas.declaration.embed_section import Embed
from benchmarks.index import machine

_PRECISIONS = ("float32", "bfloat16")
_DEEP = 100  # documents of each question that are ranked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=Path, nargs="+", required=True)
    arguments = parser.parse_args()
    require_precision(Embed(precision="bfloat16"))
    lines = [
        "| set | documents, questions | embedder | float32 | bfloat16 | change | least cosine | processor time |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for model in BUNDLED:
        embedders = {
            precision: LocalEmbedder(Embed.model_validate({"model": model, "precision": precision}))
            for precision in _PRECISIONS
        }
        lines += [_row(folder, model, embedders) for folder in arguments.sets]
    sys.stdout.write("\n".join([*lines, "", f"{machine()}."]) + "\n")


def _row(folder: Path, model: str, embedders: dict[str, LocalEmbedder]) -> str:
    corpus = [json.loads(line) for line in (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]
    texts = [" ".join(filter(None, (row.get("title"), row["text"]))) for row in corpus]
    questions, judged = read_queries(folder / "queries.jsonl"), read_qrels(folder / "qrels.tsv")
    judged_questions = [question for question in questions if question in judged]
    vectors = embedders["float32"].embed_queries([questions[question] for question in judged_questions])
    measured: dict[str, tuple[Vectors, float, float]] = {}
    for precision, embedder in embedders.items():
        begin = time.process_time()
        documents = embedder.embed_documents(texts)
        seconds = time.process_time() - begin
        measured[precision] = (
            documents,
            seconds,
            _ndcg(judged_questions, [str(row["id"]) for row in corpus], vectors @ documents.T, judged),
        )
    (single, single_s, before), (half, half_s, after) = measured.values()
    cosine, name = float((single * half).sum(axis=1).min()), "/".join(folder.resolve().parts[-2:])
    counts = f"{len(texts):,}, {len(judged_questions):,}"
    return (
        f"| {name} | {counts} | {model} | {before:.4f} | {after:.4f} | {after - before:+.4f} | {cosine:.5f} | "
        f"{half_s / single_s:.2f} |"
    )


def _ndcg(questions: list[str], ids: list[str], scores: Vectors, judged: dict[str, dict[str, int]]) -> float:
    best = np.argsort(-scores, axis=1, kind="stable")[:, :_DEEP]
    run = {
        question: {ids[row]: float(scores[number, row]) for row in best[number]}
        for number, question in enumerate(questions)
    }
    return measure(judged, run)["ndcg@10"]


if __name__ == "__main__":
    main()
