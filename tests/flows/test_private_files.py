"""Who may read a data directory: pages, reports and logs their owner alone, what readers need as the umask says."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from almanac.core.durable import create, make_folder, write_file
from almanac.core.settings import DataDir
from almanac.core.store.objects import Objects
from almanac.core.store.working_copy import WorkingCopy
from tests.conftest import Almanac

_DECLARED = "name: notes\nsources: [{name: pages, kind: files, glob: 'notes/*.md'}]\n"


@pytest.fixture(params=[0o022, 0o002, 0o027], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def _modes(root: Path) -> dict[str, int]:
    return {
        str(path.relative_to(root)): stat.S_IMODE(path.stat().st_mode)
        for path in root.rglob("*")
        if not path.is_symlink()
    }


def test_pages_reports_and_logs_are_their_owners_alone_and_the_index_is_as_the_umask_says(
    tmp_path: Path, almanac_alone: Almanac
) -> None:
    before = os.umask(0o022)
    try:
        folder = tmp_path / "project"
        (folder / "notes").mkdir(parents=True)
        for n in range(3):
            (folder / f"notes/{n}.md").write_text(f"# Note {n}\n\nWhat stands in note {n} is nobody else's business.\n")
        (folder / "notes.yaml").write_text(_DECLARED)
        done = almanac_alone("run", str(folder / "notes.yaml"))
        assert done.code == 0, done.stderr
    finally:
        os.umask(before)
    modes = _modes(almanac_alone.data)
    private = {name: mode for name, mode in modes.items() if name.partition("/")[0] in ("raw", "processed", "prefect")}
    assert {name for name in ("raw", "processed", "prefect") if name not in private} == set()
    assert any(name.startswith("raw/notes/pages/") for name in private) and any(
        "/runs/" in name and name.endswith(".json") for name in private
    )
    assert {name: oct(mode) for name, mode in private.items() if mode & 0o077} == {}
    open_to_all = {name: mode for name, mode in modes.items() if name.partition("/")[0] == "index"}
    assert any(name.endswith("manifest.json") for name in open_to_all)
    unreadable = {
        name: oct(mode)
        for name, mode in open_to_all.items()
        if mode & 0o044 != 0o044 or ((almanac_alone.data / name).is_dir() and mode & 0o011 != 0o011)
    }
    assert unreadable == {}


def test_a_private_folder_makes_what_is_created_in_it_private(tmp_path: Path, umask: int) -> None:
    root = tmp_path / "open"
    root.mkdir()
    make_folder(root / "secret/inner", is_private=True)
    make_folder(root / "secret/inner/more/most")
    write_file(root / "secret/inner/a/file", b"x")
    with create(root / "secret/inner/log") as file:
        file.write(b"x")
    write_file(root / "plain/b/file", b"x")
    write_file(root / "secret/inner/a/asked-for", b"x", is_for_user=True)
    modes = _modes(root)
    assert modes["secret"] == 0o777 & ~umask  # others pass through it
    assert {modes[f"secret/inner{name}"] for name in ("", "/more", "/more/most", "/a")} == {0o700}
    assert {modes[f"secret/inner/{name}"] for name in ("a/file", "log")} == {0o600}
    assert {modes[name] for name in ("plain", "plain/b")} == {0o777 & ~umask}
    assert {modes[name] for name in ("plain/b/file", "secret/inner/a/asked-for")} == {0o666 & ~umask}


def test_the_mode_of_a_folder_that_exists_stays(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw").chmod(0o750)  # a group that makes backups
    data.make_private_folders()
    data.make_private_folders()
    modes = _modes(tmp_path)
    assert (modes["raw"], modes["processed"], modes["prefect"]) == (0o750, 0o700, 0o700)


def test_the_copy_of_a_store_is_its_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALMANAC_CACHE", str(tmp_path / "cache"))
    data = DataDir.locate("s3://bucket/prefix")
    data.make_private_folders()
    assert stat.S_IMODE(data.root.stat().st_mode) == 0o700
    other = tmp_path / "cache" / "stores" / "reader" / "notes"
    WorkingCopy(Objects("s3://bucket/prefix"), "notes", other).close()
    assert {name: oct(mode) for name, mode in _modes(other.parent).items() if mode & 0o077 and name == "notes"} == {}
