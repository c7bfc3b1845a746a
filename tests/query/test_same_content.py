"""Versions of one digest rank alike, whatever their history: a delta build, and a full build of the same chunks in
another order of rows.
"""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from wordfreq import top_n_list

from almanac.core.tables import batches_of
from almanac.index.build.builder import build_here
from almanac.index.build.derived import derive
from almanac.index.reader import OpenVersion
from almanac.index.versions.publish import finish_version
from almanac.query.retrieval.request import Request, SearchMode
from almanac.query.retrieval.retriever import Retriever
from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.items import ChunkRow
from almanac.schemas.manifest import Verdict
from tests.index.conftest import Base, HashEmbedder

_LANGUAGES = {"en": 300, "fr": 120, "vi": 80}
_AT = "2026-01-01T00:00:00+00:00"


def _row(number: int, language: str, words: Sequence[str], rng: random.Random) -> ChunkRow:
    text = " ".join(rng.choices(words, [1 / (place + 1) for place in range(len(words))], k=rng.randint(15, 60)))
    return ChunkRow(
        f"d{number}",
        "pages",
        f"http://x/{number}",
        f"Page {number}",
        "document",
        0,
        0,
        len(text),
        text,
        text,
        {"language": language},
        _AT,
    )


def _pages(rng: random.Random) -> list[ChunkRow]:
    rows: list[ChunkRow] = []
    for language, count in _LANGUAGES.items():
        words = top_n_list(language, 3000)
        rows += [_row(len(rows) + number, language, words, rng) for number in range(count)]
    # Equal passages of different documents, whose scores differ by rounding errors at most.
    twins = [
        ChunkRow(
            f"twin{n}", "pages", f"http://x/twin{n}", "", "document", 0, 0, 9, row.text, row.text, row.metadata, _AT
        )
        for n, row in enumerate(rows[:20])
    ]
    return [*rows, *twins]


def _version(base: Base, name: str, rows: list[ChunkRow], parent: str | None = None) -> str:
    base.embed(rows)
    facts = build_here(base.job(name, parent).model_copy(update={"language": "auto"}), lambda *_: None)
    made = base.manifest(name, rows, Verdict(verdict="passed", checks=[]))
    derived = derive(batches_of(base.chunks), Embed())
    update = {"language": "auto", "lineage": {"build": facts.model_dump()}, "derived": derived}
    finish_version(base.index_dir, made.model_copy(update=update))
    return facts.kind


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return [row.text for row in _pages(random.Random(7))]


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[OpenVersion]]:
    """v0002, a delta, and v0003, built in full."""
    base, rng = Base(tmp_path_factory.mktemp("same")), random.Random(7)
    rows = _pages(rng)
    gone = set(rng.sample(range(len(rows)), 60))
    fresh = [_row(9000 + n, "en" if n % 2 else "vi", top_n_list("en" if n % 2 else "vi", 3000), rng) for n in range(50)]
    later = [*(row for number, row in enumerate(rows) if number not in gone), *fresh]
    shuffled = random.Random(1).sample(later, len(later))
    assert [
        _version(base, "v0001", rows),
        _version(base, "v0002", later, "v0001"),
        _version(base, "v0003", shuffled),
    ] == ["full", "delta", "full"]
    with OpenVersion(base.index_dir, "v0002") as delta, OpenVersion(base.index_dir, "v0003") as full:
        yield [delta, full]


def test_the_same_parameters_are_derived(versions: list[OpenVersion]) -> None:
    delta, full = (version.manifest for version in versions)
    assert delta.digest == full.digest
    assert delta.derived == full.derived
    assert sorted(delta.derived.language_fit) == ["en", "fr", "vi"]
    assert delta.derived.language_fit["en"] > 0.9 > 0.5 > delta.derived.language_fit["fr"]


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
def test_whole_rankings_are_equal(versions: list[OpenVersion], texts: list[str], mode: SearchMode) -> None:
    declared = {
        "name": "kb",
        "sources": [{"name": "pages", "kind": "files", "glob": "*"}],
        "retrieve": {"candidates": 1000},
    }
    retrievers = [
        Retriever(Declaration.model_validate(declared), version, HashEmbedder().embed_queries) for version in versions
    ]
    rng = random.Random(3)
    for text in rng.sample(texts, 25):
        question = " ".join(rng.sample(text.split(), 6))
        vector = HashEmbedder().embed_queries([question])[0]
        rankings: list[list[Any]] = [
            [
                (hit.chunk_id, hit.score, hit.scores)
                for hit in retriever.find(Request(question, vector, 1000, mode, ranking=True)).hits
            ]
            for retriever in retrievers
        ]
        assert [chunk_id for chunk_id, *_ in rankings[0]] == [chunk_id for chunk_id, *_ in rankings[1]], question
        assert len(rankings[0]) > 25
        for (_, score, scores), (_, other, others) in zip(*rankings, strict=True):
            assert score == pytest.approx(other, rel=1e-5) and scores["dense"] == others["dense"]


def test_terms_are_equally_rare(versions: list[OpenVersion], texts: list[str]) -> None:
    """What is gone is not counted: relevance weighs the words of a question by how many chunks have them."""
    delta, full = versions
    for text in texts[::40]:
        assert delta.readings(text) == full.readings(text)


def test_derived_parameters_do_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    base, rows = Base(tmp_path), _pages(random.Random(11))
    derived = []
    for seed in range(3):
        base.embed(random.Random(seed).sample(rows, len(rows)))
        derived.append(derive(batches_of(base.chunks), Embed()))
    assert derived[0] == derived[1] == derived[2]
