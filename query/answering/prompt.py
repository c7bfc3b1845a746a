"""Prompts of the generating model: numbered passages within a token budget, delimited as quotations, and the
conversation so far.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from string import Template
from typing import NamedTuple

from almanac.core.invisible import without_invisible
from almanac.core.passage_parts import parts_of
from almanac.query.answering.language import language_name
from almanac.query.answering.markers import hide_markers, without_markers
from almanac.query.answering.pathways import Pathway
from almanac.query.answering.sentences import language_of, sentences_of
from almanac.query.retrieval.overlap import WeighedWords, Words, rarity
from almanac.schemas.errors import UsageError
from almanac.schemas.hashing import sha256
from almanac.schemas.results import Hit

Message = dict[str, str]  # role: system, user or assistant; content

CONTEXT_TOKENS = 3000
_LEAST_TOKENS = 60  # minimum size of a useful passage
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
    """A numbered passage of a prompt. `text` is what there is to read of the hit, or the part of it that fits the token
    budget.
    """

    number: int
    hit: Hit
    text: str


def estimate_prompt_tokens(text: str) -> int:
    """Estimated number of tokens, at four bytes of UTF-8 a token: four characters of English, two of Hebrew, somewhat
    more than one of Chinese.
    """
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)


def select_passages(
    question: str,
    hits: Sequence[Hit],
    language: str,
    *,
    budget: int = CONTEXT_TOKENS,
    count_tokens: Callable[[str], int] = estimate_prompt_tokens,
) -> list[Passage]:
    """Selects passages for a prompt within a token budget.

    Documents share the budget evenly, and what a short one leaves goes to the others (max-min fairness). Within a
    document, the best hits come first. A hit that does not fit is cut to the sentences around the one with the highest
    word overlap, and left out where less than 60 tokens remain for it. Of a record, the labelled lines are kept before
    its long texts, and every text stands below its label. Where there is no room for all, those come first that hold
    most of the question's words.

    Args:
        question: The question.
        hits: Hits to show, best first.
        language: Declared language of the content: a BCP 47 tag, or `auto` for that of each hit.
        budget: Maximum number of tokens of all passages together.
        count_tokens: Counts the tokens of a text.

    Returns:
        The passages in the order of their hits, numbered from 1.
    """
    documents: dict[str, list[int]] = {}
    for number, hit in enumerate(hits):
        documents.setdefault(hit.document_id, []).append(number)
    most = max(1, budget // _LEAST_TOKENS)
    held = list(documents.values())[:most]
    sizes = [count_tokens(hit.readable) for hit in hits]
    shares = _fair_shares([sum(sizes[n] for n in numbers) for numbers in held], budget)
    kept: dict[int, str] = {}
    for numbers, share in zip(held, shares, strict=True):
        left = share
        for number in numbers:
            if sizes[number] <= left:
                kept[number] = hits[number].readable
            elif left >= min(_LEAST_TOKENS, budget):
                kept[number] = _part(question, hits[number], language, left, count_tokens)
            left -= count_tokens(kept[number]) if number in kept else 0
    return [
        Passage(place, hits[number], kept[number])
        for place, number in enumerate((n for n in sorted(kept) if kept[n]), start=1)
    ]


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

    Args:
        pathway: The pathway, which selects the system prompt.
        title: Title of the knowledge base.
        question: The question.
        passages: Passages to quote; not used on the pathway `llm-fallback`.
        history: Earlier messages, oldest first.
        language: Tag of the reply's language; None leaves it to the model to identify that of the question.
        unknown: What the model is to write where it has no answer.
        parts: What the caller gave beside the question, by name, such as a product; written below the question.

    Raises UsageError where one of the last six messages has a role other than user and assistant, or a content that is
    not text.
    """
    seal = _seal(question, passages)
    reply_in = f"Write in {language_name(language)}." if language else "Write in the language of the question."
    system = _prompt(pathway.replace("-", "_")).substitute(
        title=" ".join(title.split()), seal=seal, unknown=unknown, language=reply_in
    )
    asked = "\n".join(
        [question, *(f"{name}: {without_invisible(text)}" for name, text in (parts or {}).items() if text.strip())]
    )
    if pathway != "llm-fallback":
        asked = _prompt("question").substitute(
            passages="\n\n".join(_quoted(passage, seal) for passage in passages), question=asked
        )
    return [{"role": "system", "content": system}, *_turns(history, asked)]


def _fair_shares(sizes: Sequence[int], budget: int) -> list[int]:
    shares = [0] * len(sizes)
    for position, number in enumerate(sorted(range(len(sizes)), key=lambda n: sizes[n])):
        shares[number] = min(sizes[number], budget // (len(sizes) - position))
        budget -= shares[number]
    return shares


def _part(question: str, hit: Hit, language: str, share: int, count_tokens: Callable[[str], int]) -> str:
    """The part of a hit that fits `share` tokens. Of a record: its lines, then its long texts below their labels, those
    that the question asks for first.
    """
    if hit.passage is None:
        return _sentences_around(question, hit, language, share, count_tokens)
    parts = list(parts_of(hit.passage))
    written = [hit.passage[part.begin : part.end] for part in parts]
    order, lines, texts = _ranked(question, written, language_of(hit, language)), dict[int, str](), dict[int, str]()
    for number in (number for number in order if parts[number].is_line):
        more = dict(sorted({**lines, number: written[number]}.items()))
        lines = more if count_tokens("\n".join(more.values())) <= share else lines
    # rounding: two texts may have a token more than both together
    left = share - count_tokens("\n".join(lines.values())) - 1
    for number in (number for number in order if not parts[number].is_line):
        part, label = parts[number], f"{parts[number].label}:\n"
        room, text = left - count_tokens(f"\n\n{label}") - 1, hit.passage[part.start : part.end]
        if count_tokens(text) > room:
            shown = hit.model_copy(update={"passage": None, "text": text, "start": None, "end": None})
            is_useful = room >= min(_LEAST_TOKENS, share)
            text = _sentences_around(question, shown, language, room, count_tokens) if is_useful else ""
        if text:
            texts[number], left = label + text, room - count_tokens(text)
    return "\n\n".join(filter(None, ["\n".join(lines.values()), *(texts[number] for number in sorted(texts))]))


def _sentences_around(question: str, hit: Hit, language: str, share: int, count_tokens: Callable[[str], int]) -> str:
    """The part of a hit's text that fits `share` tokens: whole sentences around the one with the highest word overlap
    with the question.
    """
    sentences = sentences_of([hit], language)
    text, room = hit.readable, share - 2 * count_tokens(_GAP)
    spans = [(s.start, s.end) for s in sentences] or [(0, len(text))]
    said = [f"{s.context} {s.text}" for s in sentences] or [text]
    first = last = _ranked(question, said, language_of(hit, language))[0]
    start, end = spans[first]
    if count_tokens(text[start:end]) > room:
        return text[start : start + _fitting(text[start:end], room, count_tokens)] + _GAP if room > 0 else ""
    grew = True
    while grew:
        grew = False
        if last + 1 < len(spans) and count_tokens(text[start : spans[last + 1][1]]) <= room:
            last, end, grew = last + 1, spans[last + 1][1], True
        if first > 0 and count_tokens(text[spans[first - 1][0] : end]) <= room:
            first, start, grew = first - 1, spans[first - 1][0], True
    return f"{_GAP if first > 0 else ''}{text[start:end]}{_GAP if last + 1 < len(spans) else ''}"


def _ranked(question: str, texts: Sequence[str], tag: str) -> list[int]:
    """Numbers of the texts, those first that hold the most of the question's words, else in their order."""
    words = Words(question)
    found = [set(words.of(text, tag)) for text in texts]
    asked = WeighedWords(words.asked(tag), rarity(found))
    return sorted(range(len(texts)), key=lambda number: (-asked.covered_by(found[number]), number))


def _fitting(text: str, room: int, count_tokens: Callable[[str], int]) -> int:
    """Number of characters from the start of the text that fit `room` tokens."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count_tokens(text[:middle]) <= room else (low, middle - 1)
    return low


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
    return _CONTROL.sub(lambda found: f"({next(filter(None, found.groups()))})", plain)


def _turns(history: Sequence[Mapping[str, str]], asked: str) -> list[Message]:
    """The last messages and the question, as alternating messages that begin with the user. Raises UsageError for a
    malformed message.
    """
    turns: list[Message] = []
    for message in history[-_HISTORY:]:
        role, content = message.get("role"), message.get("content")
        if role not in ("user", "assistant") or not isinstance(content, str):
            raise UsageError(
                f"a message of the history has the role {role!r}",
                where="history",
                hint="user or assistant, each with its text as content",
            )
        text = (without_markers(content) if role == "assistant" else content).strip()[:_HISTORY_CHARACTERS]
        if text and (turns or role == "user"):
            _say(turns, role, text)
    _say(turns, "user", asked)
    return turns


def _say(turns: list[Message], role: str, text: str) -> None:
    if turns and turns[-1]["role"] == role:
        turns[-1]["content"] += f"\n\n{text}"
    else:
        turns.append({"role": role, "content": text})


@cache
def _prompt(name: str) -> Template:
    return Template((Path(__file__).parent / "prompts" / f"{name}.txt").read_text(encoding="utf-8").strip())
