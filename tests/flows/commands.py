"""Commands on the notes as a user starts them, in processes of their own, but for the model: for tests that signal and
kill them.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.flows import refresh
from almanac.flows.pipeline.ledger import Ledger
from almanac.flows.pipeline.run import Run
from almanac.index.versions.lock import lock_holder
from almanac.index.versions.version_store import current_version, read_manifest
from tests.conftest import PATIENCE_S, ROOT
from tests.processes import carrying


def carry_out(run: Run, **options: bool) -> dict[str, Any]:
    """The report of a run below Prefect, in this process."""
    return refresh.carry_out(Ledger(run), **options).model_dump(by_alias=True)


@contextmanager
def before(step: str, deed: Callable[[], object]) -> Iterator[None]:
    """Does something else before a step of the next run in this process."""
    task = getattr(refresh, step)
    once = iter([deed])

    def do(*arguments: Any, **named: Any) -> Any:
        for only_deed in once:
            only_deed()
        return task(*arguments, **named)

    with patch.object(refresh, step, do):
        yield


class Commands:
    """The notes, and runs of them in processes of their own, with an embedder of a few lines."""

    def __init__(self, declared: Path, prefect_home: Path) -> None:
        self.declared = declared
        self.data = DataDir(declared.parent / "data")
        self._home = prefect_home

    def start(self, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        own = {
            "ALMANAC_DATA": str(self.data.root),
            "ALMANAC_PROOF_EMBEDDED": str(self.declared.parent / "embedded.txt"),
            "PREFECT_HOME": str(self._home),
        }
        command = [sys.executable, "-m", "tests.proof.command", *(arguments or ("run", str(self.declared), "--json"))]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        # Tests that run in the background of a shell have SIGINT ignored, and under nohup SIGHUP; so would what they
        # start.
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **own, **environment},
            start_new_session=True,
            preexec_fn=_heed_signals,
            **pipes,
        )

    def when(self, pattern: str, process: "subprocess.Popen[str]") -> None:
        """Waits until the data directory has such a file."""
        deadline = time.monotonic() + PATIENCE_S
        while not list(self.data.root.glob(pattern)):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def require_ended_well(self, process: "subprocess.Popen[str]") -> str:
        """Published, nothing left behind, and the same as a run without any trouble makes of it; gives what was said on
        the way.
        """
        out, err = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, json.loads(out)["outcome"]) == (5, "published_with_rejects"), err
        assert "Traceback" not in err
        assert carrying(f"ALMANAC_DATA={self.data.root}\0") == []
        assert lock_holder(self.data.index("many")) is None
        assert self.run_here()["outcome"] == "unchanged"
        other = DataDir(self.declared.parent / "other")
        self.run_here(other)
        digests = {
            read_manifest(data_dir.index("many"), str(current_version(data_dir.index("many")))).digest
            for data_dir in (self.data, other)
        }
        assert len(digests) == 1
        return err

    def last_report(self) -> Any:
        """The report of the newest run; None if there is none."""
        reports = sorted(self.data.runs("many").glob("*-??????.json"))
        return json.loads(reports[-1].read_bytes()) if reports else None

    def run_here(self, data: DataDir | None = None) -> dict[str, Any]:
        """The report of a run in this process."""
        return carry_out(Run(load_declaration(str(self.declared), ""), data or self.data))


def _heed_signals() -> None:
    for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signal_number, signal.SIG_DFL)
