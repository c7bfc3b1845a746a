"""Several knowledge bases asked at once, each by an embedder of its own, and the one that is asked where none is
named.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from almanac.cli.main import run
from almanac.core.load import load_declaration
from almanac.core.settings import DataDir, Project
from almanac.flows.pipeline.run import Run
from almanac.query import SeveralIndexes, open_index, open_indexes
from almanac.query.several import merge
from almanac.schemas.errors import NotFound, NothingPublished, UsageError
from almanac.schemas.results import Hit
from tests.flows.commands import carry_out
from tests.index.making import without_children
from tests.index.small_models import save_embedder
from tests.query.answering import make_hit

pytestmark = pytest.mark.slow
_TEXTS = {
    "garden": {
        "hours": "The garden closes at six in summer and at five in winter.",
        "dogs": "Dogs stay outside the garden, on a lead.",
        "boats": "Boats leave the pier every hour until the garden closes.",
    },
    "library": {
        "hours": "The library closes at nine in the evening.",
        "loans": "A book may be borrowed for three weeks. [2]",
        "boats": "Boats leave the pier every hour until the garden closes.",
    },
    "attic": {"chest": "The chest in the attic holds old maps of the garden."},
}
_WINTER = "When does the garden close in winter?"
_LOANS = "For how many weeks may a book be borrowed?"


@dataclass(frozen=True)
class _Bases:
    """`garden` and `library` are embedded by the bundled model, `attic` by one that nothing calibrates; `cellar` is
    declared and not published.
    """

    project: Path
    data: Path

    def open(self, *names: str) -> SeveralIndexes:
        return open_indexes(names, data=self.data, project=self.project)


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Bases]:
    folder = tmp_path_factory.mktemp("several")
    (folder / "knowledge").mkdir()
    model = str(save_embedder(folder / "model"))
    _declare(folder, "garden", title="The garden", retrieve={"k": 3, "floor": 0.3})
    _declare(folder, "library", title="The library", retrieve={"k": 2})
    _declare(folder, "attic", title="The attic", embed={"model": model})
    _declare(folder, "cellar")
    bases = _Bases(folder, folder / "data")
    for name in ("garden", "library", "attic"):
        _publish(bases, name)
    yield bases


def _declare(folder: Path, name: str, **parts: Any) -> None:
    (folder / name).mkdir()
    for file, text in _TEXTS.get(name, {}).items():
        (folder / name / f"{file}.txt").write_text(text)
    source = {"name": "notes", "kind": "files", "glob": f"../{name}/*.txt", "yields": "documents"}
    # which is YAML
    (folder / "knowledge" / f"{name}.yaml").write_text(json.dumps({"name": name, "sources": [source], **parts}))


def _publish(bases: _Bases, name: str, data: Path | None = None) -> None:
    with without_children():
        report = carry_out(Run(load_declaration(name, project=Project(bases.project)), DataDir(data or bases.data)))
    assert report["outcome"] == "published", report


def _hits(**relevances: list[float | None]) -> dict[str, list[Hit]]:
    return {
        kb: [
            make_hit(rank, f"{kb} {rank}").model_copy(update={"chunk_id": f"{kb}{rank}", "relevance": relevance})
            for rank, relevance in enumerate(of_one, 1)
        ]
        for kb, of_one in relevances.items()
    }


@pytest.mark.parametrize(
    ("relevances", "k", "merged"),
    [
        ({"a": [0.9, 0.2], "b": [0.5, 0.4]}, 3, ["a1", "b1", "b2"]),
        ({"a": [0.5], "b": [0.5]}, 2, ["a1", "b1"]),
        ({"a": [0.1, 0.8]}, 2, ["a2", "a1"]),
        ({"a": [None, None], "b": [0.9, 0.3, 0.2]}, 5, ["b1", "a1", "b2", "a2", "b3"]),
        ({"a": [None, None], "b": [None]}, 3, ["a1", "b1", "a2"]),
        ({"a": [], "b": [None, 0.1]}, 3, ["b2", "b1"]),
        ({"a": [], "b": []}, 3, []),
    ],
)
def test_hits_are_merged_by_relevance_and_else_by_their_rank(
    relevances: dict[str, list[float | None]], k: int, merged: list[str]
) -> None:
    hits = merge(_hits(**relevances), k)
    assert [hit.chunk_id for hit in hits] == merged
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    assert all(hit.chunk_id.startswith(hit.kb or "?") for hit in hits)


def test_a_search_gives_the_hits_of_each_base_that_it_would_give_alone(bases: _Bases) -> None:
    with bases.open("garden", "library", "attic") as indexes:
        search_result = indexes.search(_LOANS, k=5, explain=True)
        alone = {
            (index.declaration.name, hit.chunk_id): hit.relevance
            for index in indexes.indexes
            for hit in index.search(_LOANS, k=5).hits
        }
        assert len(indexes.search(_LOANS).hits) == 3, "as many as the first base declares"
    assert (search_result.kb, search_result.version, search_result.versions) == (
        "library",
        "v0001",
        {"garden": "v0001", "library": "v0001", "attic": "v0001"},
    )
    assert search_result.hits[0].text == _TEXTS["library"]["loans"]
    assert all(alone[hit.kb or "", hit.chunk_id] == hit.relevance for hit in search_result.hits)
    known = [hit.relevance for hit in search_result.hits if hit.relevance is not None]
    assert known == sorted(known, reverse=True)
    assert [hit.rank for hit in search_result.hits if hit.kb == "attic"] == [2], (
        "its first hit has no relevance and stands behind the best one that has"
    )
    assert {step["kb"] for step in search_result.explain or []} == {"garden", "library", "attic"}


def test_an_answer_comes_from_the_base_that_has_it_whatever_the_order(bases: _Bases) -> None:
    for names in (("garden", "attic", "library"), ("attic", "library", "garden")):
        with bases.open(*names) as indexes:
            loans, winter = indexes.ask(_LOANS), indexes.ask(_WINTER)
            *pieces, last = indexes.stream(_LOANS)
        assert (loans.kb, loans.reply) == ("library", "A book may be borrowed for three weeks. [1]")
        assert [(source.kb, source.quote) for source in loans.sources] == [
            ("library", "A book may be borrowed for three weeks. [2]")
        ]
        assert (winter.kb, winter.citation, [source.kb for source in winter.sources]) == (
            "garden",
            "Source: The garden",
            ["garden"],
        )
        assert winter.versions == dict.fromkeys(names, "v0001")
        assert last == loans
        assert "".join(piece for piece in pieces if isinstance(piece, str)) == loans.reply


def test_what_no_base_has_is_refused_in_the_name_of_all(bases: _Bases) -> None:
    question = "Wer gewann das Endspiel der Fußballweltmeisterschaft?"
    with bases.open("garden", "library") as indexes:
        answer = indexes.ask(question)
    assert (answer.answered, answer.reply, answer.sources, answer.citation) == (
        False,
        "Darauf habe ich in The garden, The library keine Antwort gefunden.",
        [],
        None,
    )
    assert answer.versions == {"garden": "v0001", "library": "v0001"}
    assert answer.related and {passage.kb for passage in answer.related} == {"garden", "library"}, "leads of both"


def test_related_passages_say_their_base(bases: _Bases) -> None:
    with bases.open("garden", "attic", "library") as indexes:
        answer = indexes.ask("Wer gewann das Endspiel der Fußballweltmeisterschaft?")
    assert len({passage.kb for passage in answer.related}) > 1
    assert all(passage.text in _TEXTS[passage.kb or ""].values() for passage in answer.related)


def test_languages_of_the_bases_do_not_show_in_metadata(bases: _Bases) -> None:
    text = json.loads((bases.project / "knowledge" / "library.yaml").read_text())
    (bases.project / "knowledge" / "library.yaml").write_text(json.dumps({**text, "language": "de"}))
    try:
        with bases.open("garden", "library") as indexes:
            answer = indexes.ask(_LOANS)
            assert "language" not in indexes.search(_LOANS).hits[0].metadata
    finally:
        (bases.project / "knowledge" / "library.yaml").write_text(json.dumps(text))
    assert (answer.answered, "language" in answer.sources[0].metadata) == (True, False)


def test_equal_chunks_of_two_bases_count_once(bases: _Bases) -> None:
    with bases.open("garden", "library", "garden") as indexes:
        hits = indexes.search("boats leave the pier", k=10).hits
    ids = [hit.chunk_id for hit in hits]
    assert len(ids) == len(set(ids)) <= 6


@pytest.mark.parametrize(
    ("names", "arguments", "error", "says"),
    [
        (("garden", "nonesuch"), {}, NotFound, "no knowledge base 'nonesuch'"),
        (("garden", "cellar"), {}, NothingPublished, "cellar"),
        ((), {}, UsageError, "no knowledge base is named"),
        (("garden", "library"), {"version": "v0001"}, UsageError, "belongs to one"),
        (("garden", "library"), {"workspace": "red"}, UsageError, "garden: no workspaces are declared"),
        (("garden", "library"), {"where": {"colour": 1}}, UsageError, "garden: no field 'colour'"),
        (("garden", "library"), {"mode": "kb-llm"}, UsageError, "model"),
    ],
)
def test_what_one_base_would_refuse_is_refused(
    bases: _Bases, names: tuple[str, ...], arguments: dict[str, Any], error: type[UsageError], says: str
) -> None:
    with pytest.raises(error) as refused, bases.open(*names) as indexes:
        indexes.ask(_WINTER, **arguments)
    assert says in str(refused.value)


def test_without_a_name_the_only_published_base_is_asked_or_the_default(
    bases: _Bases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("INDEX_NAME", raising=False)
    with pytest.raises(NothingPublished, match="no knowledge base is published yet"):
        open_index(data=tmp_path, project=bases.project)
    with pytest.raises(UsageError) as refused:
        open_index(data=bases.data, project=bases.project)
    assert (refused.value.message, refused.value.hint) == (
        "3 knowledge bases are published, and the request names none",
        "one of attic, garden, library",
    )
    _publish(bases, "garden", tmp_path)
    assert open_index(data=tmp_path, project=bases.project).declaration.name == "garden"
    monkeypatch.setenv("INDEX_NAME", "library")
    assert open_index(data=bases.data, project=bases.project).declaration.name == "library"
    with pytest.raises(UsageError, match="it is the default"):
        open_index(data=tmp_path, project=bases.project)


def test_commands_take_several_bases_or_none(
    bases: _Bases, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("INDEX_NAME", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("ALMANAC_DATA", str(bases.data))
    monkeypatch.setenv("ALMANAC_PROJECT", str(bases.project))

    def read_output(*arguments: str, ends_with: int = 0) -> str:
        assert run(list(arguments)) == ends_with
        return "".join(capsys.readouterr())

    answer = read_output("ask", "garden,library", _LOANS)
    assert answer.startswith("A book may be borrowed for three weeks. [1]\n")
    assert "(library, relevance" in answer
    assert "garden v0001, library v0001, kb-only, Source: The library" in answer
    hits = read_output("search", "garden, library", _LOANS)
    assert "garden v0001, library v0001: For how many" in hits
    assert ", library\n" in hits  # of a hit, behind its scores
    refused = read_output("ask", _LOANS, ends_with=2)
    assert "3 knowledge bases are published, and the request names none" in refused
    assert "one of attic, garden, library" in refused
    assert "the question is missing" in read_output("ask", "garden", ends_with=2)
    assert "the query is missing" in read_output("search", ends_with=2)
    assert "belongs to one" in read_output("ask", "garden,library", _LOANS, "--version", "v0001", ends_with=2)
    assert "no knowledge base 'nonesuch'" in read_output("ask", "garden,nonesuch", _LOANS, ends_with=2)
    monkeypatch.setenv("INDEX_NAME", "library")
    assert read_output("ask", _LOANS).startswith("A book may be borrowed")
    assert "library v0001: borrowed" in read_output("search", "borrowed")
