"""Every word that a summary counts in is explained, and each stands for one thing."""

import json
from typing import get_args

import pytest

from almanac.cli.explain import explain, printed_words
from almanac.cli.main import run
from almanac.schemas.crawl_outcome import PageCounts
from almanac.schemas.declaration.gate_section import Gate
from almanac.schemas.reports import ItemCounts, Outcome, VersionRow
from almanac.schemas.results import Answer


def _run_explain(capsys: pytest.CaptureFixture[str], *arguments: str, ends_with: int = 0) -> str:
    assert run(["explain", *arguments]) == ends_with
    return "".join(capsys.readouterr())


def test_what_reports_count_is_explained() -> None:
    known = {name for word in printed_words() for name in word.answers_to()}
    states = get_args(VersionRow.model_fields["state"].annotation)
    assert {*PageCounts.model_fields, *ItemCounts.model_fields, *states} - {"in_"} <= known
    ends = {*get_args(Outcome), *get_args(Answer.model_fields["pathway"].annotation)}
    checks = {key for key in Gate.model_fields if key.startswith(("max_", "min_"))}
    assert {name.replace("_", " ") for name in ends | checks} <= known


def test_no_name_stands_for_two_words() -> None:
    names = [name for word in printed_words() for name in word.answers_to()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("word", printed_words(), ids=lambda word: word.name)
def test_a_word_takes_a_few_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, word: object
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = _run_explain(capsys, *str(getattr(word, "name", "")).split()).splitlines()
    assert 4 <= len(lines) <= 8
    assert max(map(len, lines)) <= 80


def test_words_are_found_by_their_names_in_json_and_in_the_plural(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run_explain(capsys, "quarantined").startswith("rejected (quarantined, rejects in JSON)\n")
    assert _run_explain(capsys, "Segments") == _run_explain(capsys, "segment")
    explain(["gone"], as_json=True)
    assert json.loads(capsys.readouterr().out)["name"] == "gone"
    explain(as_json=True)
    assert {word["name"] for word in json.loads(capsys.readouterr().out)["words"]} >= {"gone", "kept", "gate"}


def test_a_word_that_is_none_says_which_is_close(capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean vanished" in _run_explain(capsys, "vanishd", ends_with=2)
    assert "promote" in _run_explain(capsys)
