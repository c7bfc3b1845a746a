"""What a run is asked to look at is checked before anything starts: sources, URLs, environments."""

from pathlib import Path

import pytest

from almanac.cli.main import run

_DECLARED = """\
name: kb
sources:
  - {name: site, kind: site, start_urls: ["http://127.0.0.1:9/"]}
  - {name: notes, kind: files, glob: "*.md"}
"""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--source", "sites"], "no source 'sites' in kb"),
        (["--source", "site", "--source", "x"], "there are: site, notes"),
        (["--url", "http://127.0.0.1:9/a"], "needs exactly one --source"),
        (["--source", "site", "--source", "notes", "--url", "http://127.0.0.1:9/a"], "needs exactly one --source"),
        (["--source", "notes", "--url", "http://127.0.0.1:9/a"], "sites: site"),
        (["--source", "site", "--url", "not a url"], "not a url"),
        (["--env", "dev"], "kb.dev.yaml: no overlay 'dev' of kb.yaml"),
    ],
)
def test_what_cannot_be_looked_at_ends_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    (tmp_path / "kb.yaml").write_text(_DECLARED)
    assert run(["run", str(tmp_path / "kb.yaml"), "--data", str(tmp_path / "data"), *arguments]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_a_validated_declaration_says_which_overlay_it_was_read_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kb.yaml").write_text(_DECLARED)
    (tmp_path / "kb.dev.yaml").write_text("title: Dev\n")
    assert run(["validate", str(tmp_path / "kb.yaml"), "--env", "dev"]) == 0
    assert "with the overlay dev" in " ".join(capsys.readouterr().out.split())


def test_a_golden_file_is_checked_with_the_declaration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kb.yaml").write_text(_DECLARED + "gate: {golden: kb.golden.jsonl}\n")
    (tmp_path / "kb.golden.jsonl").write_text(
        '{"question": "a", "document_id": "b"}\n{"question": "c", "documentid": "d"}\n'
    )
    assert run(["validate", str(tmp_path / "kb.yaml")]) == 2
    assert f"{tmp_path / 'kb.golden.jsonl'}:2: unknown key documentid" in capsys.readouterr().err


def test_a_new_declaration_cannot_be_named_like_an_overlay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "kb.dev", "--folder", str(tmp_path)]) == 2
    assert "NAME.ENV.yaml is an overlay" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
