"""Word pieces of texts, by the tokenizer of a local model, without the model."""

import re
from array import array
from collections.abc import Iterable, Sequence
from functools import cache
from operator import itemgetter
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from almanac.index.embedding.model_folder import find_model

if TYPE_CHECKING:
    from tokenizers import Encoding

    from almanac.schemas.declaration.embed_section import Embed


def load_word_pieces(embed: "Embed") -> "WordPieces | None":
    """Returns the declared model's tokenizer; None for an API, or where the model's folder has no tokenizer.json."""
    path = find_model(embed).tokenizer() if embed.provider == "local" else None
    return None if path is None else read_word_pieces(path)


def read_word_pieces(path: Path) -> "WordPieces":
    """Reads a tokenizer.json, once for all who ask for it in this process."""
    with _READING:
        return _read(path, path.stat().st_mtime_ns)


_READING = Lock()


@cache
def _read(path: Path, _mtime_ns: int) -> "WordPieces":
    content = path.read_bytes()
    declared = from_json(content)
    model = declared["model"]
    if model.get("type") == "Unigram" and model.get("unk_id") is not None and not model.get("byte_fallback"):
        return UnigramPieces(declared)
    return WordPieces(content)


class WordPieces:
    """A tokenizer, with neither truncation nor padding of its own. Safe to share among threads.

    Args:
        content: Of a tokenizer.json.
    """

    def __init__(self, content: bytes) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_str(content.decode())
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._lock = Lock()  # the library raises "Already borrowed" where two threads are at it at once
        marks = self._tokenizer.encode("a").special_tokens_mask
        self._last_marks = marks[::-1].index(0) if 0 in marks else 0
        self.size: int = self._tokenizer.get_vocab_size()  # pieces in the vocabulary
        unknown = from_json(content)["model"].get("unk_token")
        self._unknown = None if unknown is None else self._tokenizer.token_to_id(unknown)

    def encode(self, texts: Sequence[str], *, with_marks: bool = True) -> "list[Encoding]":
        """Returns the pieces of each text with their offsets; `with_marks` adds those that the model expects around
        it. What number a piece has is told by `numbers`.
        """
        with self._lock:
            return self._tokenizer.encode_batch(list(texts), add_special_tokens=with_marks)

    def numbers(self, texts: Sequence[str], longest: int | None = None) -> list[list[int]]:
        """Returns the numbers of each text's pieces and the model's marks; of a text with more than `longest`, the
        first ones, and the marks that end it.
        """
        numbered = [self._numbers(encoding) for encoding in self.encode(texts)]
        last = self._last_marks
        return [
            numbers
            if longest is None or len(numbers) <= longest
            else [*numbers[: longest - last], *numbers[len(numbers) - last :]]
            for numbers in numbered
        ]

    def has_unknown(self, encoding: "Encoding") -> bool:
        """Whether a piece of a text stands for anything that the vocabulary lacks."""
        return self._unknown in encoding.ids

    def _numbers(self, encoding: "Encoding") -> list[int]:
        return encoding.ids


class UnigramPieces(WordPieces):
    """A tokenizer with a unigram model, as those of a hundred languages have.

    The library keeps a hash table for each beginning of a piece: 285 MB for 250,000 pieces, and a second to fill them.
    How a text is cut depends on those pieces alone that occur in it; so it is cut by a model of these, and the
    vocabulary is a dictionary of 35 MB.

    Args:
        declared: The content of a tokenizer.json.
    """

    def __init__(self, declared: dict[str, Any]) -> None:
        model, added = declared["model"], declared.get("added_tokens") or ()
        pieces = model["vocab"]
        self._scores = array("d", [score for _, score in pieces])
        self._number_of = {piece: number for number, (piece, _) in enumerate(pieces)}
        self._longest = max(map(len, self._number_of))
        self._unknown_number: int = model["unk_id"]
        # what stands for what is unknown, and the score on which that of the unknown depends
        self._always = [pieces[model["unk_id"]][0], min(pieces, key=itemgetter(1))[0]]
        self._between = re.compile("|".join(re.escape(token["content"]) for token in added) or "(?!)")
        marks = [token["content"] for token in added if token["content"] in self._number_of]
        small = {**model, "vocab": self._among(marks), "unk_id": 0}
        super().__init__(to_json({**declared, "model": small}))
        self._added = {token["content"]: token["id"] for token in added}
        self.size = len(self._number_of | self._added)

    def encode(self, texts: Sequence[str], *, with_marks: bool = True) -> "list[Encoding]":
        from tokenizers.models import Unigram

        normalizer, cutter = self._tokenizer.normalizer, self._tokenizer.pre_tokenizer
        words: set[str] = set()
        for text in texts:
            for part in self._between.split(text):
                whole = part if normalizer is None else normalizer.normalize_str(part)
                words.update([whole] if cutter is None else (word for word, _ in cutter.pre_tokenize_str(whole)))
        model = Unigram(self._among(self._occurring(words)), 0)
        with self._lock:
            self._tokenizer.model = model
            return self._tokenizer.encode_batch(list(texts), add_special_tokens=with_marks)

    def has_unknown(self, encoding: "Encoding") -> bool:
        return any(piece not in self._number_of and piece not in self._added for piece in encoding.tokens)

    def _numbers(self, encoding: "Encoding") -> list[int]:
        added, known, unknown = self._added, self._number_of, self._unknown_number
        return [added[piece] if piece in added else known.get(piece, unknown) for piece in encoding.tokens]

    def _occurring(self, words: Iterable[str]) -> Iterable[str]:
        known, longest = self._number_of, self._longest
        return {
            piece
            for word in words
            for begin in range(len(word))
            for end in range(begin + 1, min(begin + longest, len(word)) + 1)
            if (piece := word[begin:end]) in known
        }

    def _among(self, pieces: Iterable[str]) -> list[tuple[str, float]]:
        """Pieces with their scores, behind those of `_always`."""
        return [(piece, self._scores[self._number_of[piece]]) for piece in dict.fromkeys([*self._always, *pieces])]
