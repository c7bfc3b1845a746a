"""Other wordings of a question, by the model that writes answers; each is searched for, and a chunk counts by the wording that suits it best.

They are an addition: where the model cannot be reached, is overloaded or answers nonsense, the question alone is searched for, and the trace and the
log say why. What the operator has to mend (a key, a model's name, an address) is raised: it would otherwise never be noticed.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog

from almanac.index.mistral.retry import Retry
from almanac.query.retrieval.retriever import Retrieved
from almanac.schemas.errors import CredentialRefused, OperationalError
from almanac.schemas.reports import Hit

if TYPE_CHECKING:
    from almanac.query.models.generators import Generator

_NUMBERING = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
_LONGEST = 300  # characters; what is longer is no wording of a question but an answer to it
_TOKENS = 60  # for each wording
PATIENCE = Retry(attempts=2, malformed_attempts=2, cap_s=1.0, retry_after_cap_s=2.0)  # somebody waits for what the question alone finds, too
_log = structlog.get_logger("almanac.expand")


class Expansion(NamedTuple):
    """Other wordings, and where the model wrote none, why."""

    wordings: list[str]
    failure: str | None = None

    @property
    def told(self) -> dict[str, Any]:
        """For the trace."""
        return {"wordings": self.wordings, **({"failure": self.failure} if self.failure else {})}


def expand(generator: "Generator", question: str, count: int) -> Expansion:
    """At most `count` other wordings; none, and the reason, where the model does not answer. Raises CredentialRefused and DeclarationError."""
    try:
        return Expansion(other_wordings(generator, question, count))
    except CredentialRefused:
        raise
    except OperationalError as error:
        _log.warning("the question alone is searched for: the model wrote no other wordings", where=error.where, failure=error.message)
        return Expansion([], error.message)


def other_wordings(generator: "Generator", question: str, count: int) -> list[str]:
    """At most `count`, none of them the question itself. Raises what the generator raises."""
    prompt = Template((Path(__file__).parent / "prompts" / "expand.txt").read_text(encoding="utf-8"))
    written = generator.generate([{"role": "user", "content": prompt.substitute(count=count, question=question)}], temperature=0.0, max_tokens=_TOKENS * count)
    lines = [_NUMBERING.sub("", line).strip().strip("\"'«»“”").strip() for line in written.splitlines()]
    distinct = {line.casefold(): line for line in reversed(lines) if line and len(line) <= _LONGEST and line.casefold() != question.casefold().strip()}
    return list(reversed(distinct.values()))[:count]


def merge(founds: Sequence[Retrieved], k: int) -> Retrieved:
    """The k best hits of all, each once, with its best score; the roads one after the other."""
    best: dict[str, Hit] = {}
    for hit in (hit for found in founds for hit in found.hits):
        if hit.chunk_id not in best or hit.score > best[hit.chunk_id].score:
            best[hit.chunk_id] = hit
    ordered = sorted(best.values(), key=lambda hit: (-hit.score, hit.chunk_id))[:k]
    hits = [hit.model_copy(update={"rank": rank}) for rank, hit in enumerate(ordered, start=1)]
    return Retrieved(hits, [step for found in founds for step in found.trace])
