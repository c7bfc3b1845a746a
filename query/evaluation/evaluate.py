"""Retrieval quality of a published version: metrics of trec_eval on a judged question set, over documents ranked by
their best chunk; and the declared golden questions, with what is found in place of answers.
"""

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytrec_eval

from almanac.query.evaluation.golden import Golden, GoldenOutcome, ask_golden, load_golden, recall_of, requests_for
from almanac.query.published import PublishedIndex
from almanac.query.retrieval.arguments import compose_query
from almanac.query.retrieval.request import Request, SearchMode
from almanac.query.retrieval.retriever import Retriever
from almanac.schemas.errors import UsageError
from almanac.schemas.reports import EvalResult, FailedQuestion, FoundInstead
from almanac.schemas.results import Hit

# Chunks retrieved for a question: enough for ten documents even where each has several chunks among the best.
_DEPTH = 300
_DOCUMENTS = 100
_DEEPEST = 100  # hits among which an answer is looked for that is not among the first k
_SHOWN_HITS = 3  # hits that a failed question shows


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


def evaluate_golden(index: PublishedIndex, *, mode: SearchMode | None = None, version: str | None = None) -> EvalResult:
    """Asks `version`, else the live one, the golden questions that the declaration names.

    Raises UsageError where it names none, and what `load_golden` raises.
    """
    declaration = index.declaration
    golden = load_golden(declaration)
    if not golden:
        hint = (
            'declare gate: {golden: FILE.jsonl}, a line {"question": "…", "document_id": "…"}; or name --queries '
            "and --qrels"
        )
        raise UsageError("no golden questions are declared", where=str(declaration.path), hint=hint)
    with index.reading(version) as retriever:
        outcomes = ask_golden(declaration, retriever, index.embedder.embed_queries, golden, mode)
        failed = [_failed(index, retriever, outcome, mode) for outcome in outcomes if not outcome.is_met]
        name = retriever.opened.manifest.version
    metrics = _metrics(outcomes, declaration.retrieve.k)
    return EvalResult(
        kb=declaration.name,
        version=name,
        unit="question",
        queries=len(outcomes),
        metrics=metrics,
        failed=failed,
        continued=len(golden) - len(outcomes),
    )


def _metrics(outcomes: Sequence[GoldenOutcome], k: int) -> dict[str, float]:
    """Recall and mean reciprocal rank over the answerable questions, and the share of the others of which nothing is
    good enough to answer from.
    """
    counted, metrics = recall_of(outcomes), dict[str, float]()
    if counted.recall is not None:
        ranks = [_rank(outcome.golden, outcome.hits) for outcome in outcomes if outcome.golden.is_answerable]
        mean = round(sum(1 / rank for rank in ranks if rank) / len(ranks), 6)
        metrics = {f"recall@{k}": counted.recall, f"mrr@{k}": mean}
    if counted.unanswerable:
        metrics["abstained"] = round(counted.abstained / counted.unanswerable, 6)
    return metrics


def _rank(golden: Golden, hits: Sequence[Hit]) -> int | None:
    return next((rank for rank, hit in enumerate(hits, 1) if golden.is_answered_by(hit)), None)


def _failed(
    index: PublishedIndex, retriever: Retriever, outcome: GoldenOutcome, mode: SearchMode | None
) -> FailedQuestion:
    golden, deep = outcome.golden, list[Hit]()
    if golden.is_answerable:
        embed = index.embedder.embed_queries
        (request,) = requests_for(index.declaration, embed, [golden], k=_DEEPEST, mode=mode)
        deep = retriever.find(replace(request, ranking=True)).hits
    expected = {
        "document_id": sorted(golden.document_ids),
        "url": sorted(golden.urls),
        "text": [list(part) for part in golden.parts],
    }
    return FailedQuestion(
        question=golden.question,
        expected={key: value for key, value in expected.items() if value},
        rank=_rank(golden, deep),
        found=[
            FoundInstead(rank=rank, **hit.model_dump(include=set(FoundInstead.model_fields) - {"rank"}))
            for rank, hit in enumerate(outcome.hits[:_SHOWN_HITS], 1)
        ],
    )


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
    mode = mode or declared.mode
    vectors = (
        None if mode == "lexical" and declared.tags is None else index.embedder.embed_queries(list(texts.values()))
    )
    run = {}
    with index.reading(version) as retriever:
        depth = min(_DEPTH, retriever.opened.manifest.counts.chunks)
        for number, (query, text) in enumerate(texts.items()):
            vector = None if vectors is None else vectors[number]
            best = dict[str, float]()
            for hit in retriever.find(Request(text, vector, depth, mode, ranking=True)).hits:
                best[hit.document_id] = max(hit.score, best.get(hit.document_id, hit.score))
            run[query] = dict(sorted(best.items(), key=lambda pair: (-pair[1], pair[0]))[:_DOCUMENTS])
    return run


def measure(judged: Mapping[str, Mapping[str, int]], run: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Computes ndcg@10, recall@5, recall@10 and mrr@10: means over all judged questions, rounded to 5 decimals. A
    question that the run lacks scores 0.
    """
    first_ten = {q: dict(sorted(docs.items(), key=lambda pair: (-pair[1], pair[0]))[:10]) for q, docs in run.items()}
    measures = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.10", "recall.5,10", "recip_rank"}).evaluate(first_ten)
    names = {"ndcg@10": "ndcg_cut_10", "recall@5": "recall_5", "recall@10": "recall_10", "mrr@10": "recip_rank"}
    return {name: round(sum(row[own] for row in measures.values()) / len(judged), 5) for name, own in names.items()}


def read_queries(path: Path) -> dict[str, str]:
    """Reads a JSONL file of questions: texts by id, in file order. Raises UsageError with file and line."""
    texts = {}
    for number, line in enumerate(_lines(path), start=1):
        try:
            row = json.loads(line)
            texts[str(row["id"])] = str(row["text"])
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"not a JSON object with id and text: {line[:80]!r}", where=f"{path}:{number}") from error
    return texts


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Reads a qrels file: relevance by question id and document id. Raises UsageError with file and line."""
    relevance: dict[str, dict[str, int]] = {}
    for number, line in enumerate(_lines(path), start=1):
        try:
            query, document, score = line.split("\t")
            if number > 1:
                relevance.setdefault(query, {})[document] = int(score)
            elif score.isdecimal():
                raise ValueError
        except ValueError as error:
            finding = "not query-id, doc-id and a whole score between tabs, below a header line"
            raise UsageError(f"{finding}: {line[:80]!r}", where=f"{path}:{number}") from error
    return relevance


def write_run(path: Path, run: Mapping[str, Mapping[str, float]], tag: str) -> None:
    """Writes a ranking in TREC format: query-id Q0 doc-id rank score tag. White space in ids, which the format does not
    allow, becomes %20.
    """
    lines = (
        f"{'%20'.join(q.split())} Q0 {'%20'.join(d.split())} {rank} {score:.6f} {tag}\n"
        for q, docs in run.items()
        for rank, (d, score) in enumerate(docs.items(), start=1)
    )
    path.write_text("".join(lines), encoding="utf-8")


def _lines(path: Path) -> Iterable[str]:
    try:
        return [line for line in path.read_text(encoding="utf-8-sig").split("\n") if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        finding = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise UsageError(
            f"cannot be read: {finding}", where=str(path), hint="check the path; it is relative to the current folder"
        ) from error
