"""Index files of Chroma hold rows and nothing else: no memory of the process that wrote them, which has read other
texts.
"""

from pathlib import Path
from typing import Any

import pytest

from almanac.core.settings import DataDir
from almanac.core.tables import CHUNKS, read_table
from almanac.index.chroma.unused import erase_unflushed, erase_unused
from almanac.index.upkeep.export_chroma import export_chroma
from almanac.index.verify.verifier import verify_version
from almanac.index.versions.store import version_dir
from almanac.schemas.errors import OperationalError
from tests.index import making
from tests.index.conftest import INFO, Base

_AT_LEAST = 100  # rows that an index has room for
_SEGMENT = 4
_TEXTS = {f"http://shop/{number}": f"the text of page {number}" for number in range(10)}


def _beyond(folder: Path, rows: int) -> list[bytes]:
    """What the files of each index below a folder hold beyond these rows."""
    found = []
    for name in ("data_level0.bin", "length.bin"):
        for path in folder.rglob(name):
            content = path.read_bytes()
            width, rest = divmod(len(content), max(rows, _AT_LEAST))
            assert rest == 0
            found.append(content[rows * width :])
    return found


def _verify(base: Base, version: str) -> list[Any]:
    return verify_version(version_dir(base.index_dir, version), None, base.vectors, INFO)


@pytest.mark.parametrize("rows", [2, 60, 99, 101])
def test_nothing_is_left_beyond_the_rows_of_a_version(base: Base, rows: int) -> None:
    base.build(count=rows)
    assert [part.strip(b"\0") for part in _beyond(base.index_dir, rows)] == [b"", b""]
    assert _verify(base, "v0001") == []


def test_nothing_is_left_in_the_files_of_a_single_row_also_after_a_verification(base: Base) -> None:
    base.build(count=1)
    for _ in range(2):
        assert [part.strip(b"\0") for part in _beyond(base.index_dir, 0)] == [b"", b""]
        assert _verify(base, "v0001") == []


def test_a_segment_and_an_export_hold_their_own_texts_alone(tmp_path: Path) -> None:
    data = DataDir(tmp_path / "data")
    manifest = making.make_segmented(data, "shop", "v0001", _TEXTS, limit=_SEGMENT)
    folders = [data.index("shop") / "segments" / use.segment for use in manifest.segments]
    assert len(folders) > 1
    for folder in folders:
        own = set(read_table(folder / CHUNKS, ["text"]).column("text").to_pylist())
        content = b"".join(path.read_bytes() for path in folder.rglob("*.bin"))
        assert [text for text in _TEXTS.values() if text.encode() in content and text not in own] == []
        assert not any(part.strip(b"\0") for part in _beyond(folder, len(own)))
    export_chroma(data.index("shop"), "v0001", tmp_path / "out")
    assert [part.strip(b"\0") for part in _beyond(tmp_path / "out", len(_TEXTS))] == [b"", b""]


def test_what_is_damaged_is_not_erased(base: Base) -> None:
    base.build(count=40)
    folder = version_dir(base.index_dir, "v0001")
    files = {path: path.read_bytes() for path in folder.rglob("*.bin")}
    next(folder.rglob("index_metadata.pickle")).unlink()
    erase_unflushed(folder)
    assert {path: path.read_bytes() for path in files} == files
    header = next(folder.rglob("header.bin"))
    header.write_bytes(files[header][:20] + b"\xff\xff" + files[header][22:])  # the number of rows
    with pytest.raises(OperationalError, match="not laid out"):
        erase_unused(folder)
    header.write_bytes(b"")
    with pytest.raises(OperationalError, match="not laid out"):
        erase_unused(folder)
