"""What each bundled embedder costs: seconds to load, for passages and for one question, memory and disk.

    python -m benchmarks.embedders --corpus FILE.jsonl [FILE.jsonl FILE.md ...] [--passages 1500] [--questions 50]

Each is measured in a process of its own, one after the other; loading includes imports of what computes it. Passages
are those of `benchmarks.first_build`. What is printed is Markdown.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from almanac.index.embedding.model_folder import BUNDLED
from benchmarks.first_build import machine, passages_of

_LONGEST_QUESTION = 80  # characters


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, nargs="+", default=[], help="JSONL with `text`, or text")
    parser.add_argument("--passages", type=int, default=1500, help="how many of them, spread over the corpora")
    parser.add_argument("--questions", type=int, default=50, help="how many single questions")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        sys.stdout.write(json.dumps(_measure(arguments.side, **json.load(sys.stdin))) + "\n")
        return
    passages = passages_of(arguments.corpus, arguments.passages)
    questions = [passage[:_LONGEST_QUESTION] for passage in passages[:: max(1, len(passages) // arguments.questions)]]
    _show({model: _in_own_process(model, passages, questions) for model in BUNDLED}, passages)


def _in_own_process(model: str, passages: list[str], questions: list[str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.embedders", "--side", model]
    done = subprocess.run(
        command,
        input=json.dumps({"passages": passages, "questions": questions}),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def _measure(model: str, passages: list[str], questions: list[str]) -> dict[str, Any]:
    from almanac.core.settings import quiet_engines
    from almanac.index.embedding.embedder import load_embedder
    from almanac.index.embedding.model_folder import find_model
    from almanac.schemas.declaration.embed_section import Embed

    quiet_engines()
    embed = Embed(model=model)
    folder = find_model(embed)
    places = [path for path in (folder.path, folder.tokenizer()) if path]
    files = [path for path in folder.path.rglob("*") if path.is_file()] or places
    start = time.perf_counter()
    embedder = load_embedder(embed)
    loaded = time.perf_counter()
    embedder.embed_queries(questions[:1])
    idle = _resident_mib()
    singles = []
    for question in questions:
        begin = time.perf_counter()
        embedder.embed_queries([question])
        singles.append(time.perf_counter() - begin)
    begin, used = time.perf_counter(), time.process_time()
    embedder.embed_documents(passages)
    return {
        "load": loaded - start,
        "question": statistics.median(singles),
        "passages": time.perf_counter() - begin,
        "processor": time.process_time() - used,
        "idle": idle,
        "disk": sum(path.stat().st_size for path in files) / 2**20,
    }


def _resident_mib() -> tuple[float, float]:
    """Memory of this process alone, and of files that it shares with others that have them mapped."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines())
    return int(status["RssAnon"].split()[0]) / 1024, int(status["RssFile"].split()[0]) / 1024


def _show(measured: dict[str, dict[str, Any]], passages: list[str]) -> None:
    characters = statistics.mean(map(len, passages))
    lines = [
        f"Bundled embedders, {len(passages)} passages of {characters:.0f} characters on average. {machine()}",
        "",
        f"| embedder | load s | {len(passages)} passages s | processor s | one question ms (median) | memory MiB, "
        "own + mapped files | disk MiB |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for model, figures in measured.items():
        own, mapped = figures["idle"]
        lines.append(
            f"| `{model}` | {figures['load']:.1f} | {figures['passages']:.1f} | {figures['processor']:.1f} | "
            f"{figures['question'] * 1000:.0f} "
            f"| {own:.0f} + {mapped:.0f} | {figures['disk']:.0f} |"
        )
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
