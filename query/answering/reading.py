"""Reading: how well sentences answer a question, by the embedders that come with Almanac.

multilingual-e5-small reads every language and minds no misspelt word; all-MiniLM-L6-v2 reads English, and knows best
there what is said in other words. Where both read, their cosines are added (docs/quality.md has what that is worth).
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from almanac.index.embedding.embedder import Embedder
from almanac.query.models.kept_vectors import KeptVectors

Floats = npt.NDArray[np.float32]
_WEIGHT = 3.0  # of a cosine of multilingual-e5-small, whose cosines lie three times as close together


class Read(NamedTuple):
    """What was read: for each question and text, (questions, texts), the cosine by the first embedder, and the score by
    all of them. Scores compare within one call.
    """

    cosines: Floats
    scores: Floats


class Reader:
    """Reads texts for questions. Safe to share among threads.

    Args:
        every: Reads every language.
        english: Gives what reads English beside it, which few languages need. None: `every` is the only one.
        is_multilingual: Whether `every` is multilingual-e5-small, and not the knowledge base's own embedder in its
            place. Only with it is known from which cosine on a sentence answers.
        folder: Where vectors of texts are kept. None: nowhere but in the embedders' memory.
    """

    def __init__(
        self,
        every: Embedder,
        english: Callable[[], Embedder] | None,
        *,
        is_multilingual: bool,
        folder: Path | None = None,
    ) -> None:
        self._every, self._english, self.is_multilingual, self._folder = every, english, is_multilingual, folder

    def with_folder(self, folder: Path) -> "Reader":
        """This reader for one version, in whose folder it keeps the vectors of sentences."""
        return Reader(self._every, self._english, is_multilingual=self.is_multilingual, folder=folder)

    def read(self, questions: Sequence[str], texts: Sequence[str], *, is_english: bool) -> Read:
        """Reads at least one text for each question. `is_english` is whether questions and texts are English."""
        cosines = self._cosines(self._every, questions, texts)
        scores = cosines * (_WEIGHT if self.is_multilingual else 1.0)
        if is_english and self._english is not None:
            scores = scores + self._cosines(self._english(), questions, texts)
        return Read(cosines, scores)

    def load(self, *, is_english: bool) -> None:
        """Loads what reads texts, English ones too with `is_english`, so that the first question need not wait."""
        if is_english and self._english is not None:
            self._english()

    def read_ahead(self, texts: Sequence[str], *, is_english: bool) -> None:
        """Embeds texts that questions will be compared with, and keeps their vectors."""
        self._vectors(self._every, texts)
        if is_english and self._english is not None:
            self._vectors(self._english(), texts)

    def _cosines(self, embedder: Embedder, questions: Sequence[str], texts: Sequence[str]) -> Floats:
        cosines: Floats = embedder.embed_queries(questions) @ self._vectors(embedder, texts).T
        return cosines

    def _vectors(self, embedder: Embedder, texts: Sequence[str]) -> Floats:
        keeping = embedder if self._folder is None else KeptVectors(embedder, self._folder)
        return keeping.embed_documents(texts)
