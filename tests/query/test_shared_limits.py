"""An API's declared limits are kept in the data directory that is used, by all processes that use it."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from almanac.core.settings import installation
from tests.loopback.mistral import LoopbackMistral
from tests.query.small_base import SmallBase

_SECONDS = 50  # that a request books
_ASKING = """
import sys, time
time.sleep = lambda _: None  # what is booked counts, not the wait
from almanac.query import open_index
with open_index(sys.argv[1], data=sys.argv[2]) as index:
    index.search("When does the garden close?", k=1)
    index.ask("Do dogs stay outside?", floor=-1.0)
"""
_EVALUATING = """
import sys, time
time.sleep = lambda _: None
from almanac.cli.main import main
sys.argv = ["almanac", *sys.argv[1:]]
main()
"""


@pytest.mark.slow
def test_processes_share_the_limits_of_the_data_that_they_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    monkeypatch.setenv("MISTRAL_API_KEY", "any")
    monkeypatch.setenv("ALMANAC_DATA", str(elsewhere))
    monkeypatch.setattr("almanac.index.api.rate_limit.time.sleep", lambda _: None)
    base = SmallBase(tmp_path)
    limits = base.data / "limits"
    with LoopbackMistral(dimension=16) as server:
        limited = {"provider": "mistral", "server_url": server.url, "requests_per_second": 1 / _SECONDS}
        path = base.publish(embed={**limited, "dimension": 16}, generate=limited)
        (embedding,) = limits.glob("*[!k]")
        begun, before = time.time(), float(embedding.read_text())
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", _ASKING, path, str(base.data)],
                cwd=installation(),
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        for process in processes:
            assert (process.communicate(timeout=120), process.returncode)[1] == 0
        requests = [request for request in server.requests if "input" in request]
        chats = [request for request in server.requests if "messages" in request]
        named = [path for path in limits.iterdir() if path.suffix != ".lock"]
        assert len(chats) == 2 and len(named) == 2, "a limit for each of the two models"
        (generating,) = [path for path in named if path != embedding]
        assert float(embedding.read_text()) - before >= _SECONDS * 4, (
            f"two questions of two processes were not booked one after the other: {len(requests)}"
        )
        assert float(generating.read_text()) - begun >= _SECONDS * 2

        (tmp_path / "q.jsonl").write_text(json.dumps({"id": "1", "text": "garden"}) + "\n")
        (tmp_path / "r.tsv").write_text("query-id\tdoc-id\tscore\n1\tgarden.txt\t1\n")
        booked = float(embedding.read_text())
        command = [
            "eval",
            path,
            "--queries",
            str(tmp_path / "q.jsonl"),
            "--qrels",
            str(tmp_path / "r.tsv"),
            "--data",
            str(base.data),
            "--json",
        ]
        subprocess.run(
            [sys.executable, "-c", _EVALUATING, *command],
            cwd=installation(),
            capture_output=True,
            timeout=120,
            check=False,
        )
        assert float(embedding.read_text()) - booked >= _SECONDS * 0.99
    assert not elsewhere.exists(), "something was written into the default data directory"
