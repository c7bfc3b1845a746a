"""Hits beside those of a search: what holds the kind of thing that is asked for, where no hit does.

The price of a sheet stands at its head, beside its name; its reviews name it more often, and come first in a search for
"How much is it?".
"""

from collections.abc import Sequence
from dataclasses import replace

from almanac.query.answering.asked import MEASURABLE, asked_parts, holds_any
from almanac.query.retrieval.request import Request
from almanac.query.retrieval.retriever import Retriever
from almanac.schemas.results import Hit

_NEXT = 20  # best hits of the version that are looked at
_NEAR = 30  # chunks of the best hit's document before it, and behind it
_AS_MANY = 0.8  # share of the best hits' term coverage that a further one has to have: it is about the same thing
_MOST = 2


def further_hits(retriever: Retriever, request: Request, hits: Sequence[Hit], question: str) -> list[Hit]:
    """Up to two hits more that hold what is asked for, best first, judged beside `hits`: the next ones, or chunks of
    the best one's document.

    None where one of the hits holds it, and where it cannot be told what does.

    Args:
        retriever: Retriever of the version that the hits are of.
        request: The request for the question, with its vector. Its `floor` and `thresholds` hold for further hits, too.
        hits: The closest hits, best first.
        question: The question to pick sentences for.
    """
    kinds = frozenset().union(*(part.kinds for part in asked_parts(question)))
    if (
        not hits
        or not kinds
        or not kinds <= MEASURABLE
        or any(holds_any(hit.readable, kinds, question) for hit in hits)
    ):
        return []
    best, known = hits[0], {hit.chunk_id for hit in hits}
    near = range(best.ordinal - _NEAR, best.ordinal + _NEAR + 1)
    beside = [chunk_id for _, chunk_id in retriever.opened.chunks_of(best.source, best.document_id, near)]
    wider = replace(request, k=_NEXT, closest=0, ranking=True)
    found = [hit for among in (None, beside) for hit in retriever.find(wider, among).hits]
    holding = {
        hit.chunk_id: hit for hit in found if hit.chunk_id not in known and holds_any(hit.readable, kinds, question)
    }
    covered = retriever.judge.evidence(request.text, dict.fromkeys([*known, *holding]))
    least = _AS_MANY * max(covered[chunk_id].term_coverage for chunk_id in known)
    chosen = [hit for hit in holding.values() if covered[hit.chunk_id].term_coverage >= least][:_MOST]
    return retriever.judge.judged(request, chosen, [hit.chunk_id for hit in hits])
