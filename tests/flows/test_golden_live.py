"""Golden questions of a base that is published already: they are asked at the next run, though nothing else is new, and
by `almanac eval`.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from almanac.cli.questions import evaluate
from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.flows.pipeline.run import Run
from almanac.index.versions.publish import publish
from almanac.index.versions.version_store import version_names
from almanac.query import open_index
from almanac.query.evaluation.evaluate import evaluate_golden
from almanac.schemas.errors import UsageError
from tests.flows.commands import carry_out
from tests.index.conftest import INFO, HashEmbedder
from tests.index.making import without_children

_NOTES = {
    "garden": "The garden closes at six in summer and at five in winter.",
    "dogs": "Dogs stay outside, on a lead.",
    "boats": "Boats leave the pier every hour.",
    "soup": "The kitchen serves soup from noon.",
}
_SOUP, _DOGS = (
    {"question": "soup from noon", "document_id": "soup.txt"},
    {"question": "dogs on a lead", "url": "dogs.txt"},
)
_PARKING = {"question": "the garden in winter", "document_id": "parking.txt"}  # which nobody has written


class Base:
    def __init__(self, folder: Path) -> None:
        self.folder, self.path, self.data = folder, folder / "park.yaml", DataDir(folder / "data")
        (folder / "notes").mkdir()
        for name, text in _NOTES.items():
            (folder / "notes" / f"{name}.txt").write_text(text)

    def declare(self, gate: dict[str, Any] | None = None, **retrieve: Any) -> None:
        source = {"name": "notes", "kind": "files", "glob": "notes/*.txt", "yields": "documents"}
        self.path.write_text(
            json.dumps(
                {
                    "name": "park",
                    "sources": [source],
                    "retrieve": {"mode": "lexical", "k": 2, **retrieve},
                    "gate": gate or {},
                }
            )
        )

    def ask(self, *questions: dict[str, Any]) -> None:
        (self.folder / "park.golden.jsonl").write_text("".join(f"{json.dumps(question)}\n" for question in questions))

    def run(self) -> dict[str, Any]:
        return carry_out(Run(load_declaration(str(self.path), ""), self.data))


pytestmark = pytest.mark.slow  # whole runs


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Base]:
    with without_children(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("almanac.flows.pipeline.run.describe_embedder", lambda _: INFO)
        patch.setattr("almanac.flows.pipeline.run.load_embedder", lambda *_, **__: HashEmbedder())
        yield Base(tmp_path)


_GOLDEN = {"golden": "park.golden.jsonl", "min_recall": 0.9}


def _outcome_and_recall(report: dict[str, Any]) -> tuple[Any, ...]:
    recall = report["recall"]
    return report["outcome"], report["exit_code"], report["version"], recall and (recall["recall"], recall["missed"])


def test_questions_that_are_new_are_asked_once_and_make_no_version(base: Base) -> None:
    base.declare()
    assert _outcome_and_recall(base.run()) == ("published", 0, "v0001", None)
    base.ask(_SOUP, _DOGS)
    base.declare(_GOLDEN)
    assert _outcome_and_recall(base.run()) == ("unchanged", 0, "v0001", (1.0, []))
    assert _outcome_and_recall(base.run()) == ("unchanged", 0, "v0001", None)  # it knows
    base.ask(_SOUP, {**_DOGS, "note": "a remark is no other question"})
    assert _outcome_and_recall(base.run()) == ("unchanged", 0, "v0001", None)
    # Another question, another limit, another way to search.
    base.ask(_SOUP)
    assert _outcome_and_recall(base.run()) == ("unchanged", 0, "v0001", (1.0, []))
    base.declare({**_GOLDEN, "min_recall": 1})
    assert _outcome_and_recall(base.run()) == ("unchanged", 0, "v0001", (1.0, []))
    base.declare({**_GOLDEN, "min_recall": 1}, k=1)
    assert _outcome_and_recall(base.run()) == ("unchanged", 0, "v0001", (1.0, []))
    assert version_names(base.data.index("park")) == ["v0001"]


def test_questions_that_fail_are_a_refusal_until_they_hold_and_the_live_version_serves_on(base: Base) -> None:
    base.ask(_SOUP)
    base.declare(_GOLDEN)
    assert _outcome_and_recall(base.run()) == ("published", 0, "v0001", (1.0, []))
    assert _outcome_and_recall(base.run()) == ("unchanged", 0, "v0001", None)  # it was asked when it was made
    base.ask(_SOUP, _PARKING)
    for _ in range(2):
        refused = base.run()
        assert _outcome_and_recall(refused) == ("gate_refused", 4, None, (0.5, [_PARKING["question"]]))
        assert [check["name"] for check in refused["gate"]["checks"] if not check["ok"]] == ["min_recall"]
        assert refused["remedies"][0].startswith(f"almanac eval {base.path} shows")
    assert version_names(base.data.index("park")) == ["v0001"]
    (base.folder / "notes" / "boats.txt").write_text("Boats leave the pier every two hours.")
    with_boats = base.run()  # a new version, which is refused for the same question, and can be asked by its name
    assert (with_boats["outcome"], with_boats["version"], with_boats["previous"]) == ("gate_refused", "v0002", "v0001")
    assert with_boats["remedies"][0].startswith(f"almanac eval {base.path} --version v0002 shows")
    (base.folder / "notes" / "boats.txt").write_text(_NOTES["boats"])
    base.declare({"golden": "park.golden.jsonl"})  # measured, and no limit
    assert _outcome_and_recall(base.run()) == ("unchanged", 0, "v0001", (0.5, [_PARKING["question"]]))
    # A note that answers makes a version, which is asked as ever.
    (base.folder / "notes" / "parking.txt").write_text("Park behind the garden, in winter too.")
    base.declare(_GOLDEN)
    assert _outcome_and_recall(base.run()) == ("published", 0, "v0003", (1.0, []))


def test_a_version_that_somebody_published_in_spite_of_its_answers_is_not_refused_every_night(base: Base) -> None:
    base.ask(_SOUP, _PARKING)
    base.declare(_GOLDEN)
    assert _outcome_and_recall(base.run())[:3] == ("gate_refused", 4, "v0001")
    publish(base.data.index("park"), "v0001", override="parking comes next week")
    assert _outcome_and_recall(base.run()) == ("unchanged", 0, "v0001", None)


def test_eval_shows_what_fails_and_what_is_found_instead(
    base: Base, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("almanac.query.published.PublishedIndex.embedder", HashEmbedder())
    monkeypatch.setattr("almanac.query.published.describe_embedder", lambda _: INFO)
    base.declare()
    base.run()
    with (
        open_index(base.path, data=base.data.root) as index,
        pytest.raises(UsageError, match="no golden questions are declared"),
    ):
        evaluate_golden(index)
    nobody = {"question": "the pier every hour"}  # it has an answer, and the file says that it has none
    base.ask(
        _SOUP,
        _PARKING,
        nobody,
        {
            "question": "and in winter?",
            "url": "garden.txt",
            "history": [{"role": "user", "content": "When does it close?"}],
        },
    )
    base.declare({"golden": "park.golden.jsonl"}, floor=0)
    with open_index(base.path, data=base.data.root) as index:
        result = evaluate_golden(index)
    assert (result.version, result.unit, result.queries, result.continued) == ("v0001", "question", 3, 1)
    assert result.metrics == {"recall@2": 0.5, "mrr@2": 0.5, "abstained": 0.0}
    parking, answered = result.failed
    assert (parking.question, parking.expected, parking.rank) == (
        _PARKING["question"],
        {"document_id": ["parking.txt"]},
        None,
    )
    assert (parking.found[0].url, parking.found[0].rank, parking.found[0].text) == ("garden.txt", 1, _NOTES["garden"])
    capsys.readouterr()
    evaluate(str(base.path), data=str(base.data.root))
    output = capsys.readouterr().out
    assert (
        f"✗ {_PARKING['question']}\n    expected document_id parking.txt: it is not among the first 100 hits\n    "
        "found 1: garden – garden.txt"
    ) in output
    assert "1 of 3 golden questions hold" in output and "quality.md" in output and "1 continue a conversation" in output
    with pytest.raises(UsageError, match="--queries and --qrels go together"):
        evaluate(str(base.path), queries=base.path)
    assert (answered.question, answered.expected, answered.found[0].url) == (nobody["question"], {}, "boats.txt")
