"""Where a workspace is required, a question without one is refused in whatever way it is asked; hostile spellings of
one see nothing.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.flows.pipeline.run import Run
from almanac.query import open_index
from almanac.query.evaluation.evaluate import evaluate
from almanac.query.published import PublishedIndex
from almanac.query.several import SeveralIndexes
from almanac.schemas.errors import UsageError
from tests.flows.commands import carry_out
from tests.index.making import without_children
from tests.query.small_base import SmallBase

_ROWS = [
    {"id": "a", "team": "alpha", "text": "The password of the alpha shed is hedgehog."},
    {"id": "b", "team": "beta", "text": "The password of the beta shed is marmot."},
    {"id": "both", "team": ["alpha", "beta"], "text": "The shed is closed on Sunday."},
    {"id": "spaced", "team": "alpha ", "text": "A stranger wrote this about the shed."},
    {"id": "unseen", "team": "alpha\u200b", "text": "A stranger wrote that about the shed."},
    {"id": "nobody", "text": "A shed that belongs to nobody."},
    {"id": "wide", "team": "ａｌｐｈａ", "text": "A wide shed."},
]
_SPELLINGS = [
    "Alpha",
    "ALPHA",
    "alpha ",
    " alpha",
    "alpha\u200b",
    "alpha\u00a0",
    "al\u200dpha",
    "аlpha",
    "alpha\x00",
    '["alpha"]',
    "alpha,beta",
    "*",
    "1",
]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallBase]:
    base = SmallBase(tmp_path_factory.mktemp("required"))
    (base.folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in _ROWS))
    fields = {name: {"json": name} for name in ("id", "team", "text")}
    rows = {
        "name": "rows",
        "kind": "files",
        "glob": "rows.jsonl",
        "yields": "records",
        "id": "{id}",
        "title": "{id}",
        "fields": fields,
        "text": "{text}",
    }
    path = base.declare(
        sources=[{**rows, "metadata": ["team"]}],
        retrieve={"k": 9, "workspace": {"field": "team", "required": True}},
        validate={"max_rejected": 1.0},
    )
    with without_children():
        report = carry_out(Run(load_declaration(path), DataDir(base.data)))
    assert (report["outcome"], report["items"]["quarantined"]) == ("published_with_rejects", 3), report
    yield base


@pytest.fixture(scope="module")
def index(base: SmallBase) -> Iterator[PublishedIndex]:
    with open_index(str(base.path), data=base.data) as index:
        yield index


def _seen(index: PublishedIndex, workspace: str, **arguments: Any) -> set[str]:
    return {
        hit.document_id for hit in index.search("password shed", mode="lexical", workspace=workspace, **arguments).hits
    }


def test_a_workspace_sees_its_own_and_what_it_shares(index: PublishedIndex) -> None:
    assert _seen(index, "alpha") == {"a", "both"}
    assert _seen(index, "beta") == {"b", "both"}
    assert _seen(index, "ａｌｐｈａ") == {"wide"}
    shared = next(
        hit for hit in index.search("Sunday", mode="lexical", workspace="beta").hits if hit.document_id == "both"
    )
    assert shared.metadata["team"] == ["beta"]


def test_another_spelling_sees_nothing(index: PublishedIndex) -> None:
    with index.reading() as retriever:
        for spelling in _SPELLINGS:
            assert _seen(index, spelling) == set(), ascii(spelling)
            assert len(retriever.documents(spelling)) == 0
    assert not index.ask("What is the password of the alpha shed?", workspace="Alpha").answered


_REQUESTS: list[Callable[[Any, Any], Any]] = [
    lambda index, workspace: index.search("shed", workspace=workspace),
    lambda index, workspace: index.search("shed", workspace=workspace, mode="lexical", where={"team": "alpha"}),
    lambda index, workspace: index.ask("shed?", workspace=workspace),
    lambda index, workspace: index.ask(
        "And the shed?", workspace=workspace, history=[{"role": "user", "content": "Where is it?"}]
    ),
    lambda index, workspace: list(index.stream("shed?", workspace=workspace)),
]


def test_a_question_without_a_workspace_is_refused(index: PublishedIndex) -> None:
    several = SeveralIndexes([index])
    for ask in _REQUESTS:
        for workspace in (None, "", " ", 0, False, [], ["alpha"], {"$ne": "x"}):
            for opened in (index, several):
                with pytest.raises(UsageError, match="workspace") as refused:
                    ask(opened, workspace)
                assert refused.value.where == "--workspace"


def test_documents_cannot_be_listed_without_a_workspace(index: PublishedIndex) -> None:
    with index.reading() as retriever:
        assert retriever.documents("alpha")["title"].to_pylist() == ["a", "both"]
        for read in (retriever.documents, retriever.access.visible):
            with pytest.raises(UsageError, match="none is named"):
                read(None)


def test_whoever_keeps_the_base_measures_all_of_it(index: PublishedIndex, tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text('{"id": "1", "text": "password of the beta shed"}\n')
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n1\tb\t1\n")
    assert evaluate(index, tmp_path / "q.jsonl", tmp_path / "qrels.tsv", mode="lexical").metrics["recall@10"] == 1.0
