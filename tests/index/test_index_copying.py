"""Copies are whole wherever they are made."""

import errno
import os
from pathlib import Path

import pytest

from almanac.index.chroma.copy import copy_file


def _fails(*_: object) -> int:
    raise OSError(errno.EOPNOTSUPP, "not on this file system")


@pytest.mark.parametrize(
    "within_the_kernel", [os.copy_file_range, lambda *_: 0, _fails], ids=["here", "ends early", "not there"]
)
def test_a_copy_is_whole_whatever_the_kernel_can_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, within_the_kernel: object
) -> None:
    monkeypatch.setattr(os, "copy_file_range", within_the_kernel)
    content = os.urandom(100_000)
    (tmp_path / "a").write_bytes(content)
    copy_file(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == content


def test_another_error_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "copy_file_range", full)
    (tmp_path / "a").write_bytes(b"x")
    with pytest.raises(OSError, match="no space"):
        copy_file(tmp_path / "a", tmp_path / "b")
