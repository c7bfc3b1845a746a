"""The key of an API from a Secret block of Prefect's, with Prefect's real API."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Almanac
from tests.loopback.mistral import LoopbackMistral

pytestmark = pytest.mark.slow
KEY = "sk-from-a-block-1234567890"
_DECLARATION = """
name: small
sources: [{{name: notes, kind: files, glob: "*.txt", yields: documents}}]
embed: {{provider: mistral, server_url: {url}, dimension: 16}}
"""
_SAVE = """
import sys
from prefect.blocks.system import Secret
Secret(value=sys.argv[1]).save("mistral-api-key")
"""


def test_run_without_a_key_takes_it_from_the_block_and_writes_it_nowhere(
    almanac: Almanac, tmp_path: Path, prefect_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MISTRAL_API_KEY", raising=False)
    (tmp_path / "note.txt").write_text("A note that says something.")
    with LoopbackMistral(dimension=16) as server:
        declared = tmp_path / "small.yaml"
        declared.write_text(_DECLARATION.format(url=server.url))
        without = almanac("run", str(declared), "--json")
        assert (without.code, without.json["error"]["kind"]) == (7, "credential_refused")
        subprocess.run(
            [sys.executable, "-c", _SAVE, KEY], cwd=ROOT, env={**os.environ, **almanac.environment}, check=True
        )
        done = almanac("run", str(declared), "--json")
    assert (done.code, done.json["outcome"]) == (0, "published"), done.stderr
    assert len(server.requests) == 1
    assert KEY not in done.stdout + done.stderr
    assert [
        path
        for place in (tmp_path, prefect_home)
        for path in place.rglob("*")
        if path.is_file() and KEY.encode() in path.read_bytes()
    ] == []
