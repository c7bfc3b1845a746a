"""Seconds of a first build: the whole `almanac run` command against bare `SentenceTransformer.encode` of the same
texts.

    python -m benchmarks.first_build --corpus FILE.jsonl [FILE.jsonl FILE.md ...] [--passages 4000] [--rounds 1]

Corpora are JSONL with a `text` on each line, or plain text; what is longer than a passage is cut at white space. The
command is timed from its start to its end: interpreter, Prefect, reading, mapping, validation, embedding, build,
verification, publication. `encode` (single precision, batches of 32) is timed alone, in a process that has loaded the
model and encoded a batch already, on the very texts that the command embedded. Published are ratios; seconds are this
machine's. What is printed is Markdown.
"""

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

_LONGEST = 1000  # characters of a passage
_SHORTEST = 200
_SOFTWARE = ("torch", "sentence-transformers", "chromadb", "prefect")
_PRECISIONS = ("float32", "bfloat16")


class Built(NamedTuple):
    """One whole command."""

    seconds: float
    stages: dict[str, float]
    worst_cosine: float  # of its vectors to those of `encode`


def main() -> None:
    arguments = _arguments()
    if arguments.side:
        _bare(arguments.side)
        return
    passages = passages_of(arguments.corpus, arguments.passages)
    rounds = [_round(passages, arguments.precision) for _ in range(arguments.rounds)]
    _show(rounds, passages)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, nargs="+", default=[], help="JSONL with `text`, or text")
    parser.add_argument("--passages", type=int, default=4000, help="how many of them, spread over the corpora")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--precision", nargs="+", choices=_PRECISIONS, default=_PRECISIONS)
    parser.add_argument("--side", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def passages_of(corpora: list[Path], wanted: int) -> list[str]:
    """Different passages of real text, evenly taken from all corpora."""
    texts = (text for path in corpora for text in _texts(path))
    passages = list(
        dict.fromkeys(
            p for text in texts for p in textwrap.wrap(text, _LONGEST, break_long_words=False) if len(p) >= _SHORTEST
        )
    )
    if len(passages) < wanted:
        sys.exit(
            f"{len(passages)} passages of {_SHORTEST} to {_LONGEST} characters in {len(corpora)} corpora; {wanted} "
            "are wanted: name more with --corpus"
        )
    return [passages[len(passages) * number // wanted] for number in range(wanted)]


def _texts(path: Path) -> Iterator[str]:
    if path.suffix != ".jsonl":
        yield path.read_text(encoding="utf-8")
        return
    with path.open(encoding="utf-8") as lines:
        yield from (json.loads(line)["text"] for line in lines if line.strip())


def _round(passages: list[str], precisions: list[str]) -> tuple[float, dict[str, Built]]:
    """Seconds of `encode`, and each whole command, turn by turn: commands before and after it meet the same machine."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts = {str(number): text for number, text in enumerate(passages)}
        declared = {precision: declare(folder, precision, texts) for precision in precisions}
        ran = {precisions[0]: run_almanac(declared[precisions[0]], _data(folder, precisions[0]))}
        command = [sys.executable, "-m", "benchmarks.first_build", "--side", str(folder)]
        bare = json.loads(
            subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
        )["seconds"]
        ran |= {precision: run_almanac(declared[precision], _data(folder, precision)) for precision in precisions[1:]}
        return bare, {precision: Built(*timed, _worst_cosine(folder, precision)) for precision, timed in ran.items()}


def declare(folder: Path, precision: str, texts: dict[str, str]) -> Path:
    """Writes texts by id, and returns a declaration of them as records."""
    lines = (json.dumps({"id": number, "text": text}, ensure_ascii=False) for number, text in texts.items())
    (folder / "passages.jsonl").write_text("\n".join(lines), encoding="utf-8")
    fields = {"id": {"json": "id", "required": True}, "text": {"json": "text", "required": True}}
    source = {
        "name": "passages",
        "kind": "files",
        "glob": "passages.jsonl",
        "yields": "records",
        "id": "{id}",
        "fields": fields,
        "text": "{text}",
    }
    declared = folder / f"{precision}.yaml"
    declared.write_text(
        json.dumps({"name": precision, "sources": [source], "clean": "none", "embed": {"precision": precision}})
    )
    return declared


def run_almanac(declared: Path, data: Path) -> tuple[float, dict[str, float]]:
    """Seconds of `almanac run`, and of its stages."""
    command = [sys.executable, "-m", "almanac.cli.main", "run", str(declared), "--json", "--data", str(data)]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    report = json.loads(done.stdout)
    if done.returncode != 0:
        sys.exit(f"almanac run ended with {done.returncode}: {report.get('error') or done.stderr[-2000:]}")
    return seconds, report["seconds"]


def _data(folder: Path, precision: str) -> Path:
    return folder / f"data-{precision}"


def _bare(folder: Path) -> None:
    """The other side: `encode` of what the first command embedded; its vectors are kept for the comparison."""
    from almanac.core.settings import quiet_engines

    quiet_engines()
    import numpy as np
    from sentence_transformers import SentenceTransformer

    from almanac.index.embedding.model_folder import find_model
    from almanac.schemas.declaration.embed_section import Embed

    texts = _embedded(next(folder.glob("data-*")))
    model = SentenceTransformer(str(find_model(Embed()).path), device="cpu", local_files_only=True)
    everything = list(texts.values())
    model.encode(everything[:32], batch_size=32)
    start = time.perf_counter()
    vectors = model.encode(everything, batch_size=32, normalize_embeddings=True, show_progress_bar=False)
    seconds = time.perf_counter() - start
    np.savez(folder / "bare.npz", keys=np.array(list(texts)), vectors=vectors)
    sys.stdout.write(json.dumps({"seconds": seconds}) + "\n")


def _embedded(data: Path) -> dict[str, str]:
    """Every text that the command embedded, by its hash."""
    import pyarrow.parquet as pq

    (chunks,) = data.glob("processed/*/chunks.parquet")
    table = pq.read_table(chunks, columns=["text_sha256", "embedded_text"]).to_pydict()
    return dict(zip(table["text_sha256"], table["embedded_text"], strict=True))


def _worst_cosine(folder: Path, precision: str) -> float:
    import numpy as np

    from almanac.index.embedding.embedder import describe_embedder
    from almanac.index.vectors.vector_store import VectorStore
    from almanac.schemas.declaration.embed_section import Embed

    with np.load(folder / "bare.npz") as bare:
        info = describe_embedder(Embed.model_validate({"precision": precision}))
        ours = VectorStore(_data(folder, precision) / "vectors", info).read(bare["keys"].tolist())
        return float((ours * bare["vectors"]).sum(axis=1).min())


def _show(rounds: list[tuple[float, dict[str, Built]]], passages: list[str]) -> None:
    bare = statistics.median(seconds for seconds, _ in rounds)
    characters = statistics.mean(map(len, passages))
    lines = [
        f"First build of {len(passages)} passages of {characters:.0f} characters on average, {len(rounds)} "
        f"round(s). {machine()}",
        "",
        "| what | seconds (median) | of bare `encode` | of it: embedding | before and after the stages | worst "
        "cosine to `encode` |",
        "|---|---:|---:|---:|---:|---:|",
        f"| `SentenceTransformer.encode`, float32, batch 32 | {bare:.1f} | 1.00 | {bare:.1f} | | |",
    ]
    for precision in rounds[0][1]:
        ran = [(seconds, built[precision]) for seconds, built in rounds]
        whole = statistics.median(built.seconds for _, built in ran)
        ratio = statistics.median(built.seconds / seconds for seconds, built in ran)
        embedding = statistics.median(built.stages["embed"] for _, built in ran)
        around = statistics.median(built.seconds - sum(built.stages.values()) for _, built in ran)
        worst = min(built.worst_cosine for _, built in ran)
        lines.append(
            f"| `almanac run`, {precision}, whole command | {whole:.1f} | {ratio:.2f} | {embedding:.1f} | "
            f"{around:.1f} | {worst:.5f} |"
        )
    for precision, built in rounds[-1][1].items():
        lines += [
            "",
            f"Stages, {precision}, last round: "
            + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in built.stages.items())
            + ".",
        ]
    sys.stdout.write("\n".join(lines) + "\n")


def machine() -> str:
    cpu = Path("/proc/cpuinfo")
    name = re.search(r"^model name\s*:\s*(.*)", cpu.read_text() if cpu.exists() else "", re.MULTILINE)
    software = ", ".join(f"{package} {version(package)}" for package in _SOFTWARE)
    return (
        f"{name[1] if name else platform.processor()}, {os.cpu_count()} cores; Python "
        f"{platform.python_version()}, {software}."
    )


if __name__ == "__main__":
    main()
