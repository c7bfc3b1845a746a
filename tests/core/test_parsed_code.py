"""What was parsed of our own code is kept by its bytes, and is never another than what parsing would say."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from almanac.core import parsed_code
from almanac.core.parsed_code import ParsedFiles, parse, parsed_files
from almanac.core.settings import installation

_CODE = b'''"""Prose."""
import os, numpy.linalg
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import torch
def f():
    from almanac.core import load
'''


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What is parsed, in this order."""
    found: list[bytes] = []

    def noting(content: bytes) -> parsed_code.Parsed:
        found.append(content)
        return parse(content)

    monkeypatch.setattr(parsed_code, "parse", noting)
    return found


def test_imports_are_those_that_may_run() -> None:
    imports = {("os", ""), ("numpy.linalg", ""), ("typing", "TYPE_CHECKING"), ("almanac.core", "load")}
    assert set(parse(_CODE).imports) == imports


def test_a_file_is_parsed_once_and_anew_where_a_byte_differs(tmp_path: Path, parsed: list[bytes]) -> None:
    for _ in range(2):
        files = ParsedFiles(tmp_path / "folder" / "code.json")
        assert files.of(_CODE) == parse(_CODE)
        files.keep()
    assert parsed == [_CODE]
    assert files.of(_CODE + b"f()\n") == parse(_CODE + b"f()\n") != parse(_CODE)


@pytest.mark.parametrize(
    "damage",
    [lambda kept: kept[:-9], lambda kept: kept.replace(b"numpy", b"scipy"), lambda _: b"", lambda _: b"\n[]"],
    ids=range(4),
)
def test_a_damaged_file_counts_for_nothing_and_is_made_anew(
    tmp_path: Path, parsed: list[bytes], damage: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "code.json"
    files = ParsedFiles(path)
    files.of(_CODE)
    files.keep()
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    files = ParsedFiles(path)
    assert files.of(_CODE) == parse(_CODE)
    files.keep()
    assert len(parsed) == 2
    assert path.read_bytes() == whole


def test_what_cannot_be_kept_is_parsed_each_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    for place in (None, tmp_path / "file" / "code.json"):
        files = ParsedFiles(place)
        assert files.of(_CODE) == parse(_CODE)
        files.keep()


def test_of_many_files_those_go_that_were_not_asked_for_longest(
    tmp_path: Path, parsed: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parsed_code, "_MOST", 3)
    files = ParsedFiles(tmp_path / "code.json")
    for number in (0, 1, 2, 0, 3):
        files.of(b"a = %d" % number)
    files.keep()
    del parsed[:]
    again = ParsedFiles(tmp_path / "code.json")
    for number in (0, 2, 3, 1):
        again.of(b"a = %d" % number)
    assert parsed == [b"a = 1"]


def test_threads_may_ask_and_keep_at_once(tmp_path: Path) -> None:
    files = ParsedFiles(tmp_path / "code.json")

    def ask(number: int) -> bool:
        content = b"import a%d" % (number % 7)
        same = files.of(content) == parse(content)
        files.keep()
        return same

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(ask, range(100)))
    assert len(ParsedFiles(tmp_path / "code.json")._known) == 7


def test_without_a_home_directory_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("no home")

    for name in ("ALMANAC_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    parsed_files.cache_clear()
    try:
        content = (installation() / "core" / "settings.py").read_bytes()
        assert parsed_files().of(content) == parse(content)
        parsed_files().keep()
    finally:
        parsed_files.cache_clear()
