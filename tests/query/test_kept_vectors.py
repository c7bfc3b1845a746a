"""Vectors of sentences are made once for a version, whoever asks, and made anew where their file is of no use."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from almanac.query.models.kept_vectors import KeptVectors
from tests.query.answering import CountingWords

_TEXTS = ["a refund takes days", "bring your passport", "luggage is free", "a refund takes days"]


class _Counted(CountingWords):
    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.asked += texts
        return super().embed_documents(texts)


def _open_vectors(folder: Path) -> tuple[KeptVectors, _Counted]:
    embedder = _Counted()
    return KeptVectors(embedder, folder), embedder


def test_what_one_process_made_another_one_finds_alike(tmp_path: Path) -> None:
    first, made = _open_vectors(tmp_path)
    vectors = first.embed_documents(_TEXTS)
    second, other_embedder = _open_vectors(tmp_path)
    assert np.array_equal(second.embed_documents(_TEXTS[::-1]), vectors[::-1])
    assert (made.asked, other_embedder.asked) == (_TEXTS[:3], [])
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert ((vectors * CountingWords().embed_documents(_TEXTS)).sum(axis=1) > 0.999).all()
    second.embed_documents([*_TEXTS, "a visa"])
    assert other_embedder.asked == ["a visa"]
    assert first.embed_documents([]).shape == (0, made.info.dimension)


def test_a_damaged_file_is_made_anew(tmp_path: Path) -> None:
    first, _ = _open_vectors(tmp_path)
    vectors = first.embed_documents(_TEXTS)
    (file,) = tmp_path.iterdir()
    assert file.name.startswith("."), "what is hidden is neither verified nor pushed"
    file.write_bytes(b"no database at all" * 300)
    second, made = _open_vectors(tmp_path)
    assert np.array_equal(second.embed_documents(_TEXTS), vectors)
    assert made.asked == _TEXTS[:3]
    third, other_embedder = _open_vectors(tmp_path)
    third.embed_documents(_TEXTS)
    assert other_embedder.asked == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_in_a_folder_that_is_only_read_vectors_are_made_each_time(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    for _ in range(2):
        kept_vectors, made = _open_vectors(tmp_path)
        assert len(kept_vectors.embed_documents(_TEXTS)) == 4
        assert made.asked == _TEXTS[:3]


def test_without_the_folder_vectors_are_made_each_time(tmp_path: Path) -> None:
    kept_vectors, made = _open_vectors(tmp_path / "gone")
    assert len(kept_vectors.embed_documents(_TEXTS)) == len(kept_vectors.embed_documents(_TEXTS)) == 4
    assert len(made.asked) == 6
