"""A bit flips in any file of a data directory: nobody crashes, `verify` notices it in any file of a version, and the
hints lead back to a whole version.

One bit in some kinds of files by default, many in all with ALMANAC_TORTURE=1.
"""

import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.flows.pipeline.run import Run
from almanac.index.upkeep.rebuild import rebuild_version
from almanac.index.verify.verifier import verify_version
from almanac.index.versions.publish import rollback
from almanac.index.versions.version_store import current_version, read_manifest, version_dir
from almanac.query import open_index
from almanac.schemas.errors import AlmanacError
from tests.flows.commands import carry_out
from tests.index.making import without_children
from tests.proof.base import PROOF, TORTURE
from tests.query.small_base import SmallBase

pytestmark = PROOF

_FLIPS = 40 if TORTURE else 1  # in each kind of file
_SAMPLE = (
    "index/*/CURRENT", "versions/v0002/chunks.parquet", "versions/v0002/rows.arrow", "versions/v0002/vectors.npy",
    "versions/v0002/chroma/chroma.sqlite3",
    "versions/v0002/chroma/*/data_level0.bin", "versions/v0002/lexical/rows.npy", "processed/*/chunks.parquet",
    "vectors/*/*.parquet",
)  # fmt: skip
_OTHERS = (
    "index/*/published.jsonl", "versions/v0002/by_id.npy", "versions/v0002/manifest.json",
    "versions/v0002/manifest.sha256", "versions/v0002/documents.parquet",
    "versions/v0002/records.parquet", "versions/v0002/chroma.sha256", "versions/v0002/chroma/*/header.bin",
    "versions/v0002/chroma/*/index_metadata.pickle",
    "versions/v0002/lexical/terms.npy", "versions/v0002/lexical/starts.npy", "versions/v0002/lexical/counts.npy",
    "versions/v0002/lexical/l*.npy", "versions/v0002/lexical/lexical.json",
    "versions/v0001/chunks.parquet", "processed/*/documents.parquet",
    "processed/*/mapped/*.parquet",
    "processed/*/state.json", "processed/*/runs/*.json", "processed/*/runs/order.txt", "raw/*/*/bodies/*/*.gz",
    "raw/*/*/crawls/*.jsonl",
)  # fmt: skip


@dataclass
class Place:
    """A base with two versions, of which v0002 is live, in a folder that is put back before each flip."""

    whole: Path
    place: Path
    declared: Path
    data: DataDir

    def put_back(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.whole, self.place)

    @property
    def index_dir(self) -> Path:
        return self.data.index("small")

    def ask(self) -> list[tuple[str, str, float]]:
        with open_index(str(self.declared), data=self.data.root) as index:
            return [
                (hit.chunk_id, hit.text, hit.score) for hit in index.search("When does the garden close?", k=4).hits
            ]

    def run(self) -> Any:
        return carry_out(Run(load_declaration(str(self.declared)), self.data))["outcome"]

    def problems(self, version: str) -> set[str]:
        manifest = read_manifest(self.index_dir, version)
        return {
            problem.kind
            for problem in verify_version(
                version_dir(self.index_dir, version), manifest, self.data.vectors, manifest.embedder
            )
        }


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("rot") / "place"
    folder.mkdir()
    base = SmallBase(folder)
    with without_children():
        base.publish()
        (folder / "notes" / "dogs.txt").write_text("Dogs may enter the garden on a lead now.")
        base.publish()
        shutil.copytree(folder, folder.with_name("whole"))
        yield Place(folder.with_name("whole"), folder, base.path, DataDir(base.data))


def _or_error(act: Callable[[], Any]) -> Any:
    """The result, or the error; an error that is none of ours fails the test."""
    try:
        return act()
    except AlmanacError as error:
        assert error.hint, error
        return error


@pytest.mark.parametrize("kind", [*_SAMPLE, *(_OTHERS if TORTURE else ())])
def test_a_flipped_bit_crashes_nobody_and_every_hint_leads_back(place: Place, kind: str) -> None:
    place.put_back()
    wanted = place.ask()
    rng = random.Random(kind)
    for _ in range(_FLIPS):
        place.put_back()
        path = rng.choice(sorted(place.data.root.glob(f"**/{kind}")))
        content = bytearray(path.read_bytes())
        at = rng.randrange(len(content))
        content[at] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
        damaged_byte = f"{path.relative_to(place.data.root)}, byte {at}"
        answer = _or_error(place.ask)
        if path.suffix in (".parquet", ".arrow", ".npy") or "lexical" in kind:
            assert isinstance(answer, AlmanacError) or answer == wanted, damaged_byte
        if "versions/" in kind:
            version = "v0001" if "v0001" in kind else "v0002"
            damage = _or_error(partial(place.problems, version))
            # a bit of Chroma's database in which no row lies, and of which SQLite makes nothing
            assert damage or path.suffix == ".sqlite3", damaged_byte
        ran = _or_error(place.run)
        if isinstance(ran, AlmanacError):  # its hint
            assert "almanac rollback" in str(ran.hint), damaged_byte
            assert rollback(place.index_dir) == "v0002", damaged_byte
            ran = place.run()
        live = str(current_version(place.index_dir))
        if place.problems(live):
            rebuilt = _or_error(partial(rebuild_version, place.index_dir, live, place.data.vectors))
            assert not isinstance(rebuilt, AlmanacError), damaged_byte
        assert place.problems(live) == set(), damaged_byte
        assert place.ask() == wanted, damaged_byte
        assert place.run() == "unchanged", damaged_byte
