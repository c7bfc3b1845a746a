"""A version in a read-only data directory is searched, and nothing is written beside it."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from almanac.core.settings import installation
from almanac.index.reader import OpenVersion
from almanac.index.versions.version_store import version_dir

_SEARCH = """
import sys
from pathlib import Path
import numpy as np
from almanac.index.reader import OpenVersion
with OpenVersion(Path(sys.argv[1]) / "index" / "notes", "v0001") as version:
    print([len(version.query(np.full(16, 0.25, dtype=np.float32), 5)), len(version.lexical("text 7", 5)), len(version.rows(version.chunk_ids[:3]))])
"""  # noqa: E501


@pytest.fixture
def base(published: Any, tmp_path: Path) -> Any:
    shutil.copytree(published.root, tmp_path / "base")
    return replace(published, root=tmp_path / "base")


def test_a_search_writes_nothing(base: Any) -> None:
    before = {path: path.read_bytes() for path in version_dir(base.index_dir, "v0001").rglob("*") if path.is_file()}
    with OpenVersion(base.index_dir, "v0001") as version:
        assert len(version.query(np.linspace(-1, 1, 16, dtype=np.float32), 10)) == 10
        assert version.lexical("text 7", 5) != []
    assert {
        path: path.read_bytes() for path in version_dir(base.index_dir, "v0001").rglob("*") if path.is_file()
    } == before


@pytest.mark.slow
def test_a_read_only_file_system_is_searched(base: Any) -> None:
    mount = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && ! touch "$1/x" 2>/dev/null'
    if subprocess.run(
        ["unshare", "-m", "sh", "-c", mount, "sh", str(base.root)], capture_output=True, check=False
    ).returncode:
        pytest.skip("nothing may be mounted here")
    command = [
        "unshare",
        "-m",
        "sh",
        "-c",
        f'{mount} && exec "$2" -c "$3" "$1"',
        "sh",
        str(base.root),
        sys.executable,
        _SEARCH,
    ]
    done = subprocess.run(command, cwd=installation(), capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("[5, 5, 3]\n", 0), done.stderr
