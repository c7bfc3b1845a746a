"""An embedder of a few lines that says what it was given."""

from pathlib import Path
from typing import Any

from almanac.schemas.hashing import sha256
from tests.index.conftest import HashEmbedder


class Noting(HashEmbedder):
    """Notes each text that it embeds in a file, which outlives it: a line with its hash. Questions are not noted."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def embed_documents(self, texts: Any) -> Any:
        with self._path.open("a") as file:
            file.writelines(f"{sha256(text)}\n" for text in texts)
        return super().embed_documents(texts)

    def embed_queries(self, texts: Any) -> Any:
        return super().embed_documents(texts)


def noted(path: Path) -> list[str]:
    """The hashes of all texts that were embedded so far, each as often as it was."""
    return path.read_text().split() if path.is_file() else []
