"""What `almanac serve` bears: requests a second and latency, by how many ask at once, and while a version is published.

    python -m benchmarks.serve_load [--seconds 10] [--clients 1 8 32] [--workers 1 2] [--stream]

The handbook of the examples is published into a folder of its own and served by processes of their own, on loopback.
Clients ask `POST /api/search` and `POST /api/chat` one question after the other, without a pause, and share the machine
with the server. No question is asked twice. Published are answers a second, latency, processor time of the server for
an answer, and how many requests failed.
"""

import argparse
import http.client
import itertools
import json
import os
import random
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
from urllib.parse import urlsplit

import httpx
import numpy as np

from almanac.core.settings import installation
from benchmarks.index import machine

_ROUTES = {"search": "query", "chat": "message"}  # path below /api, and the name of the question in its request
_AROUND = (
    "{question}", "{question} I joined in {month}.", "My team in {city} would like to know: {question}",
    "{question} We are {count} people in {city}.",
    "In short, and for {city}: {question}", "{question} It is about {month}, and {count} days.",
    "After {count} weeks here I wonder: {question}",
)  # fmt: skip
_CITIES = ("Berlin", "Lisbon", "Turin", "Oslo", "Riga", "Ghent", "Porto", "Lyon", "Krakow", "Malmo")
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_PUBLISH = """
import sys
from pathlib import Path
from urllib.parse import urlsplit
from almanac.flows.pipeline.ledger import Ledger
from almanac.flows.pipeline.run import Run
from almanac.flows.refresh import carry_out
from almanac.core.load import load_declaration
from almanac.core.settings import DataDir, quiet_engines

quiet_engines()
report = carry_out(Ledger(Run(load_declaration(sys.argv[1], ""), DataDir(Path(sys.argv[2])))))
sys.exit(report.outcome != "published")
"""


@dataclass
class Load:
    """What clients saw: seconds of each answer, its version, and how many requests failed; and the processor time that
    the server took meanwhile.
    """

    seconds: list[float] = field(default_factory=list)
    versions: set[str] = field(default_factory=set)
    failed: int = 0
    took_s: float = 0.0
    server_s: float = 0.0


@dataclass(frozen=True)
class Served:
    """A server that answers: its address, and the id of the process that was started."""

    address: str
    pid: int


def main() -> None:
    arguments = _arguments()
    rows: dict[tuple[str, ...], Load] = {}
    with tempfile.TemporaryDirectory(prefix="benchmark-serve-") as name:
        folder = Path(name)
        declaration = _declare(folder)
        _publish(declaration, folder)
        for workers in arguments.workers:
            with _served(declaration, folder, workers) as served:
                questions = _questions(folder)
                for route in _ROUTES:
                    # that nobody counts
                    _load(served, route, 8, questions, lambda: time.sleep(3), is_streamed=arguments.stream)
                for route, count in itertools.product(_ROUTES, arguments.clients):
                    rows[f"{workers}", route, f"{count}"] = _load(
                        served,
                        route,
                        count,
                        questions,
                        lambda: time.sleep(arguments.seconds),
                        is_streamed=arguments.stream,
                    )
                _add_an_answer(folder)
                during = _load(
                    served, "chat", 8, questions, lambda: _publish(declaration, folder), is_streamed=arguments.stream
                )
                rows[f"{workers}", "chat", "8, during a publication"] = during
    _show(rows)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--stream", action="store_true", help="ask chat for server-sent events")
    return parser.parse_args()


def _declare(folder: Path) -> Path:
    root = installation()
    shutil.copytree(root / "examples" / "handbook", folder / "examples" / "handbook")
    shutil.copytree(root / "knowledge", folder / "knowledge")
    return folder / "knowledge" / "handbook.yaml"


def _questions(folder: Path) -> Iterator[str]:
    """Questions, each another one, without end: those of the handbook and its golden ones, in other circumstances each
    time.
    """
    headings = re.findall(
        r"^### (.+)$", (folder / "examples" / "handbook" / "faq.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    golden = [
        json.loads(line)["question"]
        for line in (folder / "knowledge" / "handbook.golden.jsonl").read_text(encoding="utf-8").splitlines()
        if line.strip()
    ]
    chosen, earlier_questions = random.Random(1), set[str]()
    while True:
        circumstances = {
            "city": chosen.choice(_CITIES),
            "month": chosen.choice(_MONTHS),
            "count": chosen.randint(2, 9_999),
        }
        question = chosen.choice(_AROUND).format(question=chosen.choice([*headings, *golden]), **circumstances)
        if question not in earlier_questions:
            earlier_questions.add(question)
            yield question


def _add_an_answer(folder: Path) -> None:
    page = next((folder / "examples" / "handbook").glob("*.md"))
    page.write_text(
        f"{page.read_text(encoding='utf-8')}\n## May I keep bees on the roof?\n\nYes, two hives, after a course.\n",
        encoding="utf-8",
    )


def _publish(declaration: Path, folder: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", _PUBLISH, str(declaration), str(folder / "data")],
        cwd=installation(),
        check=True,
        capture_output=True,
    )


@contextmanager
def _served(declaration: Path, folder: Path, workers: int) -> Iterator[Served]:
    command = [
        sys.executable,
        "-m",
        "almanac.cli.main",
        "serve",
        "--kb",
        str(declaration),
        "--port",
        "0",
        "--data",
        str(folder / "data"),
    ]
    command += ["--workers", str(workers)]
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("ALMANAC_API_KEYS", "ALMANAC_ENV", "INDEX_NAME")
    }
    with subprocess.Popen(command, cwd=installation(), env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = re.sub(r".* ", "", process.stdout.readline().strip())
            while httpx.get(f"{address}ready", trust_env=False).status_code != 200:
                time.sleep(0.2)
            time.sleep(3)  # until each worker has loaded the model
            yield Served(address, process.pid)
        finally:
            process.terminate()


def _processor_s(pid: int) -> float:
    """Processor seconds of a process and of the children that it has now."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + sum(
        _processor_s(int(child)) for child in children
    )


def _load(
    served: Served,
    route: str,
    count: int,
    questions: Iterator[str],
    meanwhile: Callable[[], None],
    *,
    is_streamed: bool,
) -> Load:
    """Clients ask until `meanwhile` is done."""
    load, is_over, lock, to_ask = Load(), threading.Event(), threading.Lock(), threading.Lock()

    def ask() -> None:
        server = urlsplit(served.address)
        # costs a tenth of what httpx does
        connection = http.client.HTTPConnection(str(server.hostname), server.port, timeout=120)
        while not is_over.is_set():
            with to_ask:
                question = next(questions)
            body = json.dumps(
                {_ROUTES[route]: question, **({"stream": True} if is_streamed and route == "chat" else {})}
            )
            begun = time.perf_counter()
            connection.request("POST", f"/api/{route}", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read().decode()
            seconds = time.perf_counter() - begun
            version = re.search(r'"version": ?"(v\d+)"', text)
            with lock:
                load.seconds.append(seconds)
                load.failed += response.status != 200 or version is None
                load.versions |= {version[1]} if version else set()
        connection.close()

    begun, before = time.perf_counter(), _processor_s(served.pid)
    with ThreadPoolExecutor(count) as pool:
        clients = [pool.submit(ask) for _ in range(count)]
        try:
            meanwhile()
        finally:
            is_over.set()
        for client in clients:
            client.result()
    load.took_s, load.server_s = time.perf_counter() - begun, _processor_s(served.pid) - before
    return load


def _show(rows: dict[tuple[str, ...], Load]) -> None:
    lines = [
        "| workers | asked | clients | answers/s | p50 ms | p99 ms | server's processor ms an answer | answers | "
        "failed | versions |"
    ]
    lines.append("|---:|---|---|---:|---:|---:|---:|---:|---:|---|")
    for labels, load in rows.items():
        half, worst = 1000 * np.percentile(load.seconds, [50, 99])
        versions: Sequence[str] = sorted(load.versions)
        count = len(load.seconds)
        lines.append(
            f"| {' | '.join(labels)} | {count / load.took_s:.1f} | {half:.0f} | {worst:.0f} | "
            f"{1000 * load.server_s / count:.1f} | {count} | {load.failed} "
            f"| {', '.join(versions)} |"
        )
    sys.stdout.write("\n".join([*lines, "", f"Extractive answers over the handbook; {machine()}."]) + "\n")


if __name__ == "__main__":
    main()
