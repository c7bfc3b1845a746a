"""Prompts of the generating model: numbered passages within a token budget, delimited as quotations, and the
conversation so far.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from string import Template
from typing import NamedTuple

from almanac.core.invisible import without_invisible
from almanac.query.answering.hit_sentences import sentences_of
from almanac.query.answering.markers import hide_markers, without_markers
from almanac.query.answering.overlap import covered, words_of
from almanac.query.answering.pathways import Pathway
from almanac.query.answering.wording import language_name
from almanac.schemas.errors import UsageError
from almanac.schemas.hashing import sha256
from almanac.schemas.results import Hit

Message = dict[str, str]  # role: system, user or assistant; content

_LEAST_TOKENS = 60  # minimum size of a useful passage
_BYTES = 4  # of a token
_HISTORY = 6  # maximum number of earlier messages
_HISTORY_CHARACTERS = 4000  # maximum length of one message
_GAP = "…"
# Control tokens of chat templates: servers may interpret them as the end or the start of a message, even in the middle
# of a text.
_CONTROL = re.compile(
    r"<([|｜][^|｜<>\n]{1,40}[|｜])>|<(/?s|/?(?:start|end)_of_turn|bos|eos|unk|pad)>|<<(/?SYS)>>"
    r"|\[(/?[A-Z_]*(?:INST|SYSTEM_PROMPT|TOOL\w*|TOOLS|THINK))\]"
)
# of quotations; the hash behind it tells ours from others, if the model looks at it
_DELIMITER = re.compile(r"<<<(?=\s*(?:passage|end)\b)", re.IGNORECASE)


class Passage(NamedTuple):
    """A numbered passage of a prompt. `text` is what there is to read of the hit, or what fits the token budget."""

    number: int
    hit: Hit
    text: str


def select_passages(question: str, hits: Sequence[Hit], *, budget: int = 3000) -> list[Passage]:
    """Selects passages for a prompt within a token budget, numbered from 1 in the order of their hits.

    Hits share the budget evenly, and what a short one leaves goes to the others (max-min fairness). Of a hit that does
    not fit its share, the sentences are shown that have most of the question's words, each below what it stands under;
    of one sentence that does not fit, the beginning.

    Args:
        question: The question.
        hits: Hits to show, best first. Those for which less than 60 tokens would remain are left out.
        budget: Maximum number of tokens of all passages together, at four bytes of UTF-8 a token: four characters of
            English, two of Hebrew, somewhat more than one of Chinese.
    """
    shown = hits[: max(1, budget // _LEAST_TOKENS)]
    shares = _fair_shares([_size(hit.readable) for hit in shown], budget * _BYTES)
    texts = [_part(question, hit, share) for hit, share in zip(shown, shares, strict=True)]
    fitting = [(hit, text) for hit, text in zip(shown, texts, strict=True) if text]
    return [Passage(number, hit, text) for number, (hit, text) in enumerate(fitting, start=1)]


def make_messages(
    pathway: Pathway,
    title: str,
    question: str,
    passages: Sequence[Passage],
    history: Sequence[Mapping[str, str]],
    language: str | None,
    unknown: str,
    parts: Mapping[str, str] | None = None,
) -> list[Message]:
    """Builds the messages for a model: system prompt, the last six messages of the conversation, and the question with
    its passages. User and assistant alternate, since many chat templates refuse others: messages of the same role are
    joined, and those of the assistant before the first one of the user are left out.

    Passages are not quoted on the pathway `llm-fallback`, whose name selects the system prompt. `title` is that of the
    knowledge base, `history` has the oldest message first, `language` None leaves it to the model to identify that of
    the question, `unknown` is what it writes where it has no answer. `parts` are written below the question.

    Raises UsageError where one of the last six messages has a role other than user and assistant, or a content that is
    not text.
    """
    seal = _seal(question, passages)
    tag = f"{language_name(language)} ({language})" if language else "the language of the question"
    system = _prompt(pathway.replace("-", "_")).substitute(
        title=" ".join(title.split()), seal=seal, unknown=unknown, language=f"Write in {tag}."
    )
    question_text = "\n".join(
        [question, *(f"{name}: {without_invisible(text)}" for name, text in (parts or {}).items() if text.strip())]
    )
    if pathway != "llm-fallback":
        question_text = _prompt("question").substitute(
            passages="\n\n".join(_quoted(passage, seal) for passage in passages), question=question_text
        )
    return [{"role": "system", "content": system}, *_turns(history, question_text)]


def _fair_shares(sizes: Sequence[int], budget: int) -> list[int]:
    shares = [0] * len(sizes)
    for position, number in enumerate(sorted(range(len(sizes)), key=lambda n: sizes[n])):
        shares[number] = min(sizes[number], budget // (len(sizes) - position))
        budget -= shares[number]
    return shares


def _part(question: str, hit: Hit, share: int) -> str:
    """The part of a hit that fits `share` bytes."""
    if _size(hit.readable) <= share:
        return hit.readable
    sentences = sentences_of([hit])
    under = [s.context.removeprefix(hit.title).strip() for s in sentences]
    texts = [f"{above} {s.text}" for above, s in zip(under, sentences, strict=True)]
    shares = covered(*words_of(question, texts, hit.language))
    chosen: list[int] = []
    for number in sorted(range(len(sentences)), key=lambda number: -shares[number]):
        cost = _size(f"{_GAP}\n{under[number]}:\n{sentences[number].text}")
        if cost <= share:
            chosen.append(number)
            share -= cost
    if not chosen:
        text = sentences[0].text if sentences else hit.readable
        return text.encode("utf-8", "replace")[: max(0, share - _size(_GAP))].decode(errors="ignore") + _GAP
    lines: list[str] = []
    for before, number in pairwise([-1, *sorted(chosen)]):
        is_new = under[number] and (before < 0 or under[number] != under[before])
        lines += [f"{under[number]}:"] if is_new else []
        lines.append(f"{_GAP if number > before + 1 else ''}{sentences[number].text}")
    return "\n".join(lines)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _seal(question: str, passages: Sequence[Passage]) -> str:
    """Delimiter of quotations that no passage can contain or predict: a hash of the question and of all passages."""
    texts = [question, *(text for p in passages for text in (p.text, p.hit.title, p.hit.url))]
    seal = sha256("\0".join(texts))[:12]
    while any(seal in text for text in texts):
        seal = sha256(seal)[:12]
    return seal


def _quoted(passage: Passage, seal: str) -> str:
    title = " ".join(_as_data(passage.hit.title).split())
    tags = passage.hit.tags
    tagged = f"\nTags: {' '.join(_as_data(', '.join(tags)).split())}" if tags else ""
    relevant = f"\nRelevance: {passage.hit.relevance:.0%}" if passage.hit.relevance is not None else ""
    return (
        f"<<<passage {seal} [{passage.number}]\nTitle: {title}{tagged}{relevant}\n\n{_as_data(passage.text)}\n"
        f"<<<end {seal}"
    )


def _as_data(text: str) -> str:
    """Text of a passage for the prompt, in which nothing is a marker, a control token, a delimiter of quotations or a
    character that only the model sees.
    """
    plain = _DELIMITER.sub("(((", hide_markers(without_invisible(text)))
    return _CONTROL.sub(lambda match: f"({next(filter(None, match.groups()))})", plain)


def _turns(history: Sequence[Mapping[str, str]], question_text: str) -> list[Message]:
    """The last messages and the question, as alternating messages that begin with the user. Raises UsageError for a
    malformed message.
    """
    turns: list[tuple[str, str]] = []
    for message in history[-_HISTORY:]:
        role, content = message.get("role"), message.get("content")
        if role not in ("user", "assistant") or not isinstance(content, str):
            raise UsageError(
                f"a message of the history has the role {role!r}",
                where="history",
                hint="user or assistant, each with its text as content",
            )
        text = (without_markers(content) if role == "assistant" else content).strip()[:_HISTORY_CHARACTERS]
        turns += [(role, text)] if text and (turns or role == "user") else []
    return [
        {"role": role, "content": "\n\n".join(text for _, text in of_role)}
        for role, of_role in groupby([*turns, ("user", question_text)], key=itemgetter(0))
    ]


@cache
def _prompt(name: str) -> Template:
    return Template((Path(__file__).parent / "prompts" / f"{name}.txt").read_text(encoding="utf-8").strip())
