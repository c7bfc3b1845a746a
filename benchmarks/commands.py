"""What commands cost before they begin: help, an error of use, a question and an unchanged run, each in a process of
its own, against `import prefect`.

    python -m benchmarks.commands [--rounds 5] [--kb handbook]

An example knowledge base is published into a folder of its own. Each round runs every command once, so that all see the
same machine. Published are medians of seconds, and of processor time with that of child processes, which other work on
the machine disturbs least; both also as a multiple of `import prefect`.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from almanac.core.settings import installation
from benchmarks.index import machine

_BARE = "`import prefect`"


class Cost(NamedTuple):
    """One command: seconds on the clock, and of processors."""

    seconds: float
    processor_s: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kb", default="handbook", help="an example whose source is files")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="benchmark-commands-") as name:
        project = Path(name)
        for folder in ("examples", "knowledge"):
            shutil.copytree(installation() / folder, project / folder)
        commands = _commands(project, arguments.kb)
        _cost(commands["unchanged run"])  # publishes
        rounds = [{name: _cost(command) for name, command in commands.items()} for _ in range(arguments.rounds)]
    _show(rounds)


def _commands(project: Path, kb: str) -> dict[str, list[str]]:
    almanac = [str(Path(sys.executable).with_name("almanac")), "--project", str(project)]
    question = "How many days of leave do I have?"
    return {
        _BARE: [sys.executable, "-c", "import prefect"],
        "`almanac --help`": [*almanac, "--help"],
        "error of use": [*almanac, "run", "--no-such-option"],
        "`almanac search`": [*almanac, "search", kb, question],
        "`almanac ask`": [*almanac, "ask", kb, question],
        "unchanged run": [*almanac, "run", kb],
    }


def _cost(command: Sequence[str]) -> Cost:
    before, begun = _processor_s(), time.perf_counter()
    done = subprocess.run(command, cwd=installation(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode not in (0, 2):
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr.decode()}")
    return Cost(time.perf_counter() - begun, _processor_s() - before)


def _processor_s() -> float:
    """Of all child processes that have ended, and of theirs."""
    times = os.times()
    return times.children_user + times.children_system


def _show(rounds: Sequence[dict[str, Cost]]) -> None:
    medians = {
        name: Cost(*(statistics.median(values) for values in zip(*(costs[name] for costs in rounds), strict=True)))
        for name in rounds[0]
    }
    bare = medians[_BARE]
    lines = ["| command | seconds | of `import prefect` | processor seconds | of its |", "|---|---:|---:|---:|---:|"]
    for name, cost in medians.items():
        seconds, processor_s = cost.seconds / bare.seconds, cost.processor_s / bare.processor_s
        lines.append(f"| {name} | {cost.seconds:.2f} | {seconds:.2f} | {cost.processor_s:.2f} | {processor_s:.2f} |")
    sys.stdout.write("\n".join([*lines, "", f"{machine()}."]) + "\n")


if __name__ == "__main__":
    main()
