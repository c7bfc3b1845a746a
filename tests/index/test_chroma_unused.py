"""Index files of Chroma hold rows and nothing else: no memory of the process that wrote them, which has read other
texts.
"""

from pathlib import Path

import pytest

from almanac.index.build.builder import build_version
from almanac.index.verify.verifier import verify_version
from almanac.index.versions.version_store import version_dir
from tests.index.conftest import INFO, Base, make_chunks

_AT_LEAST = 100  # rows that an index has room for
_FILLED = (0xA5, 0x5A, 0)  # by glibc as memory is freed or given out; by the kernel


def _beyond(folder: Path, rows: int) -> list[set[int]]:
    """The bytes that the files of each index below a folder hold beyond these rows."""
    byte_sets = []
    for name in ("data_level0.bin", "length.bin"):
        for path in folder.rglob(name):
            content = path.read_bytes()
            width, rest = divmod(len(content), max(rows, _AT_LEAST))
            assert rest == 0
            byte_sets.append({*content[rows * width :]})
    return byte_sets


@pytest.mark.parametrize("rows", [1, 60])
def test_nothing_is_left_beyond_the_rows_of_a_version(base: Base, rows: int) -> None:
    chunks = make_chunks(rows)
    base.embed(chunks)
    build_version(base.job("v0001"))
    folder = version_dir(base.index_dir, "v0001")
    for _ in range(2):
        assert [sorted(held - {*_FILLED}) for held in _beyond(folder, rows)] == [[], []]
        assert verify_version(folder, None, base.vectors, INFO) == []
