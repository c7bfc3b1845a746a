"""A live version in which another program has changed Chroma's rows confirms nothing: the next run puts a whole one in
its place, and says why.
"""

from pathlib import Path

import pytest

from almanac.core.settings import DataDir
from almanac.index.chroma.chroma_client import open_client, open_collection
from almanac.index.segments.segment_store import SEGMENT, SEGMENTS
from almanac.index.verify.verifier import verify_version
from almanac.index.versions.version_store import read_manifest, version_dir
from tests.proof.acts import run, small_and_here
from tests.proof.base import declare, make_place, text_of

pytestmark = pytest.mark.slow

_NOTES = {f"n{n}.txt": text_of(f"note {n}") for n in range(8)}


@pytest.mark.parametrize("segment", [50_000, 6], ids=["one", "segments"])
def test_an_unchanged_run_replaces_a_version_whose_rows_another_program_has_deleted(
    tmp_path: Path, segment: int, capsys: pytest.CaptureFixture[str]
) -> None:
    place = make_place(tmp_path / "place", _NOTES)
    declare(place, segment=segment)
    data = DataDir(place / "data")
    index_dir = data.index("proof")
    with small_and_here(place):
        run(place)
        assert run(place)["outcome"] == "unchanged"
        folders = [path.parent for path in sorted(index_dir.glob(f"{SEGMENTS}/*/{SEGMENT}"))] or [
            version_dir(index_dir, "v0001")
        ]
        with open_client(folders[0]) as client:
            collection = open_collection(client, read_manifest(index_dir, "v0001").collection)
            collection.delete(ids=collection.get(include=[])["ids"][:1])
        capsys.readouterr()
        report = run(place)
        assert (report["outcome"], report["version"], report["chunks"]["embedded"]) == ("published", "v0002", 0)
        printed = "".join(capsys.readouterr())
        assert "the live version is damaged" in printed and "row_missing" in printed
        manifest = read_manifest(index_dir, "v0002")
        assert verify_version(version_dir(index_dir, "v0002"), manifest, data.vectors, manifest.embedder) == []
        assert run(place)["outcome"] == "unchanged"


def test_a_run_that_goes_on_from_changed_rows_builds_in_full(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = make_place(tmp_path / "place", {f"n{n}.txt": text_of(f"note {n}") for n in range(300)})
    declare(place)
    data = DataDir(place / "data")
    index_dir = data.index("proof")
    with small_and_here(place):
        run(place)
        with open_client(version_dir(index_dir, "v0001")) as client:
            collection = open_collection(client, read_manifest(index_dir, "v0001").collection)
            collection.update(ids=collection.get(include=[])["ids"][:1], metadatas=[{"title": "forged"}])
        (place / "notes" / "new.txt").write_text(text_of("new note"))
        capsys.readouterr()
        assert run(place)["outcome"] == "published"
        printed = "".join(capsys.readouterr())
        assert "damaged: built in full" in printed and "row_altered" in printed
        manifest = read_manifest(index_dir, "v0002")
        assert verify_version(version_dir(index_dir, "v0002"), manifest, data.vectors, manifest.embedder) == []
