"""Other wordings of a question, by the model that writes answers; each is searched for, and a chunk counts by the wording that suits it best."""

import re
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from query.retrieve import Found
from schemas.reports import Hit

if TYPE_CHECKING:
    from query.generators import Generator

_NUMBERING = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
_LONGEST = 300  # characters; what is longer is no wording of a question but an answer to it
_TOKENS = 60  # for each wording


def other_wordings(generator: "Generator", question: str, count: int) -> list[str]:
    """At most `count`, none of them the question itself. Raises what the generator raises."""
    prompt = Template((Path(__file__).parent / "prompts" / "expand.txt").read_text(encoding="utf-8"))
    written = generator.generate([{"role": "user", "content": prompt.substitute(count=count, question=question)}], temperature=0.0, max_tokens=_TOKENS * count)
    lines = [_NUMBERING.sub("", line).strip().strip("\"'«»“”").strip() for line in written.splitlines()]
    distinct = {line.casefold(): line for line in reversed(lines) if line and len(line) <= _LONGEST and line.casefold() != question.casefold().strip()}
    return list(reversed(distinct.values()))[:count]


def merge(founds: Sequence[Found], k: int) -> Found:
    """The k best hits of all, each once, with its best score; the roads one after the other."""
    best: dict[str, Hit] = {}
    for hit in (hit for found in founds for hit in found.hits):
        if hit.chunk_id not in best or hit.score > best[hit.chunk_id].score:
            best[hit.chunk_id] = hit
    ordered = sorted(best.values(), key=lambda hit: (-hit.score, hit.chunk_id))[:k]
    hits = [hit.model_copy(update={"rank": rank}) for rank, hit in enumerate(ordered, start=1)]
    return Found(hits, [step for found in founds for step in found.road])
