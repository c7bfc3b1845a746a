"""Golden questions: a JSONL file of questions with their expected answers, and the recall of a version on them.

A line is `{"question": …}` with the expected `document_id`, `url` or `answer_contains`, each one text or a list of alternatives. Where several of these
keys are given, one hit has to match all of them. A line with none of them is an unanswerable question, for which no hit should be found.
"""

import difflib
import json
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from almanac.index.embedding.embedder import Vectors
from almanac.index.embedding.score_thresholds import score_thresholds
from almanac.index.reader import OpenVersion
from almanac.query.models.rerank import load_reranker
from almanac.query.retrieval.query_template import compose_query
from almanac.query.retrieval.retriever import Request, Retriever
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import DeclarationError
from almanac.schemas.reports import Hit, Recall

_QUESTION = ("question", "query", "text")
_EXPECTED = ("document_id", "url", "answer_contains")
_REMARKS = frozenset({"id", "note", "comment", "tags", "language"})


class Golden(NamedTuple):
    """One golden question. Entries of the same kind are alternatives; an empty kind expects nothing."""

    question: str
    document_ids: frozenset[str] = frozenset()
    urls: frozenset[str] = frozenset()  # percent-decoded
    texts: tuple[str, ...] = ()  # normalized, see `normalize`

    @property
    def is_answerable(self) -> bool:
        """Whether an answer is expected."""
        return bool(self.document_ids or self.urls or self.texts)

    def is_answered_by(self, hit: Hit) -> bool:
        """Whether a hit matches every kind of expectation. URLs are compared percent-decoded, with or without their fragment."""
        return (
            (not self.document_ids or hit.document_id in self.document_ids)
            and (not self.urls or not self.urls.isdisjoint((unquote(hit.url), unquote(hit.url.partition("#")[0]))))
            and (not self.texts or any(text in normalize(hit.text) for text in self.texts))
        )


def normalize(text: str) -> str:
    """The text normalized for comparison: NFKC, case-folded, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).split())


def load_golden(declaration: Declaration) -> list[Golden]:
    """Reads the declared golden questions; an empty list where `gate.golden` is not declared.

    Raises DeclarationError, with file and line, where the file cannot be read or a line is malformed; also where the file is empty, or where the gate measures
    recall and no question has an expected answer.
    """
    if declaration.gate.golden is None:
        return []
    path = declaration.path.parent / Path(declaration.gate.golden).expanduser()
    golden = [_question(line, f"{path}:{number}") for number, line in enumerate(_lines(path), start=1) if line.strip()]
    needs_answers = declaration.gate.min_recall is not None or declaration.gate.max_recall_drop is not None
    if not any(one.is_answerable for one in golden) and (needs_answers or not golden):
        finding = "none of its questions says what answers it" if golden else "holds no question"
        raise DeclarationError(f"gate.golden: {finding}", where=str(path), hint='a line is {"question": "…", "document_id": "…"}')
    return golden


def measure_recall(declaration: Declaration, opened: OpenVersion, embed_queries: Callable[[Sequence[str]], Vectors], golden: Sequence[Golden]) -> Recall:
    """Measures the recall of a version on golden questions, among the first `retrieve.k` hits.

    Args:
        declaration: The declaration, whose `retrieve` section applies. Query expansion does not take part.
        opened: The version.
        embed_queries: Gives the unit vectors of texts, float32 (n, dimension).
        golden: The questions.

    Returns:
        Recall over the answerable questions, with those missed, and the numbers of questions that pass the score threshold for answers.
    """
    declared = declaration.retrieve
    texts = [compose_query(declared.query, one.question) for one in golden]
    retriever = Retriever(declaration, opened, embed_queries, load_reranker(declaration))
    default = score_thresholds(opened.manifest.embedder) if declared.floor is None else None
    searches = [Request(text, vector, declared.k, declared.mode) for text, vector in zip(texts, embed_queries(texts), strict=True)]
    hits = [retriever.find(search).hits for search in searches]
    is_answered = [bool(retriever.find(replace(search, floor=declared.floor, thresholds=default)).hits) for search in searches]
    answerable = [(one, found) for one, found in zip(golden, hits, strict=True) if one.is_answerable]
    missed = [one.question for one, found in answerable if not any(map(one.is_answered_by, found))]
    return Recall(
        recall=round(1 - len(missed) / len(answerable), 6) if answerable else None,
        questions=len(answerable),
        answered=sum(answered for one, answered in zip(golden, is_answered, strict=True) if one.is_answerable),
        missed=missed,
        unanswerable=len(golden) - len(answerable),
        abstained=sum(not answered for one, answered in zip(golden, is_answered, strict=True) if not one.is_answerable),
    )


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise DeclarationError(f"not UTF-8: {error.reason} at byte {error.start}", where=str(path), hint="save the file as UTF-8") from error
    except OSError as error:
        hint = "gate.golden is relative to the declaration; leave it out where there are no golden questions"
        raise DeclarationError(f"gate.golden: cannot be read: {error.strerror}", where=str(path), hint=hint) from error


def _question(line: str, where: str) -> Golden:
    hint = 'a line is {"question": "…", "document_id": "…"}; instead of or beside document_id: url, answer_contains'
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DeclarationError(f"not JSON: {line.strip()[:80]!r}", where=where, hint=hint) from error
    if not isinstance(row, dict):
        raise DeclarationError(f"not a JSON object: {line.strip()[:80]!r}", where=where, hint=hint)
    asked = [row[key] for key in _QUESTION if key in row]
    if len(asked) != 1 or not _is_text(asked[0]):
        finding = "has no question" if not asked else "asks more than once" if len(asked) > 1 else f"the question is no text: {asked[0]!r}"
        raise DeclarationError(finding, where=where, hint=hint)
    ids, urls, texts = (_expected(row.get(key), key, where) for key in _EXPECTED)
    golden = Golden(asked[0], frozenset(ids), frozenset(map(unquote, urls)), tuple(normalize(text) for text in texts))
    if not golden.is_answerable:
        _refuse_other_keys(row, where)
    return golden


def _expected(value: Any, key: str, where: str) -> list[str]:
    found = value if isinstance(value, list) else [] if value is None else [value]
    texts = [str(one) if isinstance(one, int) and not isinstance(one, bool) else one for one in found]
    if (value == [] or not all(map(_is_text, texts))) or (key == "answer_contains" and not all(map(normalize, texts))):
        raise DeclarationError(f"{key}: is no text: {value!r}", where=where, hint=f"write a text, a list of texts, or leave {key} out")
    return texts


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and not any("\ud800" <= c <= "\udfff" for c in value)


def _refuse_other_keys(row: dict[str, Any], where: str) -> None:
    """Raises DeclarationError for an unknown key: a misspelt expectation would turn an answerable question into an unanswerable one."""
    unknown = [key for key in row if key not in {*_QUESTION, *_EXPECTED, *_REMARKS}]
    if unknown:
        close = difflib.get_close_matches(unknown[0], _EXPECTED, 1)
        hint = (
            f"did you mean {close[0]}?" if close else f"expected answers: {', '.join(_EXPECTED)}; leave all of them out for a question without an answer here"
        )
        raise DeclarationError(f"unknown key {unknown[0]}, and no expected answer", where=where, hint=hint)
