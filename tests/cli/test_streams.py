"""Commands whose stdout or stderr is closed, full, or read by nobody: they end with the exit code that they have
earned.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PATIENCE_S, ROOT

_ALMANAC = f"{sys.executable} -m almanac.cli.main"


def _code(line: str, folder: Path) -> int:
    """The exit code of a command in a shell. Its project has one knowledge base, of which nothing is published."""
    (folder / "knowledge").mkdir(exist_ok=True)
    declaration = "name: notes\nsources:\n  - {name: notes, kind: files, glob: '*.md', yields: documents}\n"
    (folder / "knowledge" / "notes.yaml").write_text(declaration)
    environment = {**os.environ, "ALMANAC_PROJECT": str(folder), "ALMANAC_DATA": str(folder / "data")}
    command = ["bash", "-o", "pipefail", "-c", line.replace("almanac", _ALMANAC)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert "Traceback" not in done.stderr
    return done.returncode


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("almanac validate notes 2>&-", 0),
        ("almanac validate notes >&-", 0),
        ("almanac validate notes --json >&-", 0),
        ("almanac search nothing x 2>&-", 2),
        ("almanac search nothing x --json >&-", 2),
        ("almanac validate notes --json >/dev/full", 7),
        ("almanac validate notes >/dev/full", 7),
        ("almanac search nothing x --json >/dev/full", 2),
        ("almanac validate notes | true", 0),
        ("almanac search nothing x --json | true", 2),
        ("almanac search notes x --json | true", 2),
        ("almanac --help | true", 0),
    ],
)
def test_a_command_ends_with_its_own_exit_code_whoever_reads_it(tmp_path: Path, line: str, code: int) -> None:
    assert _code(line, tmp_path) == code
