"""The package in examples/plugin, installed: its embedder and its generator are found by name."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

_DECLARED = """
name: hashed
sources: [{name: notes, kind: files, glob: "notes.md", yields: documents}]
embed: {provider: hashed, options: {dimension: 512}}
generate: {provider: first}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package in it."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    copy = tmp_path_factory.mktemp("source") / "plugin"
    copy.mkdir()
    for file in (ROOT / "examples" / "plugin").iterdir():
        if file.is_file():
            (copy / file.name).write_bytes(file.read_bytes())
    subprocess.run([*pip, "--target", str(folder), str(copy)], check=True, capture_output=True)
    return folder


def almanac(*arguments: str, path: Path, data: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(path), "ALMANAC_DATA": str(data), "ALMANAC_LOG": "error"}
    command = [str(Path(sys.executable).parent / "almanac"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=data)


@pytest.mark.slow
def test_a_knowledge_base_is_built_and_asked_with_it(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text(
        "# Hours\n\nThe garden closes at six in summer.\n\n# Dogs\n\nDogs stay outside.\n"
    )
    (tmp_path / "hashed.yaml").write_text(_DECLARED)
    run = almanac("run", "hashed.yaml", path=installed, data=tmp_path)
    assert run.returncode == 0, run.stderr
    process = almanac("ask", "hashed.yaml", "When does the garden close?", "--json", path=installed, data=tmp_path)
    assert process.returncode == 0, process.stderr
    assert "The garden closes at six in summer." in json.loads(process.stdout)["reply"]
    without = almanac("ask", "hashed.yaml", "When?", path=tmp_path, data=tmp_path)
    assert without.returncode == 2
    assert "embed.provider: no installed package provides it; there are local, mistral, openai" in without.stderr
