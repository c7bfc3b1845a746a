"""What the example knowledge bases find of their golden questions does not fall: floors, each pinned for one content
and its questions.
"""

import hashlib
from pathlib import Path
from typing import NamedTuple

import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir, installation
from almanac.flows.pipeline.run import Run
from almanac.query import open_index
from almanac.query.evaluation.golden import load_golden, measure_recall
from tests.flows.commands import carry_out
from tests.index.making import without_children
from tests.proof.base import LONG

_ROOT = installation()
_MARGIN = 1e-6


class Floor(NamedTuple):
    """`content` is the digest for which the figures were pinned. Raise a floor when retrieval gets better; lower it
    only with another content or embedder.
    """

    content: str
    recall_at_k: float  # of the questions that have an answer
    abstained: int  # of those that have none


_FLOORS = {
    "products": Floor("be7190cd78ef", 0.921875, 4),
    "handbook": Floor("c80ed6e9b714", 0.866666, 9),
    "workspace": Floor("e847d1c16574", 0.907692, 6),
    "versailles": Floor("3bfa8b5ad9ff", 0.893939, 5),
}
_LARGE = {"products", "versailles"}


def _content_digest(name: str) -> str:
    """Of the content's files and the golden questions, whatever machine they lie on."""
    digest = hashlib.sha256()
    files = [path for path in (_ROOT / "examples" / name).rglob("*") if path.is_file() and path.name != "README.md"]
    for path in [*sorted(files), _ROOT / "knowledge" / f"{name}.golden.jsonl"]:
        body = path.read_bytes()
        digest.update(f"{path.relative_to(_ROOT).as_posix()}\0{len(body)}\0".encode() + body)
    return digest.hexdigest()[:12]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("golden")


@pytest.mark.slow
@pytest.mark.xdist_group("golden-floors")
@pytest.mark.parametrize("name", [pytest.param(name, marks=LONG if name in _LARGE else ()) for name in _FLOORS])
def test_what_is_found_of_the_golden_questions_does_not_fall(name: str, data: Path) -> None:
    floor = _FLOORS[name]
    now = _content_digest(name)
    assert now == floor.content, (
        f"{name}: the content or its golden questions are not those of the floor (now {now}): measure and pin anew"
    )
    with without_children():
        report = carry_out(Run(load_declaration(name, ""), DataDir.locate(data)))
    assert report["outcome"] == "published", report
    with open_index(name, data=data, env="") as index:
        recall = measure_recall(
            index.declaration, index.version(), index.embedder.embed_queries, load_golden(index.declaration)
        )
    assert recall.recall is not None
    assert recall.recall >= floor.recall_at_k - _MARGIN, (
        f"{name}: recall@{index.declaration.retrieve.k} {recall.recall}; missed: {recall.missed}"
    )
    assert recall.abstained >= floor.abstained, (
        f"{name}: {recall.abstained} of {recall.unanswerable} questions without an answer were refused"
    )
