"""What callers write is kept only as far as it bounds memory: made-up paths, workspaces, filters and sentences, and
what a refusal tells of others' rows.
"""

import gc
import threading
import time
import tracemalloc
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from almanac.core.tables import batches_of
from almanac.index.build.builder import build_version
from almanac.index.build.derived import derive
from almanac.index.reader import OpenVersion
from almanac.query.models.embedding_cache import CachingEmbedder
from almanac.query.retrieval.access import KnownFields, WorkspaceCache
from almanac.query.retrieval.request import Request
from almanac.query.retrieval.retriever import Retriever
from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.errors import UsageError
from almanac.schemas.items import ChunkRow
from almanac.schemas.manifest import Verdict
from tests.conftest import PATIENCE_S
from tests.index.conftest import Base, HashEmbedder

_ROWS: list[dict[str, Any]] = [
    {
        "team": "red",
        "price": {"amount": "9", "currency": "EUR"},
        "specs": [{"width": 3}, {"inner": {"depth": 4}}],
        "note": None,
        "dotted.key": 1,
    },
    {"team": "blue", "price": {"amount": "8"}, "salary": {"gross": "70000"}, "tags": ["pay"]},
    {"team": ["red", "blue"], "shared": {"by": "both"}},
    {"team": "green", "url": {"short": "http://s/1"}},
]
_DECLARED = {"price": {"css": ".p"}, "colour": {"css": ".c"}, "salary": {"css": ".s"}}


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenVersion]:
    base = Base(tmp_path_factory.mktemp("callers"))
    texts = [f"A kayak {n}" for n in range(len(_ROWS))]
    rows = [
        ChunkRow(
            f"i{n}", "shop", f"http://shop/{n}", f"item {n}", "document", 0, 0, 9, text, text, metadata, "2026-01-01"
        )
        for n, (text, metadata) in enumerate(zip(texts, _ROWS, strict=True))
    ]
    base.embed(rows)
    build_version(base.job())
    manifest = base.manifest("v0001", rows, Verdict(verdict="passed", checks=[])).model_copy(
        update={"derived": derive(batches_of(base.chunks), Embed())}
    )
    with OpenVersion(base.index_dir, "v0001", manifest=manifest) as version:
        yield version


def _retriever(opened: OpenVersion, **retrieve: Any) -> Retriever:
    source = {"name": "shop", "kind": "files", "glob": "*", "metadata": [*_DECLARED, "team"]}
    declared = {"name": "kb", "sources": [source], "retrieve": {"workspace": "team", **retrieve}}
    return Retriever(Declaration.model_validate(declared), opened, HashEmbedder().embed_queries)


def _find_documents(retriever: Retriever, where: Any, workspace: str | None = None) -> list[str]:
    return sorted(
        hit.document_id
        for hit in retriever.find(Request("kayak", None, 9, "lexical", where=where, workspace=workspace)).hits
    )


def _refusal(retriever: Retriever, where: Any, workspace: str | None = None) -> str:
    with pytest.raises(UsageError) as raised:
        _find_documents(retriever, where, workspace)
    assert raised.value.where == "--where"
    return str(raised.value)


def test_a_path_of_some_rows_is_known_and_lacking_to_the_others(opened: OpenVersion) -> None:
    retriever = _retriever(opened)
    for path, value, rows in (
        ("price.amount", "9", ["i0"]),
        ("price.currency", "EUR", ["i0"]),
        ("specs.width", 3, ["i0"]),
        ("specs.inner.depth", 4, ["i0"]),
        ("salary.gross", "70000", ["i1"]),
        ("tags", "pay", ["i1"]),
        ("url.short", "http://s/1", ["i3"]),
        ("title", "item 2", ["i2"]),
        ("note", 1, []),  # a null
        ("colour", "red", []),  # declared, and no row has it
        ("colour.name", "red", []),
    ):
        assert _find_documents(retriever, {path: value}) == rows, path
    assert len(_find_documents(retriever, {"$not": {"colour": "red"}})) == 4


@pytest.mark.parametrize(
    "path",
    [
        "nope",
        "price.amout",
        "price.amount.cents",
        "source.name",
        "dotted.key",
        "specs.width.inner",
        "note.x",
        "price.",
        ".",
        "",
        "a" * 5000,
    ],
)
def test_a_path_that_no_row_has_is_refused_by_name(opened: OpenVersion, path: str) -> None:
    retriever = _retriever(opened)
    for where in ({path: 1}, {"$or": [{"price.amount": "9"}, {path: 1}]}, {"$not": {path: {"$in": [1]}}}):
        refusal = _refusal(retriever, where)
        assert f"no field '{path[:80]}" in refusal
        assert len(refusal) < 600
    assert set(retriever.access._columns) == {"price.amount"}


def test_a_refusal_says_what_there_is(opened: OpenVersion) -> None:
    retriever = _retriever(opened)
    assert "below price: amount, currency" in _refusal(retriever, {"price.amout": 1})
    assert "below specs.inner: depth" in _refusal(retriever, {"specs.inner.dept": 1})
    assert "colour, " in _refusal(retriever, {"color": 1})
    many = KnownFields(frozenset(f"field{n:03}" for n in range(500)))
    with pytest.raises(UsageError) as raised:
        many.has("x")
    assert "field039 and 460 more" in str(raised.value)


def test_a_refusal_is_the_same_for_what_only_others_have_and_for_what_nobody_has(opened: OpenVersion) -> None:
    retriever = _retriever(opened)
    for foreign in ("tags", "tags.x", "salary.gross.x", "url.short", "team.0"):
        made_up = f"{foreign[:-1]}~"
        red = [
            _refusal(retriever, {path: 1}, "red")
            if "salary" not in path
            else str(_find_documents(retriever, {path: 1}, "red"))
            for path in (foreign, made_up)
        ]
        assert red[0] == red[1].replace(made_up, foreign), foreign
        assert "pay" not in red[0] and "70000" not in red[0]
    assert _find_documents(retriever, {"salary.gross": "70000"}, "red") == []
    assert _find_documents(retriever, {"salary.made-up": "70000"}, "red") == []
    refusal = _refusal(retriever, {"x": 1}, "red")
    assert "shared" in refusal and "salary" not in refusal and "tags" not in refusal and "blue" not in refusal
    assert "fields: document_id, kind, source, team, title, url" in _refusal(retriever, {"x": 1}, "green")
    for path in ("x", "salary.gross", "price.amount", "team.0"):  # without a row, nothing is refused
        assert _find_documents(retriever, {path: 1}, "nobody") == []
    assert "salary" in _refusal(retriever, {"x": 1}, "blue")
    assert _find_documents(retriever, {"price.amount": {"$gte": 0}}, "red") == ["i0"]


def test_made_up_paths_and_workspaces_leave_nothing_behind(opened: OpenVersion) -> None:
    retriever = _retriever(opened, tags={"field": "tags"})

    def once(n: int) -> None:
        for where in ({f"made{n}": 1}, {f"price.made{n}": 1}, {f"price.{'x' * 2000}{n}": 1}):
            with pytest.raises(UsageError):
                _find_documents(retriever, where)
        _find_documents(retriever, {f"colour.{'x' * 2000}{n}": 1})
        _find_documents(retriever, {"title": "x" * 20_000 + str(n)})
        for workspace in (f"w{n}" * 500, "red"):
            _find_documents(retriever, {"title": str(n)}, workspace)
            len(retriever.documents(workspace))

    for n in range(40):
        once(n)
    gc.collect()
    tracemalloc.start()
    try:
        for n in range(40, 240):
            once(n)
        gc.collect()
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert left < 500_000, left
    assert set(retriever.access._columns) <= {"team", "title", "tags"}


def test_workspaces_are_kept_by_their_rows() -> None:
    made: list[str | None] = []
    rows: dict[str | None, int] = (
        {None: 1000, "empty": 0} | {f"t{n}": 100 for n in range(10)} | {f"s{n}": 1 for n in range(5000)}
    )
    cache = WorkspaceCache[str](1000)

    def ask_cache(workspace: str | None) -> None:
        def make() -> str:
            made.append(workspace)
            return str(workspace)

        assert cache.get_or_make(workspace, make, lambda workspace: rows[workspace]) == str(workspace)

    for _ in range(3):  # all rows and every tenant's own fit together
        for workspace in (None, *(f"t{n}" for n in range(10))):
            ask_cache(workspace)
    assert len(made) == 11
    for n in range(5000):
        ask_cache(f"s{n}")
    assert len(cache._entries) <= 1000
    ask_cache("empty")
    assert "empty" not in cache._entries


def test_what_several_ask_for_at_once_is_made_once() -> None:
    """Those that ask for the same wait, and for another workspace nobody does."""
    made, cache = list[str | None](), WorkspaceCache[str](1000)
    has_begun, other_is_there = threading.Event(), threading.Event()

    def make(workspace: str) -> str:
        made.append(workspace)
        if workspace == "red":
            has_begun.set()
            assert other_is_there.wait(PATIENCE_S)
        return workspace

    def ask(workspace: str) -> str:
        return cache.get_or_make(workspace, lambda: make(workspace), lambda _: 10)

    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(ask, "red")
        assert has_begun.wait(PATIENCE_S)
        others = [pool.submit(ask, "red") for _ in range(6)]
        assert pool.submit(ask, "blue").result(PATIENCE_S) == "blue"
        other_is_there.set()
        assert [future.result(PATIENCE_S) for future in (first, *others)] == ["red"] * 7
    assert made == ["red", "blue"]


def test_a_column_that_several_filter_by_at_once_is_read_once(
    opened: OpenVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    retriever, read, all_there = _retriever(opened), list[str](), threading.Barrier(6)
    whole = OpenVersion.coded_column

    def slowly(version: OpenVersion, name: str) -> Any:
        read.append(name)
        time.sleep(0.2)
        return whole(version, name)

    def ask(_: int) -> list[str]:
        all_there.wait(PATIENCE_S)
        return _find_documents(retriever, {"kind": "document"})

    monkeypatch.setattr(OpenVersion, "coded_column", slowly)
    with ThreadPoolExecutor(6) as pool:
        id_lists = list(pool.map(ask, range(6)))
    assert all(ids == id_lists[0] for ids in id_lists)
    assert read == ["kind"]


def test_terms_of_any_length_take_no_memory(opened: OpenVersion) -> None:
    for n in range(30):
        opened.readings(f"kayak 木{'́' * 3000}{'̀' * n}")
    readings = [reading for analyzed in opened._lexical._analyzed.values() for reading in analyzed]
    assert readings and all(len(term) <= 200 for reading in readings for term in reading.frequencies)


def test_sentences_of_any_length_are_kept_as_hashes() -> None:
    embedder = CachingEmbedder(HashEmbedder())
    texts = [f"{n} " + "long " * 2000 for n in range(20)]
    first, again = embedder.embed_documents(texts), embedder.embed_documents(texts[::-1])[::-1]
    assert np.array_equal(first, again)
    assert all(len(key) == 64 for key in embedder._documents)


def test_what_has_searched_a_version_is_freed_with_its_last_reference(opened: OpenVersion) -> None:
    """A server that is ready has its garbage collection look through nothing that there is: a version that is replaced
    would stay in memory.
    """
    retriever = _retriever(opened, tags={"field": "tags"})
    _find_documents(retriever, {"title": {"$ne": "x"}}, "red")
    retriever.documents("red")
    left = [weakref.ref(referent) for referent in (retriever, retriever.access, retriever.judge)]
    gc.disable()
    try:
        del retriever
        assert [reference() for reference in left] == [None] * 3
    finally:
        gc.enable()
