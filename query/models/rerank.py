"""Rerankers: models that score a question and a text together, to reorder the best candidates.

A cross-encoder reads a limited number of tokens per pair. The end of a longer text does not influence its score; the
trace counts such texts.
"""

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from almanac.core.extras import require_extra
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import DeclarationError, OperationalError

_REQUEST = 32  # pairs per forward pass


class Reranker(Protocol):
    """A model that scores texts against a question. Safe to share among threads."""

    def scores(self, question: str, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Scores of the texts, float32 (n,), in their order, on the model's own scale; higher is better. Raises
        OperationalError for unusable scores.
        """
        ...

    def count_cut(self, question: str, texts: Sequence[str]) -> int:
        """Number of texts that are too long to be read completely together with the question."""
        ...


def load_reranker(declaration: Declaration) -> Reranker | None:
    """Loads the declared reranker; None where none is declared. Raises DeclarationError where its folder contains no
    cross-encoder or cannot be loaded.
    """
    folder = find_reranker(declaration)
    return None if folder is None else CrossEncoderReranker(folder)


def find_reranker(declaration: Declaration) -> Path | None:
    """Folder of the declared cross-encoder, checked but not loaded; None where none is declared. Raises
    DeclarationError where it contains none: sentence-transformers loads any model as a cross-encoder, with randomly
    initialized weights where it has none, whose scores look plausible.
    """
    declared = declaration.retrieve.rerank
    if declared is None:
        return None
    require_extra("models", "retrieve.rerank", str(declaration.path), "leave it out")
    folder = (declaration.path.parent / Path(declared.model).expanduser()).resolve()
    if not (folder / "config.json").is_file():
        raise _broken(folder, "is no folder of a model: it has no config.json")
    if not any(folder.rglob("*.safetensors")) and not any(folder.rglob("pytorch_model*.bin")):
        raise _broken(folder, "has no weights")
    kind = _read(folder, "config_sentence_transformers.json").get("model_type")
    made = ", ".join(map(str, _read(folder, "config.json").get("architectures") or ()))
    if kind != "CrossEncoder" and (kind or "ForSequenceClassification" not in made):
        raise _broken(folder, f"is no cross-encoder, but {kind or made or 'a model that does not say what it is'}")
    return folder


class CrossEncoderReranker:
    """A sentence-transformers cross-encoder in a local folder, on a GPU where there is one. Nothing is downloaded."""

    def __init__(self, folder: Path) -> None:
        from almanac.core.settings import quiet_engines

        quiet_engines()
        import torch
        from sentence_transformers import CrossEncoder
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        self._folder = folder
        device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            self._model: Any = CrossEncoder(str(folder), device=device, local_files_only=True, trust_remote_code=False)
        except Exception as error:  # transformers raises many unrelated types for a folder that it cannot read
            raise _broken(folder, f"cannot be loaded: {error}") from error
        if self._model.num_labels != 1:
            raise _broken(folder, f"gives a pair {self._model.num_labels} scores instead of one")
        # fast tokenizers keep padding as state: two threads at once raise "Already borrowed"
        self._lock = threading.Lock()

    def scores(self, question: str, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        with self._lock:
            predictions = self._model.predict(
                [(question, text) for text in texts], batch_size=_REQUEST, show_progress_bar=False
            )
        scores = np.asarray(predictions, dtype=np.float32)
        if scores.shape != (len(texts),) or not np.isfinite(scores).all():
            raise OperationalError(
                f"retrieve.rerank.model: {len(texts)} texts were given scores of the shape {scores.shape}, or "
                "some that are no numbers",
                where=str(self._folder),
                hint="save the model again, or leave retrieve.rerank out",
            )
        return scores

    def count_cut(self, question: str, texts: Sequence[str]) -> int:
        limit = self._model.max_seq_length
        if not limit or not texts:
            return 0
        with self._lock:
            tokenized = self._model.tokenizer(
                [question] * len(texts), list(texts), truncation=False, padding=False, verbose=False
            )
        return sum(len(ids) > limit for ids in tokenized["input_ids"])


def _read(folder: Path, name: str) -> dict[str, Any]:
    path = folder / name
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}
    except (OSError, ValueError, TypeError) as error:
        raise _broken(folder, f"cannot be read: {name}: {error}") from error


def _broken(folder: Path, finding: str) -> DeclarationError:
    return DeclarationError(
        f"retrieve.rerank.model: '{folder.name}' {finding}", where=str(folder), hint="save one with CrossEncoder.save()"
    )
