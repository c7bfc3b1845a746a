"""What is near enough to be answered from: words that tell beside the cosine, and alone where the embedder does not
know the language.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from almanac.core.settings import DataDir
from almanac.index.build.builder import build_version
from almanac.index.embedding.embedder import Embedder
from almanac.index.embedding.score_thresholds import ScoreThresholds
from almanac.index.lexical.lexical_reader import AnalyzedQuery
from almanac.index.reader import OpenVersion
from almanac.query.published import PublishedIndex
from almanac.query.retrieval.relevance import LEAST_COVERAGE, Evidence
from almanac.query.retrieval.retriever import Retriever
from almanac.query.retrieval.term_coverage import term_coverage
from almanac.schemas.errors import UsageError
from almanac.schemas.manifest import Verdict
from tests.index.conftest import Base, HashEmbedder, make_chunks
from tests.query.answering import declared


def _readings(question: str, texts: Sequence[str], language: str) -> list[AnalyzedQuery]:
    reading = AnalyzedQuery(language, False, {}, len(texts))
    terms = [reading.terms_of(text) for text in texts]
    question_terms = sorted(reading.terms_of(question))
    return [reading._replace(frequencies={term: sum(term in own for own in terms) for term in question_terms})]


def _best(question: str, texts: Sequence[str], language: str) -> tuple[float, str]:
    return max(
        (coverage.share, text)
        for coverage, text in zip(
            term_coverage(_readings(question, texts, language), question, texts), texts, strict=True
        )
    )


_POOL = {
    "de": [
        "Wer den Schlüssel verliert, zahlt 25 Euro.",
        "Die Straßenbahnlinie 4 hält direkt vor dem Bad.",
        "Das Lehrbecken ist auf 32 Grad geheizt.",
    ],
    "he": [
        "מי שמאבד את המפתח משלם 90 שקלים.",
        "בריכת הלימוד מחוממת ל-32 מעלות.",
        "מעלון עוזר לאנשים בכיסא גלגלים להיכנס למים.",
    ],
    "ja": [
        "サウナは二階にあり、16歳から利用できます。",
        "練習用プールは32度に温められています。",
        "ガラス瓶は全館禁止です。",
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "question", "answer"),
    [
        ("de", "Welche Straßenbahnlinie hält vor dem Bad?", 1),
        ("de", "Wie warm ist das Lehrbecken?", 2),
        ("he", "כמה חמה בריכת הלימוד?", 1),
        ("ja", "練習用プールの温度は何度ですか。", 1),
        ("ja", "サウナは何歳から入れますか。", 0),
    ],
)
def test_a_few_texts_bear_a_question_in_other_words(language: str, question: str, answer: int) -> None:
    """In three texts each word is rare: which of them tell is known from the language."""
    share, text = _best(question, _POOL[language], language)
    assert text == _POOL[language][answer]
    assert share >= LEAST_COVERAGE


@pytest.mark.parametrize(
    ("language", "question"),
    [
        ("de", "Was ist die Hauptstadt der Mongolei?"),
        ("de", "Kann ich mit der Kreditkarte zahlen?"),
        ("he", "מה בירת מונגוליה?"),
        ("ja", "モンゴルの首都はどこですか。"),
        ("ja", "クレジットカードで払えますか。"),
    ],
)
def test_what_is_asked_about_and_stands_nowhere_tells_most(language: str, question: str) -> None:
    assert _best(question, _POOL[language], language)[0] < LEAST_COVERAGE


def test_another_number_or_another_pair_of_syllables_is_another_word() -> None:
    def share(question: str, text: str, language: str) -> float:
        return term_coverage(_readings(question, [text], language), question, [text])[0].share

    assert share("Straßenbahn", "Die Straßenbahn", "de") == 1
    assert share("123456", "number 1234567", "en") == 0
    assert share("thành công", "thành phố", "vi") < share("thành công", "thành công", "vi") == 1
    alone = _readings("thành công", ["thành phố"], "vi")[0]
    assert share("thành công", "thành phố", "vi") < 0.5 < len(alone.frequencies)


@given(
    st.text(max_size=60),
    st.lists(st.text(max_size=60), max_size=3),
    st.sampled_from(["en", "vi", "ja", "he", "th", "und", "xx", "no"]),
)
def test_support_is_a_share(question: str, texts: list[str], language: str) -> None:
    coverages = term_coverage(_readings(question, texts, language), question, texts)
    assert len(coverages) == len(texts)
    assert all(
        0 <= coverage.cautious <= coverage.share <= 1 and math.isfinite(coverage.share) for coverage in coverages
    )


_MINILM = ScoreThresholds(0.3, 0.5)


def _seen(dense: float | None, share: float, *, is_known: bool = True) -> Evidence:
    return Evidence(dense, share, share / 2, is_known)


def test_words_lower_the_floor_and_their_lack_raises_it() -> None:
    assert _seen(0.25, 0.5).is_enough(_MINILM)
    assert not _seen(0.33, 0.0).is_enough(_MINILM)
    assert _seen(0.39, 0.0).is_enough(_MINILM)
    assert _seen(None, 0.7).is_enough(_MINILM)
    assert not _seen(None, 0.5).is_enough(_MINILM)
    assert _seen(0.01, 0.0).is_enough(ScoreThresholds(0.0, 0.5))  # an embedder that nobody measured refuses nothing


def test_words_are_worth_less_where_cosines_lie_closer_together() -> None:
    narrow = ScoreThresholds(0.82, 0.86, worth=0.1)
    assert _seen(0.80, 0.5).is_enough(narrow) and not _seen(0.80, 0.1).is_enough(narrow)
    assert not _seen(0.75, 0.5).is_enough(narrow)


def test_a_cosine_tells_nothing_in_a_language_that_the_embedder_does_not_know() -> None:
    assert not _seen(0.7, 0.2, is_known=False).is_enough(_MINILM)
    assert [_seen(0.7, share, is_known=False).reaches(0.5) for share in (0.3, 0.6)] == [False, True]
    assert [_seen(dense, 0.6).reaches(0.5) for dense in (0.49, 0.5)] == [False, True]


class _NeverLoaded(PublishedIndex):
    """One open version, and an embedder that nobody may ask for."""

    opened: OpenVersion

    @contextmanager
    def reading(self, version: str | None = None) -> Iterator[Retriever]:  # noqa: ARG002  # the one there is
        yield Retriever(self.declaration, self.opened, HashEmbedder().embed_queries)

    @property
    def embedder(self) -> Embedder:
        raise AssertionError("loaded")


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenVersion]:
    base, rows = Base(tmp_path_factory.mktemp("near")), make_chunks(4)
    base.embed(rows)
    build_version(base.job())
    with OpenVersion(
        base.index_dir, "v0001", manifest=base.manifest("v0001", rows, Verdict(verdict="passed", checks=[]))
    ) as version:
        yield version


@pytest.mark.parametrize(
    ("arguments", "finding"),
    [
        ({"mode": "kb-llm"}, "needs a generating model"),
        ({"mode": "chat"}, "no mode 'chat'"),
        ({"k": 0}, "at least 1"),
        ({"workspace": "people"}, "no workspaces"),
        ({"where": {"colour": "red"}}, "colour"),
        ({"parts": {"prodct": "Kettle"}}, "no placeholder for the part 'prodct'"),
        ({"parts": {"product": 5}}, "parts are texts by name; found {'product': 5}"),
        ({"floor": 5}, "a cosine from -1 to 1"),
        ({"history": "What does it cost?"}, "history is a list of messages"),
        ({"history": ["What does it cost?"]}, "history is a list of messages"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_the_embedder_is_loaded(
    opened: OpenVersion, arguments: dict[str, Any], finding: str
) -> None:
    index = _NeverLoaded(declared(retrieve={"query": "{product} {question}"}), DataDir(opened.folder))
    index.opened = opened
    with pytest.raises(UsageError, match=finding):
        index.ask("How long?", **arguments)
    if "mode" not in arguments:
        with pytest.raises(UsageError, match=finding):
            index.search("How long?", **arguments)
