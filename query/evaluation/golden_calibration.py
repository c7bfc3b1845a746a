"""Calibration of an embedder that was not measured, fitted on the golden questions of a knowledge base."""

from collections.abc import Callable, Sequence

from almanac.core.logs import get_logger
from almanac.index.embedding.calibrations import calibration_of
from almanac.index.embedding.embedder import Vectors
from almanac.index.reader import OpenVersion
from almanac.query.evaluation.fitting import fit_curve
from almanac.query.evaluation.golden import Golden, without_history
from almanac.query.models.rerank import load_reranker
from almanac.query.retrieval.arguments import compose_query
from almanac.query.retrieval.relevance import Features
from almanac.query.retrieval.request import Request
from almanac.query.retrieval.retriever import Retriever
from almanac.schemas.declaration import Declaration
from almanac.schemas.manifest import Calibration, EmbedderInfo

ENOUGH = 50  # questions; with fewer, relevance is unknown
_LEAST_HITS = 5  # for each question
_LEAST_ANSWERS = 10  # hits that answer, and hits that do not

log = get_logger("almanac.calibration")


def is_to_be_fitted(embedder: EmbedderInfo, golden: Sequence[Golden]) -> bool:
    """Whether relevance is fitted on these questions: the embedder was not measured, and there are at least 50 of them
    without a history.
    """
    return len(without_history(golden)) >= ENOUGH and calibration_of(embedder) is None


def fit_calibration(
    declaration: Declaration,
    opened: OpenVersion,
    embed_queries: Callable[[Sequence[str]], Vectors],
    golden: Sequence[Golden],
) -> Calibration | None:
    """Fits one curve, for all languages of the version, on the first hits of each golden question: `retrieve.k`, and at
    least 5.

    A hit answers if it is what the question expects; all other hits are negatives, and all hits of unanswerable
    questions. None where fewer than 10 hits answer, or fewer than 10 do not.

    Args:
        declaration: The declaration, whose `retrieve` section applies.
        opened: The version.
        embed_queries: Gives the unit vectors of texts, float32 (n, dimension).
        golden: The questions. Those with a history are left out.
    """
    declared, golden = declaration.retrieve, without_history(golden)
    retriever = Retriever(declaration, opened, embed_queries, load_reranker(declaration))
    texts = [compose_query(declared.query, one.question) for one in golden]
    found: list[Features] = []
    answers: list[bool] = []
    for one, text, vector in zip(golden, texts, embed_queries(texts), strict=True):
        request = Request(text, vector, max(declared.k, _LEAST_HITS), declared.mode)
        retrieved = retriever.find(request)
        found += [of for of, _ in retriever.judge.features(request, retrieved.hits, retrieved.rivals)]
        answers += map(one.is_answered_by, retrieved.hits)
    if not _LEAST_ANSWERS <= sum(answers) <= len(answers) - _LEAST_ANSWERS:
        log.warning(
            "relevance stays unknown: too few hits of the golden questions answer, or too few do not",
            kb=declaration.name, questions=len(golden), hits=len(answers), answering=sum(answers),
        )  # fmt: skip
        return None
    curve = fit_curve(found, answers)
    return Calibration(known=curve, unknown=curve, foreign=curve, questions=len(golden))
