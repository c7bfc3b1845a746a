"""A plan with another embedder than the live version's says what becomes of the golden questions, on a sample."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.flows.pipeline.plan import plan
from almanac.flows.pipeline.run import Run
from almanac.schemas.declaration import Declaration
from almanac.schemas.reports import PlanResult
from tests.conftest import Almanac
from tests.flows.commands import carry_out
from tests.index.making import without_children
from tests.loopback.faults import POISON
from tests.loopback.mistral import LoopbackMistral, address_of

pytestmark = pytest.mark.slow  # whole runs

_NOTES = {
    "garden": "The park shuts its gates at six in the evening.",
    "dogs": "Animals stay outside, on a lead.",
    "boats": "Boats leave the pier every hour.",
    "soup": "The kitchen serves soup from noon.",
    **{f"room-{number}": f"Room {number} has {number} chairs and one lamp." for number in range(40)},
}
_ALIKE = {"question": "soup from noon", "document_id": "soup.txt"}
# of which MiniLM knows that it means the same, and words alone do not
_MEANT = {"question": "May I bring my puppy?", "answer_contains": "outside, on a lead"}
_NOT_THERE = {"question": "Who owns the moon?"}


@pytest.fixture
def server() -> Iterator[LoopbackMistral]:
    with LoopbackMistral(dimension=64) as serving:
        yield serving


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("MISTRAL_API_KEY", "sk-loopback-1234567890")
    (tmp_path / "notes").mkdir()
    for name, text in _NOTES.items():
        (tmp_path / "notes" / f"{name}.txt").write_text(text)
    questions = (_ALIKE, _MEANT, _NOT_THERE)
    (tmp_path / "park.golden.jsonl").write_text("".join(f"{json.dumps(question)}\n" for question in questions))
    with without_children():
        yield tmp_path


def declare(
    base: Path, gate: dict[str, Any] | None = None, retrieve: dict[str, Any] | None = None, **embed: Any
) -> Declaration:
    declared = {
        "name": "park",
        "sources": [{"name": "notes", "kind": "files", "glob": "notes/*.txt", "yields": "documents"}],
        "embed": embed,
        "retrieve": {"mode": "dense", "k": 1, **(retrieve or {})},
        "gate": {"golden": "park.golden.jsonl", **(gate or {})},
    }
    (base / "park.yaml").write_text(json.dumps(declared))
    return load_declaration(str(base / "park.yaml"), "")


def api(server: LoopbackMistral) -> dict[str, Any]:
    return {"provider": "openai", "model": "words", "dimension": 64, **address_of(server, "openai")}


def files(base: Path) -> list[tuple[Path, int]]:
    return sorted((path, path.stat().st_mtime_ns) for path in (base / "data").rglob("*"))


def refused(result: PlanResult) -> list[str]:
    return [check["name"] for check in result.gate["checks"] if not check["ok"]]


def test_recall_before_and_after_is_measured_and_the_gate_judges(base: Path, server: LoopbackMistral) -> None:
    data = DataDir(base / "data")
    carry_out(Run(declare(base), data))
    assert plan(declare(base), data).embedder is None
    there = files(base)
    planned = plan(declare(base, {"min_recall": 0.9, "max_recall_drop": 0.1}, **api(server)), data, sample=12)
    change = planned.embedder
    assert change is not None and change.recall is not None and change.live_recall is not None
    assert (change.was, change.now, change.sampled) == ("all-MiniLM-L6-v2", "words", 12)
    assert (change.live_recall.recall, change.live_recall.missed) == (1.0, [])
    assert (change.recall.recall, change.recall.missed) == (0.5, [_MEANT["question"]])
    assert change.recall.unanswerable == 1
    assert (planned.outcome, refused(planned)) == ("gate_refused", ["min_recall", "max_recall_drop"])
    assert planned.chunks_to_embed == len(_NOTES)
    sent = [text for request in server.requests for text in request["input"]]
    assert len(sent) == 12 + 3  # a text each, and the questions
    assert files(base) == there


def test_an_api_is_asked_for_no_sample_unless_it_is_wanted(base: Path, server: LoopbackMistral) -> None:
    data = DataDir(base / "data")
    carry_out(Run(declare(base), data))
    change = plan(declare(base, **api(server)), data).embedder
    assert change is not None and (change.sampled, change.recall) == (0, None)
    assert not server.requests


def test_a_text_that_the_api_refuses_is_missing_from_the_sample_alone(base: Path, server: LoopbackMistral) -> None:
    (base / "notes" / "poison.txt").write_text(f"{POISON} soup from noon.")
    data = DataDir(base / "data")
    carry_out(Run(declare(base), data))
    server.strike("400_poison")
    change = plan(declare(base, **api(server)), data, sample=100).embedder
    assert change is not None and change.recall is not None
    assert (change.sampled, change.recall.questions) == (len(_NOTES), 2)


def test_a_live_version_whose_questions_were_never_asked_is_not_measured(base: Path, server: LoopbackMistral) -> None:
    data, declaration = DataDir(base / "data"), declare(base, **api(server))
    golden = (base / "park.golden.jsonl").read_text()
    (base / "park.golden.jsonl").write_text(json.dumps({"question": "boats", "document_id": "boats.txt"}))
    carry_out(Run(declare(base), data))
    (base / "park.golden.jsonl").write_text(golden)
    change = plan(declaration, data, sample=20).embedder
    assert change is not None and change.recall is not None
    assert (change.live_recall, change.recall.questions) == (None, 1)  # where the other's answer is, nobody tells


def test_another_query_than_the_live_one_is_not_embedded_by_the_new_model(base: Path, server: LoopbackMistral) -> None:
    data = DataDir(base / "data")
    carry_out(Run(declare(base), data))
    there = files(base)
    change = plan(declare(base, None, {"query": "about {question}"}, **api(server)), data, sample=12).embedder
    assert change is not None and change.recall is not None
    assert change.live_recall is None
    assert files(base) == there


def test_a_declared_query_is_compared_by_its_own_vectors(base: Path, server: LoopbackMistral) -> None:
    data, retrieve = DataDir(base / "data"), {"query": "about {question}"}
    carry_out(Run(declare(base, None, retrieve), data))
    change = plan(declare(base, None, retrieve, **api(server)), data, sample=12).embedder
    assert change is not None and change.live_recall is not None
    assert change.live_recall.questions == 2


def test_a_sample_costs_no_more_than_a_run_may(base: Path, server: LoopbackMistral) -> None:
    data = DataDir(base / "data")
    dear: dict[str, Any] = {"price_per_million": 1_000_000, "max_cost": 0.001}
    carry_out(Run(declare(base), data))
    planned = plan(declare(base, **api(server), **dear), data, sample=12)
    assert planned.embedder is not None and "embed.max_cost is 0.001" in str(planned.embedder.unmeasured)
    assert (refused(planned), server.requests) == (["max_cost"], [])


def test_questions_whose_answer_is_not_in_the_sample_are_counted(base: Path, server: LoopbackMistral) -> None:
    data = DataDir(base / "data")
    carry_out(Run(declare(base), data))
    change = plan(declare(base, **api(server)), data, sample=1).embedder
    assert change is not None and change.recall is not None
    assert (change.sampled, change.left_out, change.recall.questions) == (1, 1, 1)
    (base / "notes" / "soup.txt").write_text(_NOTES["soup"] * 3)
    (base / "park.golden.jsonl").write_text(json.dumps({"question": "boats", "document_id": "nothing"}))
    none = plan(declare(base, **api(server)), data, sample=5).embedder
    assert none is not None and str(none.unmeasured).startswith("no answer of a golden question is in a sample of 5")


def test_the_command_shows_both(base: Path, server: LoopbackMistral, almanac: Almanac) -> None:
    declared, data = str(declare(base).path), base / "data"
    assert almanac("run", declared, data=data).code == 0
    declare(base, **api(server))
    shown = almanac("plan", declared, "--sample", "12", data=data).stdout
    assert "all-MiniLM-L6-v2 → words, on a sample of 12 chunks" in shown
    assert f"lost: {_MEANT['question']}" in shown
    hinted = almanac("plan", declared, data=data).stdout
    assert "--sample 500 embeds 500 chunks and asks the golden questions" in hinted
