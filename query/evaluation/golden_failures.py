"""The declared golden questions, asked of a published version: how many are met, and what is found in place of the
answers of the others.
"""

from typing import TYPE_CHECKING

from almanac.query.evaluation.golden import Asked, ask_golden, load_golden, recall_of
from almanac.query.retrieval.arguments import compose_query
from almanac.query.retrieval.request import Request, SearchMode
from almanac.schemas.errors import UsageError
from almanac.schemas.reports import EvalResult, FailedQuestion, FoundInstead

if TYPE_CHECKING:
    from almanac.query.published import PublishedIndex
    from almanac.query.retrieval.retriever import Retriever

_DEEPEST = 100  # hits among which an answer is looked for that is not among the first k
_FOUND = 3  # hits that a failed question shows


def evaluate_golden(
    index: "PublishedIndex", *, mode: SearchMode | None = None, version: str | None = None
) -> EvalResult:
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
        asked = ask_golden(declaration, retriever, index.embedder.embed_queries, golden, mode)
        failed = [_failed(index, retriever, one, mode) for one in asked if not one.is_met]
        name = retriever.opened.manifest.version
    metrics = _metrics(asked, declaration.retrieve.k)
    return EvalResult(
        kb=declaration.name,
        version=name,
        unit="question",
        queries=len(asked),
        metrics=metrics,
        failed=failed,
        continued=len(golden) - len(asked),
    )


def _metrics(asked: list[Asked], k: int) -> dict[str, float]:
    """Recall and mean reciprocal rank over the answerable questions, and the share of the others of which nothing is
    good enough to answer from.
    """
    counted = recall_of(asked)
    found: dict[str, float] = {}
    if counted.recall is not None:
        ranks = [
            next((rank for rank, hit in enumerate(one.hits, 1) if one.golden.is_answered_by(hit)), None)
            for one in asked
            if one.golden.is_answerable
        ]
        found = {
            f"recall@{k}": counted.recall,
            f"mrr@{k}": round(sum(1 / rank for rank in ranks if rank) / len(ranks), 6),
        }
    if counted.unanswerable:
        found["abstained"] = round(counted.abstained / counted.unanswerable, 6)
    return found


def _failed(index: "PublishedIndex", retriever: "Retriever", one: Asked, mode: SearchMode | None) -> FailedQuestion:
    golden, declared = one.golden, index.declaration.retrieve
    expected = {
        "document_id": sorted(golden.document_ids),
        "url": sorted(golden.urls),
        "text": [list(part) for part in golden.parts],
    }
    found = [
        FoundInstead(
            rank=rank,
            **hit.model_dump(include={"document_id", "url", "title", "text", "passage", "score", "relevance"}),
        )
        for rank, hit in enumerate(one.hits[:_FOUND], 1)
    ]
    rank = None
    if golden.is_answerable:
        text = compose_query(declared.query, golden.question)
        (vector,) = index.embedder.embed_queries([text])
        deep = retriever.find(Request(text, vector, _DEEPEST, mode or declared.mode, ranking=True)).hits
        rank = next((number for number, hit in enumerate(deep, 1) if golden.is_answered_by(hit)), None)
    return FailedQuestion(
        question=golden.question,
        expected={key: value for key, value in expected.items() if value},
        rank=rank,
        found=found,
    )
