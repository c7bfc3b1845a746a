"""A second look at the best candidates: a model that reads question and text together."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from schemas.declaration import Declaration
from schemas.errors import DeclarationError


class Reranker(Protocol):
    def scores(self, question: str, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """How well each text answers the question, shape (n,), on a scale of the model's own; higher is better."""
        ...


def load_reranker(declaration: Declaration) -> Reranker | None:
    """The declared reranker; None where none is. Raises DeclarationError where its folder holds no cross-encoder."""
    declared = declaration.retrieve.rerank
    if declared is None:
        return None
    return CrossEncoderReranker(str(declaration.path.parent / declared.model), declared.model)


class CrossEncoderReranker:
    """A cross-encoder of sentence-transformers in a folder on this machine; nothing is downloaded."""

    def __init__(self, folder: str, name: str) -> None:
        from schemas.settings import quiet_engines

        quiet_engines()
        from sentence_transformers import CrossEncoder

        try:
            self._model: Any = CrossEncoder(folder, local_files_only=True, trust_remote_code=False)
        except Exception as error:  # transformers raises many unrelated types for a folder that it cannot read
            raise DeclarationError(
                f"retrieve.rerank.model: '{name}' cannot be loaded: {error}", where=folder, hint="save it with CrossEncoder.save()"
            ) from error

    def scores(self, question: str, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return np.asarray(self._model.predict([(question, text) for text in texts], show_progress_bar=False), dtype=np.float32)
