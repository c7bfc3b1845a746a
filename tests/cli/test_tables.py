"""Tables for people, in terminals of any width and in pipes."""

import pytest

from almanac.cli.output import print_table

_WHY = "2026-11-30 00:04, overriding the gate: the pages are gone on purpose"
_ROW = ("v0002", "refused", "2026-11-30 00:04", _WHY, 1200, 343, 5240, "abcdef12")
_COLUMNS = ("version", "state", "created", "last live", "records", "docs", "chunks", "digest")


@pytest.mark.parametrize("width", ["40", "80", "200"])
def test_no_word_of_a_table_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    print_table("products", _COLUMNS, [_ROW])
    printed = capsys.readouterr().out
    words = printed.split()
    assert [word for cell in (*_COLUMNS, *map(str, _ROW)) for word in cell.split() if word not in words] == []
    assert max(map(len, printed.splitlines())) <= max(int(width), 80)


def test_what_is_longer_than_a_column_is_there_to_the_last_letter(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    url = "http://x.test/" + "a" * 80 + "/end"
    print_table("search", ("", "title", "url"), [(1, "A long title of a page about kettles", url)])
    last = [line[-30:].split() for line in capsys.readouterr().out.splitlines()[3:]]
    assert "".join(parts[-1] for parts in last if parts).endswith("/end")


def test_a_title_is_on_one_line_however_narrow_its_table_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    title = "Gate refused, and nothing is live; a first version compares with nothing"
    print_table(title, ("a", "b"), [(1, 2)])
    title_line, *rows = capsys.readouterr().out.splitlines()
    assert title_line == title
    assert [row.replace("─", "").split() for row in rows] == [["a", "b"], [], ["1", "2"]]
