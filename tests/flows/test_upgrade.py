"""A data directory that another Almanac wrote: refused with the way up, which then leads to the same content, without embedding anything again."""

import json
from pathlib import Path

import pytest

from almanac.core.settings import DataDir
from almanac.index.versions.store import MANIFEST, read_manifest, version_dir
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.manifest import FORMAT
from tests.proof.acts import run, small_and_here
from tests.proof.base import make_place, text_of


def _set_format(index_dir: Path, number: int) -> None:
    manifest = version_dir(index_dir, "v0001") / MANIFEST
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": number}))


def test_a_version_of_an_older_format_is_refused_until_a_run_has_brought_it_up(tmp_path: Path) -> None:
    place = make_place(tmp_path / "place", {f"n{n}.txt": text_of(f"note {n}") for n in range(5)})
    index_dir = DataDir(place / "data").index("proof")
    with small_and_here(place):
        assert run(place)["outcome"] == "published"
        before = read_manifest(index_dir, "v0001")
        _set_format(index_dir, FORMAT - 1)
        with pytest.raises(DamagedVersion, match=f"has format {FORMAT - 1}, and this almanac reads format {FORMAT}") as raised:
            read_manifest(index_dir, "v0001")
        assert "almanac run KB builds a version of this format" in str(raised.value.hint)
        report = run(place)
    assert (report["outcome"], report["version"], report["chunks"]["embedded"]) == ("published", "v0002", 0)
    assert read_manifest(index_dir, "v0002").digest == before.digest


def test_a_version_of_a_newer_format_asks_for_the_newer_almanac(tmp_path: Path) -> None:
    place = make_place(tmp_path / "place", {"n.txt": text_of("a note")})
    index_dir = DataDir(place / "data").index("proof")
    with small_and_here(place):
        assert run(place)["outcome"] == "published"
    _set_format(index_dir, FORMAT + 1)
    with pytest.raises(DamagedVersion) as raised:
        read_manifest(index_dir, "v0001")
    assert str(raised.value.hint).startswith("install the newer almanac that wrote v0001; or almanac run KB")
