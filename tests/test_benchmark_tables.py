"""Tables of benchmarks are read back, and rows that got worse are named."""

import pytest

from almanac.core.settings import installation
from benchmarks.__main__ import _PROGRAMS, Program
from benchmarks.benchmark_tables import Watched, tables_in, worse_rows

_BEFORE = """Prose | with a bar.

| what | seconds | of bare |
|---|---:|---:|
| first | 1,200.0 | *1.00* |
| second | 3.0 | 50.0% |
| gone | 1.0 | 0.10 |

After it.
"""


@pytest.mark.parametrize(
    ("now", "watched", "worse"),
    [
        (
            "| first | 9 | 1.05 |\n| second | 9 | 61.0% |\n| new | 9 | 99 |",
            Watched("of bare", 0.1),
            [("second", 50.0, 61.0)],
        ),
        ("| first | 9 | 0.85 |\n| second | 9 | 49 % |", Watched("of bare", 0.1, more=True), [("first", 1.0, 0.85)]),
        ("| first | 1,300.0 | 1 |\n| second | | 1 |", Watched("seconds", 0.05), [("first", 1200.0, 1300.0)]),
        ("| first | 9 | 9 |", Watched("another column", 0.1), []),
    ],
)
def test_rows_that_got_worse_by_more_than_noise_are_named(
    now: str, watched: Watched, worse: list[tuple[str, float, float]]
) -> None:
    after = tables_in(f"| what | seconds | of bare |\n|---|---:|---:|\n{now}\n")
    assert list(worse_rows(after, tables_in(_BEFORE), ["what"], watched)) == worse


@pytest.mark.parametrize("program", _PROGRAMS, ids=lambda program: program.name)
def test_what_is_compared_is_in_the_documentation(program: Program) -> None:
    documented = tables_in((installation() / "docs" / "benchmarks.md").read_text(encoding="utf-8"))
    for watched in program.watched:
        assert any({*program.keys, watched.column} <= set(table.columns) for table in documented), watched
