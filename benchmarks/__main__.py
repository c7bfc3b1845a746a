"""Runs the programs of this folder, which takes an hour, and names each row that is worse than in docs/benchmarks.md.

    python -m benchmarks [--sets DIR [DIR ...]] [--only NAME [NAME ...]] [--out FILE]

Without `--sets` (folders with corpus.jsonl, queries.jsonl and qrels.tsv), programs that ask questions of them are left out, and passages are the project's own
documentation. What the programs print is written to `--out` with machine and date, and the comparison after it. Only ratios and qualities are compared, not
seconds: a row is worse where it differs by more than the noise that its program has on a busy machine.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from almanac.core.settings import installation
from benchmarks.first_build import machine
from benchmarks.tables import Table, Watched, tables_in, worse_rows

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
    Program("frameworks", "--passages 1000 --corpus {passages}", ("by",), (Watched("first, of Almanac's", _TIME, more=True),)),
    Program("embedders", "--passages 500 --corpus {passages}", ("embedder",), ()),
    Program("query", "", ("query",), (Watched("of the bare one, p50", _TIME),)),
    Program("serve", "--seconds 6", ("workers", "asked", "clients"), (Watched("server's processor ms an answer", _TIME),)),
    Program("crawl", "--pages 1000", ("side", "pages"), (Watched("of bare Scrapy", _TIME),)),
    Program("crawl", "--pages 5000 --rounds 1", ("side", "pages"), (Watched("of bare Scrapy", _TIME),)),
    Program("distributed", "--pages 200", ("engine",), (Watched("plain ÷ embed", _TIME, more=True),)),
    Program("index", "", ("work",), (Watched("of the full build", _TIME),)),
    Program("scale", "--chunks 100000 --rounds 5", ("chunks", "step"), (Watched("of one process", _TIME), Watched("disk, of the full one", 0.02))),
    Program("precision", "--sets {sets}", ("set", "embedder"), (Watched("bfloat16", _QUALITY, more=True),)),
    Program("evaluation", "--sets {sets}", ("embedder", "set", "search"), (Watched("nDCG@10", _QUALITY, more=True),)),
)


def main() -> None:
    arguments = _arguments()
    chosen = [one for one in _PROGRAMS if (not arguments.only or one.name in arguments.only) and (arguments.sets or "{sets}" not in one.arguments)]
    documented = tables_in((installation() / "docs" / "benchmarks.md").read_text(encoding="utf-8"))
    report = [f"# Benchmarks of {datetime.now(UTC):%d %B %Y}", "", machine()]
    found: list[str] = []
    failed = []
    for number, program in enumerate(chosen, 1):
        sys.stderr.write(f"{number} of {len(chosen)}: {program.name} {program.arguments}\n")
        begin = time.monotonic()
        text, is_done = _run(program, arguments.sets)
        failed += [] if is_done else [program.name]
        report += ["", f"## {program.name} {program.arguments}".rstrip(), "", text, "", f"{time.monotonic() - begin:.0f} s."]
        found += _worse(program, tables_in(text), documented) if is_done else []
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text("\n".join([*report, ""]), encoding="utf-8")
    verdict = ["## Worse than in docs/benchmarks.md", "", *(found or ["Nothing that is there, too."])]
    verdict += ["", f"Failed: {', '.join(failed)}."] if failed else []
    arguments.out.write_text("\n".join([*report, "", *verdict, ""]), encoding="utf-8")
    sys.stdout.write("\n".join([*verdict, "", f"All tables: {arguments.out}", ""]))
    sys.exit(bool(failed))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=Path, nargs="*", default=[], help="folders of question sets")
    parser.add_argument("--only", nargs="+", choices=sorted({one.name for one in _PROGRAMS}), help="these programs alone")
    parser.add_argument("--out", type=Path, default=installation() / "build" / "benchmarks.md", help="where tables are written")
    return parser.parse_args()


def _run(program: Program, sets: Sequence[Path]) -> tuple[str, bool]:
    """What the program printed, or why it failed."""
    passages = [folder / "corpus.jsonl" for folder in sets] or sorted((installation() / "docs").rglob("*.md"))
    filled = {"{passages}": passages, "{sets}": sets}
    words = [str(value) for word in program.arguments.split() for value in filled.get(word, [word])]
    try:
        done = subprocess.run(
            [sys.executable, "-m", f"benchmarks.{program.name}", *words], cwd=installation(), capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"Not done after {_LIMIT_S} s.", False
    tail = "\n".join(done.stderr.splitlines()[-5:])
    return (done.stdout.strip(), True) if done.returncode == 0 else (f"Ended with {done.returncode}:\n\n```\n{tail}\n```", False)


def _worse(program: Program, now: Sequence[Table], documented: Sequence[Table]) -> Iterator[str]:
    for watched in program.watched:
        for row, before, after in worse_rows(now, documented, program.keys, watched):
            yield f"- {program.name}, {row}: {watched.column} {after:g}, was {before:g}"


if __name__ == "__main__":
    main()
