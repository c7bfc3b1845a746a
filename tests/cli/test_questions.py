"""What the terminal shows of an answer: sources, closest passages, and what was searched for."""

from typing import Any

import pytest

from almanac.cli.questions import ask, search
from almanac.query import PublishedIndex
from almanac.schemas.results import Answer, Related, SearchResult


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Any:
    """Lets a knowledge base without versions give this answer, or this result of a search."""
    declaration = tmp_path / "kb.yaml"
    declaration.write_text("name: kb\nsources: [{name: s, kind: files, glob: '*.md'}]\n")
    monkeypatch.setattr("almanac.query.published.resolve_version", lambda *_: "v0001")

    def gives(outcome: Answer | SearchResult) -> str:
        monkeypatch.setattr(
            PublishedIndex, "ask" if isinstance(outcome, Answer) else "search", lambda *_, **__: outcome
        )
        return str(declaration)

    return gives


def test_a_refusal_shows_the_closest_passages_as_such(answering: Any, capsys: pytest.CaptureFixture[str]) -> None:
    related = [
        Related(
            chunk_id="a",
            document_id="d",
            url="https://a.example/",
            title="Boats",
            text="Boats leave\nevery hour. " * 20,
            relevance=0.31,
        ),
        Related(
            chunk_id="b",
            document_id="d",
            url="b.md",
            title="Tours",
            text="x",
            passage="Code: TO1\nPrice: 5",
            kb="voyago",
        ),
        Related(chunk_id="c", document_id="d", url="c.md", title="Cats", text="Cats sleep."),
    ]
    fields: dict[str, Any] = {
        "kb": "kb",
        "version": "v0001",
        "answered": False,
        "reply": "I don't know.",
        "pathway": "kb-only",
        "citation": None,
        "sources": [],
    }
    ask(answering(Answer(**fields, related=related, searched="boats to bangkok")), "Boats to Bangok?")
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "I don't know.",
        "  Closest passages, which do not answer it:",
        "  · Boats – https://a.example/ (relevance 31%)",
    ]
    assert lines[3].startswith("      Boats leave every hour. Boats")
    assert len(lines[3]) < 180
    assert lines[4:9] == [
        "  · Tours – b.md (voyago)",
        "      Code: TO1",
        "      Price: 5",
        "  · Cats – c.md",
        "      Cats sleep.",
    ]
    assert lines[9:] == ["  kb v0001, kb-only", "  Searched for: boats to bangkok"]


def test_a_search_tells_what_was_searched_for(answering: Any, capsys: pytest.CaptureFixture[str]) -> None:
    search(answering(SearchResult(kb="kb", version="v0001", query="bots", hits=[], searched="boats")), "bots")
    assert "  Searched for: boats\n" in capsys.readouterr().out
