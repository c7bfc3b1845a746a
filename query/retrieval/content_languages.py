"""The languages of a version's content: which ones the embedder covers, and which chunks are in another one than a
question.
"""

from collections.abc import Collection

from almanac.index.embedding.subword_fertility import COVERED
from almanac.index.lexical.analyzer import primary_tag
from almanac.index.reader import OpenVersion
from almanac.query.retrieval.question_language import QuestionLanguage, language_of_question
from almanac.schemas.declaration.embed import Embed

_REMEMBERED = 20_000  # chunks whose language is remembered


class ContentLanguages:
    """The languages of one open version. `embed` is the embedder that it was built with. Safe to share among
    threads.
    """

    def __init__(self, opened: OpenVersion, embed: Embed) -> None:
        self._opened, self._embed = opened, embed
        self._remembered: dict[str, str] = {}

    @property
    def known(self) -> float:
        """How well the embedder covers the content, 0 to 1: the minimum over its languages."""
        return min(self._opened.manifest.derived.language_fit.values(), default=1.0)

    @property
    def tags(self) -> list[str]:
        """Tags of the languages of the content, as far as they are known: the declared one alone, where one is
        declared.
        """
        return [tag for tag in self._fits if tag]

    def covers(self, tag: str) -> bool:
        """Whether the embedder covers a language, given as chunks have it; "" where it is not known."""
        return self._opened.manifest.derived.language_fit[tag] >= COVERED

    def of_question(self, text: str) -> QuestionLanguage:
        """The language of a question, and how well the embedder covers it."""
        return language_of_question(text, self._embed, self._fits)

    def covered(self, chunk_ids: Collection[str]) -> dict[str, str]:
        """Language of each chunk that is in a language which the embedder covers."""
        known = {language for language, fit in self._fits.items() if fit >= COVERED}
        if known == set(self._fits) and len(known) == 1:
            return dict.fromkeys(chunk_ids, *known)
        if not known:
            return {}
        return {one: language for one, language in self.of_chunks(chunk_ids).items() if language in known}

    def foreign(self, chunk_ids: Collection[str], asked: QuestionLanguage) -> dict[str, str]:
        """Language of each chunk in another language than the question's, if the embedder covers both."""
        if asked.tag is None or asked.known < COVERED:
            return {}
        covered = self.covered(chunk_ids)
        others = {language for language in set(covered.values()) if language and primary_tag(language) != asked.tag}
        return {one: language for one, language in covered.items() if language in others} if others else {}

    def of_chunks(self, chunk_ids: Collection[str]) -> dict[str, str]:
        """Language of each chunk by id; "" where it is not known. Remembered, since a search asks several times for
        those of its candidates.
        """
        if len(self._remembered) > _REMEMBERED:
            self._remembered = {}
        remembered = self._remembered
        new = [one for one in chunk_ids if one not in remembered]
        remembered.update(
            (one, str(row["metadata"].get("language") or ""))
            for one, row in zip(new, self._opened.rows(new, ("metadata",)), strict=True)
        )
        return {one: remembered[one] for one in chunk_ids}

    @property
    def _fits(self) -> dict[str, float]:
        """How well the embedder covers each language of the content: of the declared one alone, where one is
        declared.
        """
        declared = self._opened.manifest.language
        return self._opened.manifest.derived.language_fit if declared == "auto" else {declared: self.known}
