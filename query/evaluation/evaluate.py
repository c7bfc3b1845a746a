"""Retrieval quality on a judged question set: metrics of trec_eval over documents ranked by their best chunk."""

import csv
import json
from collections.abc import Container, Iterable, Mapping
from pathlib import Path

import pytrec_eval

from almanac.query.published import PublishedIndex, best_documents
from almanac.query.retrieval.arguments import compose_query
from almanac.query.retrieval.request import Request, SearchMode
from almanac.schemas.errors import UsageError
from almanac.schemas.reports import EvalResult

# Chunks retrieved for a question: enough for ten documents even where each has several chunks among the best.
_DEPTH = 300
_DOCUMENTS = 100


def evaluate(
    index: PublishedIndex, queries: Path, qrels: Path, *, mode: SearchMode | None = None, run_file: Path | None = None
) -> EvalResult:
    """Evaluates the version that the index reads on every question with a relevant document.

    Args:
        index: The open index.
        queries: JSONL file of {id, text}.
        qrels: Tab-separated file of query-id, doc-id and relevance score, a whole number, with a header line.
        mode: Retrieval mode. Default: `retrieve.mode`.
        run_file: File to write the ranking to, in TREC format; its folder is made. Default: none.

    Returns:
        The metrics ndcg@10, recall@5, recall@10 and mrr@10, means over the judged questions. Judged questions that
        `queries` lacks score 0.

    Raises:
        UsageError: A file cannot be read or parsed, or no judged question is among the queries.
        OSError: The run file cannot be written.
        AlmanacError: The errors of `PublishedIndex.search` about versions, models and services.
    """
    if run_file is not None:
        # where it cannot be made, that is told before thousands of questions are asked
        run_file.parent.mkdir(parents=True, exist_ok=True)
    judged = {query: docs for query, docs in read_qrels(qrels).items() if any(score > 0 for score in docs.values())}
    version = index.version().manifest.version  # of one version, also where another is published meanwhile
    run = rank_documents(index, queries, judged, mode, version=version)
    if not run:
        raise UsageError(
            "no question of the queries file is judged in the qrels file",
            where=str(qrels),
            hint="the ids of both files must be the same ones",
        )
    if run_file is not None:
        write_run(run_file, run, version)
    return EvalResult(kb=index.declaration.name, version=version, queries=len(judged), metrics=measure(judged, run))


def rank_documents(
    index: PublishedIndex,
    queries: Path,
    wanted: Container[str],
    mode: SearchMode | None = None,
    *,
    version: str | None = None,
) -> dict[str, dict[str, float]]:
    """Ranks documents for the questions whose ids are `wanted`, in `version`, else in the live one.

    Returns:
        By question id: the scores of the best 100 documents at most, best first, by document id. A document has the
            score of its best chunk.
    """
    declared = index.declaration.retrieve
    texts = {
        query: compose_query(declared.query, text) for query, text in read_queries(queries).items() if query in wanted
    }
    if not texts:
        return {}
    asked = mode or declared.mode
    vectors = (
        None if asked == "lexical" and declared.tags is None else index.embedder.embed_queries(list(texts.values()))
    )
    run = {}
    with index.reading(version) as retriever:
        depth = min(_DEPTH, retriever.opened.manifest.counts.chunks)
        for number, (query, text) in enumerate(texts.items()):
            vector = None if vectors is None else vectors[number]
            best = best_documents(retriever.find(Request(text, vector, depth, asked, ranking=True)).hits)
            run[query] = dict(sorted(best.items(), key=lambda pair: (-pair[1], pair[0]))[:_DOCUMENTS])
    return run


def measure(judged: Mapping[str, Mapping[str, int]], run: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Computes ndcg@10, recall@5, recall@10 and mrr@10: means over all judged questions, rounded to 5 decimals. A
    question that the run lacks scores 0.
    """
    first_ten = {q: dict(sorted(docs.items(), key=lambda pair: (-pair[1], pair[0]))[:10]) for q, docs in run.items()}
    deep = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.10", "recall.5,10"}).evaluate(run)
    shallow = pytrec_eval.RelevanceEvaluator(judged, {"recip_rank"}).evaluate(first_ten)
    names = {"ndcg@10": "ndcg_cut_10", "recall@5": "recall_5", "recall@10": "recall_10"}
    total = len(judged)
    metrics = {name: sum(row[measure] for row in deep.values()) / total for name, measure in names.items()}
    return {
        name: round(value, 5)
        for name, value in {**metrics, "mrr@10": sum(r["recip_rank"] for r in shallow.values()) / total}.items()
    }


def read_queries(path: Path) -> dict[str, str]:
    """Reads a JSONL file of questions: texts by id, in file order. Raises UsageError with file and line."""
    found = {}
    for number, line in enumerate(_lines(path), start=1):
        try:
            row = json.loads(line)
            found[str(row["id"])] = str(row["text"])
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"not a JSON object with id and text: {line[:80]!r}", where=f"{path}:{number}") from error
    return found


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Reads a qrels file: relevance by question id and document id. Raises UsageError with file and line."""
    found: dict[str, dict[str, int]] = {}
    for number, row in enumerate(csv.reader(_lines(path), delimiter="\t", quoting=csv.QUOTE_NONE), start=1):
        if number == 1:
            if len(row) == 3 and row[2].isdecimal():
                raise UsageError(
                    f"the first line is a judgement, not a header: {row}",
                    where=f"{path}:1",
                    hint="put query-id, corpus-id and score above it",
                )
            continue
        try:
            query, document, score = row
            found.setdefault(query, {})[document] = int(score)
        except ValueError as error:
            raise UsageError(
                f"not query-id, doc-id and a whole score between tabs: {row}", where=f"{path}:{number}"
            ) from error
    return found


def write_run(path: Path, run: Mapping[str, Mapping[str, float]], tag: str) -> None:
    """Writes a ranking in TREC format: query-id Q0 doc-id rank score tag. White space in ids, which the format does not
    allow, becomes %20.
    """
    lines = (
        f"{_word(q)} Q0 {_word(d)} {rank} {score:.6f} {tag}\n"
        for q, docs in run.items()
        for rank, (d, score) in enumerate(docs.items(), start=1)
    )
    path.write_text("".join(lines), encoding="utf-8")


def _word(identifier: str) -> str:
    return "%20".join(identifier.split())


def _lines(path: Path) -> Iterable[str]:
    try:
        return [line for line in path.read_text(encoding="utf-8-sig").split("\n") if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        finding = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise UsageError(
            f"cannot be read: {finding}", where=str(path), hint="check the path; it is relative to the current folder"
        ) from error
