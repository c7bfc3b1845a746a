"""What `almanac serve` bears: requests a second and latency, by how many ask at once, and while a version is published.

    python -m benchmarks.serve [--seconds 10] [--clients 1 8 32] [--stream]

The handbook of the examples is published into a folder of its own and served by a process of its own, on loopback. Clients ask `POST /api/chat` one question
after the other, without a pause, and share the machine with the server. Published are requests a second, latency, and how many failed.
"""

import argparse
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np

from almanac.core.settings import installation
from benchmarks.index import machine

_QUESTIONS = (
    "How many days of annual leave do I have?", "Who pays for a train ticket to the other office?", "When are expenses paid back?",
    "May I work from another country?", "What happens on a public holiday?", "Whom do I tell that I am ill?", "Where is the fire assembly point?",
)  # fmt: skip
_PUBLISH = """
import sys
from pathlib import Path
from almanac.flows.pipeline.refresh import carry_out
from almanac.flows.pipeline.run import Run
from almanac.core.load import load_declaration
from almanac.core.settings import DataDir, quiet_engines

quiet_engines()
report = carry_out(Run(load_declaration(sys.argv[1], ""), DataDir(Path(sys.argv[2]))))
sys.exit(report["outcome"] != "published")
"""


@dataclass
class Load:
    """What clients saw: seconds of each answer, its version, and how many requests failed."""

    seconds: list[float] = field(default_factory=list)
    versions: set[str] = field(default_factory=set)
    failed: int = 0
    took_s: float = 0.0


def main() -> None:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="benchmark-serve-") as name:
        folder = Path(name)
        declaration = _declare(folder)
        _publish(declaration, folder)
        with _served(declaration, folder) as address:
            _load(address, 2, lambda: time.sleep(2), is_streamed=arguments.stream)  # that nobody counts
            rows = {f"{count}": _load(address, count, lambda: time.sleep(arguments.seconds), is_streamed=arguments.stream) for count in arguments.clients}
            _add_an_answer(folder)
            rows["8, during a publication"] = _load(address, 8, lambda: _publish(declaration, folder), is_streamed=arguments.stream)
    _show(rows)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--stream", action="store_true", help="ask for server-sent events")
    return parser.parse_args()


def _declare(folder: Path) -> Path:
    root = installation()
    shutil.copytree(root / "examples" / "handbook", folder / "examples" / "handbook")
    shutil.copytree(root / "knowledge", folder / "knowledge")
    return folder / "knowledge" / "handbook.yaml"


def _add_an_answer(folder: Path) -> None:
    page = next((folder / "examples" / "handbook").glob("*.md"))
    page.write_text(f"{page.read_text(encoding='utf-8')}\n## May I keep bees on the roof?\n\nYes, two hives, after a course.\n", encoding="utf-8")


def _publish(declaration: Path, folder: Path) -> None:
    subprocess.run([sys.executable, "-c", _PUBLISH, str(declaration), str(folder / "data")], cwd=installation(), check=True, capture_output=True)


@contextmanager
def _served(declaration: Path, folder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "almanac.cli.main", "serve", "--kb", str(declaration), "--port", "0", "--data", str(folder / "data")]
    environment = {name: value for name, value in os.environ.items() if name not in ("ALMANAC_API_KEYS", "ALMANAC_ENV", "INDEX_NAME")}
    with subprocess.Popen(command, cwd=installation(), env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = re.sub(r".* ", "", process.stdout.readline().strip())
        while httpx.get(f"{address}ready", trust_env=False).status_code != 200:
            time.sleep(0.2)
        yield address
        process.terminate()


def _load(address: str, count: int, meanwhile: Callable[[], None], *, is_streamed: bool) -> Load:
    """Clients ask until `meanwhile` is done."""
    load, is_over, lock = Load(), threading.Event(), threading.Lock()

    def ask(number: int) -> None:
        questions = itertools.islice(itertools.cycle(_QUESTIONS), number, None)
        with httpx.Client(base_url=address, timeout=120, trust_env=False) as client:
            while not is_over.is_set():
                begun = time.perf_counter()
                response = client.post("api/chat", json={"message": next(questions), "stream": is_streamed})
                seconds = time.perf_counter() - begun
                version = re.search(r'"version": ?"(v\d+)"', response.text)
                with lock:
                    load.seconds.append(seconds)
                    load.failed += response.status_code != 200 or version is None
                    load.versions |= {version[1]} if version else set()

    begun = time.perf_counter()
    with ThreadPoolExecutor(count) as pool:
        clients = [pool.submit(ask, number) for number in range(count)]
        try:
            meanwhile()
        finally:
            is_over.set()
        for one in clients:
            one.result()
    load.took_s = time.perf_counter() - begun
    return load


def _show(rows: dict[str, Load]) -> None:
    lines = ["| clients | requests/s | p50 ms | p95 ms | p99 ms | requests | failed | versions |", "|---|---:|---:|---:|---:|---:|---:|---|"]
    for name, load in rows.items():
        half, most, worst = 1000 * np.percentile(load.seconds, [50, 95, 99])
        versions: Sequence[str] = sorted(load.versions)
        count = len(load.seconds)
        lines.append(
            f"| {name} | {count / load.took_s:.1f} | {half:.0f} | {most:.0f} | {worst:.0f} | {count} | {load.failed} | {', '.join(versions)} |"
        )  # fmt: skip
    sys.stdout.write("\n".join([*lines, "", f"Extractive answers over the handbook; {machine()}."]) + "\n")


if __name__ == "__main__":
    main()
