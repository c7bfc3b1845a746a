"""A file that is mapped is not emptied under its reader: who writes it waits until the reader has let go."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from almanac.core import leases
from almanac.core.leases import Leases
from almanac.core.mapped import map_file

_PATIENCE_S = 30.0
needs_leases = pytest.mark.skipif(sys.platform != "linux", reason="leases are Linux's")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "vectors.npy"
    path.write_bytes(b"a" * 100_000)
    return path


def _until(leases: Leases) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not leases.are_wanted():
        assert time.monotonic() < end, "nobody wants it"
        time.sleep(0.01)


@needs_leases
def test_who_copies_over_a_mapped_file_waits_until_it_is_let_go(path: Path) -> None:
    mapped, held = map_file(path), Leases([path])
    assert not held.are_wanted()
    copied = path.with_name("copied")
    copied.write_bytes(b"b" * 50_000)
    with subprocess.Popen(["cp", str(copied), str(path)]) as copying:
        _until(held)
        assert copying.poll() is None
        assert (len(mapped), mapped[-1]) == (100_000, ord("a"))  # which would be a SIGBUS without
        with pytest.raises(BlockingIOError):
            Leases([path])
        held.close()
        assert copying.wait(_PATIENCE_S) == 0
    assert path.read_bytes() == b"b" * 50_000
    Leases([path]).close()


@needs_leases
def test_readers_and_what_replaces_a_file_wait_for_nobody(path: Path) -> None:
    held, other = Leases([path]), Leases([path])
    assert path.read_bytes()[:1] == b"a"
    path.with_name("new").write_bytes(b"b")
    path.with_name("new").replace(path)
    path.unlink()
    assert not held.are_wanted()
    assert not other.are_wanted()
    held.close()
    other.close()


def test_without_leases_a_change_is_noticed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system without them, and of files that belong to somebody else."""
    monkeypatch.setattr(leases, "_is_leased", lambda _: False)
    held = Leases([path])
    assert not held.are_wanted()
    os.truncate(path, 10)
    assert held.are_wanted()
    held.close()
    assert not held.are_wanted()


def test_a_file_that_cannot_be_opened_leaves_none_open(path: Path) -> None:
    before = len(list(Path("/dev/fd").iterdir()))
    with pytest.raises(FileNotFoundError):
        Leases([path, path.with_name("gone")])
    assert len(list(Path("/dev/fd").iterdir())) == before


@needs_leases
def test_a_writer_of_this_process_waits_as_well(path: Path) -> None:
    held = Leases([path])
    writing = threading.Thread(target=lambda: path.write_bytes(b"c"))
    writing.start()
    _until(held)
    assert path.stat().st_size == 100_000
    held.close()
    writing.join(_PATIENCE_S)
    assert path.read_bytes() == b"c"
