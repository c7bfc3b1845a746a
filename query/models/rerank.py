"""A second look at the best candidates: a model that reads question and text together.

A cross-encoder reads so many tokens of a pair and no more: of a longer text its end plays no part in the score, and how many there were is told.
"""

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import DeclarationError, OperationalError

_REQUEST = 32  # pairs in one forward pass


class Reranker(Protocol):
    """Safe to share among threads."""

    def scores(self, question: str, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """How well each text answers the question, shape (n,), in their order, on a scale of the model's own; higher is better."""
        ...

    def count_cut(self, question: str, texts: Sequence[str]) -> int:
        """How many of the texts are read beside the question only in part."""
        ...


def load_reranker(declaration: Declaration) -> Reranker | None:
    """The declared reranker, ready to use; None where none is. Raises DeclarationError where its folder holds no cross-encoder."""
    folder = find_reranker(declaration)
    return None if folder is None else CrossEncoderReranker(folder)


def find_reranker(declaration: Declaration) -> Path | None:
    """The declared cross-encoder's folder, which is not loaded; None where none is declared. Raises DeclarationError where it holds none.

    sentence-transformers would make one of any model, with weights by chance: scores that look like scores.
    """
    declared = declaration.retrieve.rerank
    if declared is None:
        return None
    folder = (declaration.path.parent / Path(declared.model).expanduser()).resolve()
    if not (folder / "config.json").is_file():
        raise _broken(folder, "is no folder of a model: it has no config.json")
    if not any(folder.rglob("*.safetensors")) and not any(folder.rglob("pytorch_model*.bin")):
        raise _broken(folder, "has no weights")
    kind = _read(folder, "config_sentence_transformers.json").get("model_type")
    architectures = [str(one) for one in _read(folder, "config.json").get("architectures") or ()]
    if kind != "CrossEncoder" and (kind is not None or not any(one.endswith("ForSequenceClassification") for one in architectures)):
        raise _broken(folder, f"is no cross-encoder, but {kind or ', '.join(architectures) or 'a model that does not say what it is'}")
    return folder


class CrossEncoderReranker:
    """A cross-encoder of sentence-transformers in a folder on this machine, on a GPU where there is one; nothing is downloaded."""

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
        self._lock = threading.Lock()  # fast tokenizers keep padding as state: two threads at once raise "Already borrowed"

    def scores(self, question: str, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        with self._lock:
            found = self._model.predict([(question, text) for text in texts], batch_size=_REQUEST, show_progress_bar=False)
        scores = np.asarray(found, dtype=np.float32)
        if scores.shape != (len(texts),) or not np.isfinite(scores).all():
            raise OperationalError(
                f"retrieve.rerank.model: {len(texts)} texts were given scores of the shape {scores.shape}, or some that are no numbers",
                where=str(self._folder),
                hint="save the model again, or leave retrieve.rerank out",
            )
        return scores

    def count_cut(self, question: str, texts: Sequence[str]) -> int:
        limit = self._model.max_seq_length
        if not limit or not texts:
            return 0
        with self._lock:
            told = self._model.tokenizer([question] * len(texts), list(texts), truncation=False, padding=False, verbose=False)
        return sum(len(ids) > limit for ids in told["input_ids"])


def _read(folder: Path, name: str) -> dict[str, Any]:
    path = folder / name
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}
    except (OSError, ValueError, TypeError) as error:
        raise _broken(folder, f"cannot be read: {name}: {error}") from error


def _broken(folder: Path, finding: str) -> DeclarationError:
    return DeclarationError(f"retrieve.rerank.model: '{folder.name}' {finding}", where=str(folder), hint="save one with CrossEncoder.save()")
