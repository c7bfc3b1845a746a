"""Golden questions: what they expect, which lines cannot be meant, and what share of them a version finds."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from almanac.core.load import load_declaration
from almanac.flows.pipeline.question_vectors import UnknownQuestions, kept_questions, known_questions, question_key
from almanac.index.build.builder import build_version
from almanac.index.embedding.embedder import Embedder, Vectors
from almanac.index.reader import OpenVersion
from almanac.index.vectors.vector_store import VectorStore
from almanac.index.versions.version_store import version_names
from almanac.query.evaluation.golden import Golden, load_golden, measure_recall, without_history
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import DeclarationError
from almanac.schemas.manifest import Verdict
from almanac.schemas.results import Hit
from tests.index.conftest import INFO, Base, HashEmbedder, make_chunks


def _declared(folder: Path, lines: Sequence[Any] | str | bytes, **gate: Any) -> Declaration:
    """A declaration beside its questions: objects are written as JSON, texts as they are."""
    content = (
        lines
        if isinstance(lines, str | bytes)
        else "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    )
    (folder / "kb.golden.jsonl").write_bytes(content if isinstance(content, bytes) else content.encode())
    declared = {
        "name": "kb",
        "sources": [{"name": "s", "kind": "files", "glob": "*"}],
        "retrieve": {"k": 2},
        "gate": {"golden": "kb.golden.jsonl", **gate},
    }
    (folder / "kb.yaml").write_text(json.dumps(declared))
    return load_declaration(str(folder / "kb.yaml"))


def _hit(**given: Any) -> Hit:
    fields = {
        "document_id": "a",
        "url": "http://site.test/h%E1%BA%A1-long/#day-2",
        "text": "Crème brûlée,\nﬁve EUROS",
        **given,
    }
    return Hit(
        rank=1, chunk_id="c", source="s", title="A", start=None, end=None, score=0.5, scores={}, metadata={},
        fetched_at="", **fields
    )  # fmt: skip


@pytest.mark.parametrize(
    ("line", "is_answered"),
    [
        ({"document_id": "a"}, True),
        ({"document_id": "A"}, False),
        ({"document_id": ["b", "a"]}, True),
        ({"url": "http://site.test/h%E1%BA%A1-long/"}, True),
        ({"url": "http://site.test/hạ-long/#day-2"}, True),
        ({"url": "http://site.test/hạ-long/#day-3"}, False),
        ({"answer_contains": "crème BRÛLÉE, five euros"}, True),
        ({"answer_contains": "CRE\u0300ME"}, True),
        ({"answer_contains": "six euros"}, False),
        ({"document_id": "a", "answer_contains": "six euros"}, False),
        ({"document_id": "a", "answer_contains": ["six", "five euros"], "url": None}, True),
        ({"all_of": [["six"], ["five euros", "crème"]]}, True),  # parts of an answer may stand in different hits
        ({"all_of": [["six"], ["seven"]]}, False),
        ({"document_id": "b", "all_of": [["five euros"]]}, False),
    ],
)
def test_a_hit_answers_what_fits_all_that_is_expected(tmp_path: Path, line: dict[str, Any], is_answered: bool) -> None:
    (golden,) = load_golden(_declared(tmp_path, [{"question": "?", **line}]))
    assert golden.is_answered_by(_hit()) is is_answered


def test_lines_are_read_as_people_write_them(tmp_path: Path) -> None:
    lines = [
        "\ufeff" + json.dumps({"question": "one", "document_id": 7, "source": "tours", "answer": "seven"}),
        "",
        json.dumps({"id": "q2", "text": "two\u2028lines", "url": "http://site.test/"}, ensure_ascii=False) + "\r",
        {"query": "three", "document_id": None, "answer_contains": None},
        {"id": 4, "question": "four", "note": "nobody knows"},
    ]
    golden = load_golden(_declared(tmp_path, lines))
    assert [question.question for question in golden] == ["one", "two\u2028lines", "three", "four"]
    assert [question.is_answerable for question in golden] == [True, True, False, False]
    assert golden[0].document_ids == {"7"}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{question: 'no'}", "Invalid JSON"),
        ("[" * 100_000, "Invalid JSON"),
        ('["question"]', "should be an object"),
        ({"document_id": "a"}, "needs one question"),
        ({"question": " ", "document_id": "a"}, "question: is no text"),
        ({"question": 3}, "question: Input should be a valid string"),
        ({"question": "a", "query": "b"}, "needs one question"),
        ({"question": "a", "documentid": "b"}, "did you mean document_id?"),
        ({"question": "a", "expected": "b"}, "no expected answer"),
        ({"question": "a", "document_id": []}, "document_id: Value should have at least 1 item"),
        ({"question": "a", "url": {"is": "b"}}, "url.0: Input should be a valid string"),
        ({"question": "a", "answer_contains": True}, "answer_contains.0: Input should be a valid string"),
        ({"question": "a", "all_of": "b"}, "all_of: Input should be a valid array"),
        ({"question": "a", "all_of": [["b"], []]}, "all_of.1: Value should have at least 1 item"),
        ({"question": "a", "document_id": "b", "history": "c"}, "history: Input should be a valid array"),
        (
            {"question": "a", "document_id": "b", "history": [{"role": "system", "content": "c"}]},
            "history.0.role: Input should be 'user' or 'assistant'",
        ),
        ({"question": "a", "kind": 3}, "kind: Input should be a valid string"),
    ],
)
def test_a_line_that_cannot_be_meant_is_named(tmp_path: Path, line: Any, says: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        load_golden(_declared(tmp_path, [{"question": "fine", "document_id": "a"}, line]))
    assert says in str(caught.value)
    assert caught.value.where == f"{tmp_path}/kb.golden.jsonl:2"


def test_a_question_may_continue_a_conversation_and_say_of_what_kind_it_is(tmp_path: Path) -> None:
    history = [{"role": "user", "content": "What is a tour?"}, {"role": "assistant", "content": "Two days."}]
    line = {"question": "And for a child?", "kind": "follow-up", "history": history, "answer_contains": "half"}
    (golden, alone) = load_golden(_declared(tmp_path, [line, {"question": "a", "document_id": "b"}], min_recall=0.5))
    assert (golden.kind, list(golden.history)) == ("follow-up", history)
    assert without_history([golden, alone]) == [alone]
    with pytest.raises(DeclarationError, match="each question with an answer has a history"):
        load_golden(_declared(tmp_path, [line, {"question": "nobody knows"}], min_recall=0.5))


def test_a_file_without_questions_is_a_mistake(tmp_path: Path) -> None:
    for content, says in (("\n \n", "holds no question"), (b"\xff\xfe\x00", "not UTF-8")):
        with pytest.raises(DeclarationError, match=says):
            load_golden(_declared(tmp_path, content))
    declared = _declared(tmp_path, [{"question": "nobody knows"}], min_recall=0.5)
    with pytest.raises(DeclarationError, match="none of its questions says what answers it"):
        load_golden(declared)
    assert len(load_golden(_declared(tmp_path, [{"question": "nobody knows"}]))) == 1
    (tmp_path / "kb.golden.jsonl").unlink()
    with pytest.raises(DeclarationError) as caught:
        load_golden(declared)
    assert caught.value.where == f"{tmp_path}/kb.golden.jsonl"
    (tmp_path / "kb.golden.jsonl").mkdir()
    with pytest.raises(DeclarationError, match="cannot be read"):
        load_golden(declared)


def test_no_golden_file_means_no_question() -> None:
    assert (
        load_golden(
            Declaration.model_validate({"name": "kb", "sources": [{"name": "s", "kind": "files", "glob": "*"}]})
        )
        == []
    )


@pytest.mark.slow
def test_recall_is_measured_on_a_candidate_that_is_no_version_yet(tmp_path: Path) -> None:
    """With vectors that follow from the words alone, a question that is a text finds exactly that one."""
    base, rows = Base(tmp_path), make_chunks(40)
    base.embed(rows)
    build_version(base.job())
    manifest = base.manifest("v0001", rows, Verdict(verdict="passed", checks=[]))
    declared = _declared(tmp_path, "{}")
    golden = [
        Golden("Title. text 3", document_ids=frozenset({"doc1"})),
        Golden("Title. text 5", urls=frozenset({"file:///doc2"}), parts=(("text 5",),)),
        Golden("Title. text 7", document_ids=frozenset({"doc19"})),
        Golden("Title. text 11"),
        Golden("What is the capital of Mongolia, and why?"),
    ]
    with OpenVersion(base.index_dir, "v0001", manifest=manifest) as opened:
        recall = measure_recall(
            declared.model_copy(update={"retrieve": declared.retrieve.model_copy(update={"floor": 0.95})}),
            opened,
            HashEmbedder().embed_queries,
            golden,
        )
        nothing = measure_recall(declared, opened, HashEmbedder().embed_queries, golden[3:])
    assert (recall.recall, recall.questions, recall.missed) == (0.666667, 3, ["Title. text 7"])
    assert (recall.unanswerable, recall.abstained) == (2, 1)
    assert (nothing.recall, nothing.questions) == (None, 0)
    assert version_names(base.index_dir) == []


def test_vectors_of_questions_are_kept_and_no_model_is_loaded_for_them_again(tmp_path: Path) -> None:
    loaded: list[HashEmbedder] = []

    def load() -> Embedder:
        loaded.append(HashEmbedder())
        return loaded[-1]

    def ask(questions: list[str]) -> Vectors:
        return kept_questions(VectorStore(tmp_path, INFO), load)(questions)

    known = known_questions(VectorStore(tmp_path, INFO))
    with pytest.raises(UnknownQuestions):
        known(["a"])
    first = ask(["a", "b", "a"])
    known = known_questions(VectorStore(tmp_path, INFO))
    assert known(["b", "a"]).tolist() == first[[1, 0]].tolist()
    assert first.tolist() == HashEmbedder().embed_queries(["a", "b", "a"]).tolist()
    assert ask(["b"]).tolist() == first[1:2].tolist()
    assert [embedder.calls for embedder in loaded] == [[["a", "b"]]]
    ask(["c", "a"])
    assert [embedder.calls for embedder in loaded] == [[["a", "b"]], [["c"]]]
    assert set(VectorStore(tmp_path, INFO).keys()) == {question_key(text) for text in "abc"}
