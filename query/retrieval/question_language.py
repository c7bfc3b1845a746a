"""The languages of questions and of a version's content, and how well an embedder knows them."""

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from almanac.core.language_model import language_model
from almanac.index.embedding.subword_fertility import COVERED, language_fit
from almanac.index.lexical.analyzer import primary_tag

if TYPE_CHECKING:
    from almanac.index.reader import OpenVersion
    from almanac.schemas.declaration.embed_section import Embed

_NO_LANGUAGE = re.compile(r"https?://\S+|(?<!\S)\S[^\s@]*@\S+|[\d\W_]+")
# From this probability on, 99 % of short questions are identified correctly; below it, the generating model is the
# better judge.
_SURE = 0.8
_REMEMBERED = 20_000  # chunks whose language is remembered
_ASKED_NOW = 64  # questions whose language is remembered: steps of one search ask for it four times
_USUAL_WORDS = 1000  # most frequent words of a language: a single question has too few words to judge a vocabulary by


class QuestionLanguage(NamedTuple):
    """`tag`: primary BCP 47 tag; None where it cannot be identified. `known`: how well the embedder covers it, 0 to 1;
    1 where nothing is known about it.
    """

    tag: str | None
    known: float


def language_of_question(question: str, embed: "Embed", fits: Mapping[str, float]) -> QuestionLanguage:
    """The language of a question, and how well the embedder covers it: as in the content, if it is one of the content's
    languages, else by its vocabulary. `fits` is how well it covers the former, 0 to 1, by tag.
    """
    tag = question_language(question)
    if tag is None:
        return QuestionLanguage(None, 1.0)
    measured = [fit for language, fit in fits.items() if language and primary_tag(language) == tag]
    if measured:
        return QuestionLanguage(tag, min(measured))
    usual = _usual_fit(embed, tag)
    return QuestionLanguage(tag, language_fit(embed, [question]) if usual is None else usual)


@lru_cache(maxsize=_ASKED_NOW)
def question_language(question: str) -> str | None:
    """Primary BCP 47 tag of the language of a question, such as `fr`; None where it cannot be identified with a
    probability of at least .8.
    """
    letters = _NO_LANGUAGE.sub(" ", question)
    if not letters.strip():
        return None
    label, probability = language_model().classify(letters)
    return primary_tag(str(label)) if probability >= _SURE else None


def likeliest_languages(text: str) -> list[tuple[str, float]]:
    """Primary BCP 47 tags of the languages that a text may be in, with their probabilities, the likeliest first; none
    for a text without letters.
    """
    letters = _NO_LANGUAGE.sub(" ", text)
    ranked = language_model().rank(letters) if letters.strip() else ()
    return [(primary_tag(str(label)), float(probability)) for label, probability in ranked]


@lru_cache(maxsize=256)
def _usual_fit(embed: "Embed", tag: str) -> float | None:
    """How well an embedder covers the most frequent words of a language; None for a language without a word list. It
    takes 30 ms.
    """
    from wordfreq import available_languages, top_n_list  # the import takes 0.3 s

    tag = "nb" if tag == "no" else tag
    if tag not in available_languages("small"):
        return None
    return language_fit(embed, top_n_list(tag, _USUAL_WORDS, wordlist="small"))


class ContentLanguages:
    """The languages of one open version. `embed` is the embedder that it was built with. Safe to share among
    threads.
    """

    def __init__(self, opened: "OpenVersion", embed: "Embed") -> None:
        self._opened, self._embed = opened, embed
        self._remembered: dict[str, str] = {}

    @property
    def _fits(self) -> dict[str, float]:
        """How well the embedder covers each language of the content: of the declared one alone, where one is
        declared.
        """
        fits, declared = self._opened.manifest.derived.language_fit, self._opened.manifest.language
        return fits if declared == "auto" else {declared: min(fits.values(), default=1.0)}

    def of_question(self, text: str) -> QuestionLanguage:
        """The language of a question, and how well the embedder covers it."""
        return language_of_question(text, self._embed, self._fits)

    def are_known(self, language: QuestionLanguage) -> bool:
        """Whether the embedder covers the question's language, and one of the content."""
        return min(language.known, max(self._fits.values(), default=1.0)) >= COVERED

    def compare_with_chunks(self, text: str, chunk_ids: Collection[str]) -> list[tuple[bool, bool]]:
        """For each chunk, whether the embedder covers its language, and whether it covers that of the question, too,
        and this is another one.
        """
        language, declared = self.of_question(text), self._opened.manifest.language
        coverages: list[tuple[bool, bool]] = []
        for tag in self._of_chunks(chunk_ids):
            own = tag if declared == "auto" else declared
            is_other = bool(own) and language.tag not in (None, primary_tag(own))
            covered = self._opened.manifest.derived.language_fit[tag] >= COVERED
            coverages.append((covered, is_other and min(self._fits[own], language.known) >= COVERED))
        return coverages

    def _of_chunks(self, chunk_ids: Collection[str]) -> list[str]:
        """Language of each chunk; "" where it is not known. A search asks several times for those of its candidates."""
        if len(self._remembered) > _REMEMBERED:
            self._remembered = {}
        remembered = self._remembered
        new = [chunk_id for chunk_id in chunk_ids if chunk_id not in remembered]
        rows = self._opened.rows(new, ("metadata",))
        remembered.update(
            (chunk_id, str(row["metadata"].get("language") or "")) for chunk_id, row in zip(new, rows, strict=True)
        )
        return [remembered[chunk_id] for chunk_id in chunk_ids]
