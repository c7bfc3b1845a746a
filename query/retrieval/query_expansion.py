"""Query expansion: the declared model writes other wordings of a query, each is searched, and a chunk gets its best
score over all wordings.

Expansion is optional at run time: where the model is unreachable, overloaded or returns nothing usable, the query alone
is searched, and the trace and the log contain the reason. Errors that the operator has to fix (key, model name,
address) are raised, since they would otherwise go unnoticed.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple

from almanac.core.logs import get_logger
from almanac.index.api.retry import Retry
from almanac.query.retrieval.request import Retrieved
from almanac.schemas.errors import CredentialRefused, OperationalError
from almanac.schemas.results import Hit

if TYPE_CHECKING:
    from almanac.query.models.generators import Generator

_NUMBERING = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
_LONGEST = 300  # characters; a longer line is an answer, not a wording
_TOKENS = 60  # maximum of tokens for each wording
# short: a user is waiting, and the query alone finds something, too
PATIENCE = Retry(attempts=2, malformed_attempts=2, cap_s=1.0, retry_after_cap_s=2.0)
_log = get_logger("almanac.expand")


class Expansion(NamedTuple):
    """Other wordings of a query; `failure` is the reason where the model failed."""

    wordings: list[str]
    failure: str | None = None

    @property
    def told(self) -> dict[str, Any]:
        """The entries for the trace."""
        return {"wordings": self.wordings, **({"failure": self.failure} if self.failure else {})}


def expand(generator: "Generator", question: str, count: int) -> Expansion:
    """Asks the model for at most `count` other wordings. If the model fails, the result has no wordings, and the
    reason.

    Raises CredentialRefused, and DeclarationError where the server redirects or has no such address or model.
    """
    try:
        return Expansion(other_wordings(generator, question, count))
    except CredentialRefused:
        raise
    except OperationalError as error:
        _log.warning(
            "the question alone is searched for: the model wrote no other wordings",
            where=error.where,
            failure=error.message,
        )
        return Expansion([], error.message)


def other_wordings(generator: "Generator", question: str, count: int) -> list[str]:
    """At most `count` distinct wordings, in the order written, none equal to the question. Raises the errors of the
    generator.
    """
    prompt = Template((Path(__file__).parent / "prompts" / "expand.txt").read_text(encoding="utf-8"))
    written = generator.generate(
        [{"role": "user", "content": prompt.substitute(count=count, question=question)}],
        temperature=0.0,
        max_tokens=_TOKENS * count,
    )
    lines = [_NUMBERING.sub("", line).strip().strip("\"'«»“”").strip() for line in written.splitlines()]
    distinct = {
        line.casefold(): line
        for line in reversed(lines)
        if line and len(line) <= _LONGEST and line.casefold() != question.casefold().strip()
    }
    return list(reversed(distinct.values()))[:count]


def merge(founds: Sequence[Retrieved], k: int) -> Retrieved:
    """Merges results: the k best distinct hits, each with its best score, equal scores by chunk id, ranks counted anew;
    the closest ones likewise, as many as one result has; traces are concatenated.

    Hits keep the relevance to the wording that found them; rivals are those of the first result.
    """
    return Retrieved(
        _best_of([hit for found in founds for hit in found.hits], k),
        [step for found in founds for step in found.trace],
        founds[0].rivals,
        _best_of([hit for found in founds for hit in found.closest], max(len(found.closest) for found in founds)),
    )


def _best_of(hits: Sequence[Hit], k: int) -> list[Hit]:
    best: dict[str, Hit] = {}
    for hit in hits:
        if hit.chunk_id not in best or hit.score > best[hit.chunk_id].score:
            best[hit.chunk_id] = hit
    ordered = sorted(best.values(), key=lambda hit: (-hit.score, hit.chunk_id))[:k]
    return [hit.model_copy(update={"rank": rank}) for rank, hit in enumerate(ordered, start=1)]
