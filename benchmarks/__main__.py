"""Runs the programs of this folder, which takes an hour, and names each row that is worse than in docs/benchmarks.md.

    python -m benchmarks [--sets DIR [DIR ...]] [--only NAME [NAME ...]] [--out FILE]

Without `--sets` (folders with corpus.jsonl, queries.jsonl and qrels.tsv; one with spans.jsonl for chunkers), programs
that need their texts or questions are left out, and named. What the programs print is written to `--out` with machine
and date, and the comparison after it. Ratios, qualities and the server's processor time are compared, not seconds: a
row is worse where it differs by more than the noise of a busy machine.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from almanac.core.settings import installation
from benchmarks.benchmark_tables import Table, Watched, rows_of_both, tables_in, worse_rows
from benchmarks.first_build import machine

_CHUNKERS = "recursive:400:200:tokens recursive:250:0:tokens words:250:0:tokens semantic:200:0:tokens"
_LIMIT_S = 1200  # of one program
_QUALITY = 0.005  # of nDCG and recall: questions are the same, vectors differ by processors
_TIME = 0.15  # of ratios of times in one run


class Program(NamedTuple):
    """One program: its arguments, of which {passages} and {sets} are filled in, and what of its tables is watched."""

    name: str
    arguments: str
    keys: tuple[str, ...]  # columns that tell rows apart
    watched: tuple[Watched, ...]


_PROGRAMS = (
    Program("commands", "", ("command",), (Watched("of `import prefect`", _TIME), Watched("of its", _TIME))),
    Program("first_build", "--passages 1500 --corpus {passages}", ("what",), (Watched("of bare `encode`", _TIME),)),
    Program(
        "frameworks",
        "--passages 1000 --corpus {passages}",
        ("by",),
        (Watched("first, of Almanac's", _TIME, more=True),),
    ),
    Program("embedders", "--passages 500 --corpus {passages}", ("embedder",), ()),
    Program("query", "", ("query",), (Watched("of the bare one, p50", _TIME),)),
    Program(
        "serve", "--seconds 6", ("workers", "asked", "clients"), (Watched("server's processor ms an answer", _TIME),)
    ),
    Program("crawl", "--pages 1000", ("side", "pages"), (Watched("of bare Scrapy", _TIME),)),
    Program("crawl", "--pages 5000 --rounds 1", ("side", "pages"), (Watched("of bare Scrapy", _TIME),)),
    Program("distributed", "--pages 200 --mapped 1000", ("engine",), (Watched("plain ÷ embed", _TIME, more=True),)),
    Program("index", "", ("work",), (Watched("of the full build", _TIME),)),
    Program(
        "scale",
        "--chunks 100000 --rounds 5",
        ("chunks", "step"),
        (Watched("of one process", _TIME), Watched("disk, of the full one", 0.02)),
    ),
    Program("precision", "--sets {sets}", ("set", "embedder"), (Watched("bfloat16", _QUALITY, more=True),)),
    Program(
        "chunking",
        f"--set {{spans}} --by {_CHUNKERS} --mode dense",
        ("cut by", "search"),
        (Watched("recall", 0.01, more=True), Watched("IoU", 0.05, more=True)),
    ),
    Program("answers", "--sets {sets} --data {data}", ("questions", "embedder"), (Watched("right", 0.05, more=True),)),
    Program(
        "evaluation",
        "--sets {sets} --data {data}",
        ("embedder", "set", "search"),
        (Watched("nDCG@10", _QUALITY, more=True),),
    ),
)


def main() -> None:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="almanac-benchmarks-") as data:
        sys.exit(_carried_out(arguments, _filled(arguments.sets, Path(data))))


def _carried_out(arguments: argparse.Namespace, filled: dict[str, list[Path]]) -> bool:
    """Runs the programs; whether one has failed."""
    named = [program for program in _PROGRAMS if not arguments.only or program.name in arguments.only]
    chosen = [program for program in named if all(filled.get(word, [word]) for word in program.arguments.split())]
    documented = tables_in((installation() / "docs" / "benchmarks.md").read_text(encoding="utf-8"))
    report = [f"# Benchmarks of {datetime.now(UTC):%d %B %Y}", "", machine()]
    worse: list[str] = []
    failed = []
    for number, program in enumerate(chosen, 1):
        sys.stderr.write(f"{number} of {len(chosen)}: {program.name} {program.arguments}\n")
        begin = time.monotonic()
        text, is_done = _run(program, filled)
        failed += [] if is_done else [program.name]
        report += [
            "",
            f"## {program.name} {program.arguments}".rstrip(),
            "",
            text,
            "",
            f"{time.monotonic() - begin:.0f} s.",
        ]
        worse += _worse(program, tables_in(text), documented) if is_done else []
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text("\n".join([*report, ""]), encoding="utf-8")
    verdict = ["## Worse than in docs/benchmarks.md", "", *(worse or ["No row."])]
    verdict += ["", f"Failed: {', '.join(failed)}."] if failed else []
    left_out = [program.name for program in named if program not in chosen]
    verdict += ["", f"Left out, for want of --sets: {', '.join(left_out)}."] if left_out else []
    arguments.out.write_text("\n".join([*report, "", *verdict, ""]), encoding="utf-8")
    sys.stdout.write("\n".join([*verdict, "", f"All tables: {arguments.out}", ""]))
    return bool(failed)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", type=Path, nargs="*", default=[], help="folders of question sets")
    parser.add_argument(
        "--only", nargs="+", choices=sorted({program.name for program in _PROGRAMS}), help="these programs alone"
    )
    parser.add_argument(
        "--out", type=Path, default=installation() / "build" / "benchmarks.md", help="where tables are written"
    )
    return parser.parse_args()


def _filled(sets: Sequence[Path], data: Path) -> dict[str, list[Path]]:
    """What stands for the names in arguments. Programs that publish the sets do so in one data directory, so that the
    second one embeds none.
    """
    return {
        "{data}": [data],
        "{passages}": [folder / "corpus.jsonl" for folder in sets],
        "{sets}": list(sets),
        "{spans}": [folder for folder in sets if (folder / "spans.jsonl").is_file()][:1],
    }


def _run(program: Program, filled: dict[str, list[Path]]) -> tuple[str, bool]:
    """What the program printed, or why it failed."""
    words = [str(value) for word in program.arguments.split() for value in filled.get(word, [word])]
    command = [sys.executable, "-m", f"benchmarks.{program.name}", *words]
    with subprocess.Popen(
        command, cwd=installation(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            out, errors = process.communicate(timeout=_LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with the servers and commands that it has started
            return f"Not done after {_LIMIT_S} s.", False
    tail = "\n".join(errors.splitlines()[-5:])
    return (
        (out.strip(), True)
        if process.returncode == 0
        else (f"Ended with {process.returncode}:\n\n```\n{tail}\n```", False)
    )


def _worse(program: Program, now: Sequence[Table], documented: Sequence[Table]) -> Iterator[str]:
    for watched in program.watched:
        if not rows_of_both(now, documented, program.keys, watched.column):
            yield f"- {program.name}: no row of {watched.column} is in the documentation, so that none was compared"
        for row, before, after in worse_rows(now, documented, program.keys, watched):
            yield f"- {program.name}, {row}: {watched.column} {after:g}, was {before:g}"


if __name__ == "__main__":
    main()
