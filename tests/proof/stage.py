"""Forks a process for each act, from one that has imported the engines already: `python -m tests.proof.stage`.

One request a line on stdin, {act, place, arguments, die_at, trace}; one answer a line on stdout, {code, result,
points}. With `die_at`, the process dies at that crash point (counted from 0), as kill -9 has it; with `trace`, `points`
are all that it came by: [moment, deed, path]. Nothing of Chroma runs in the process that forks, only in those that are
forked.
"""

import gc
import importlib
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from tests.processes import find_fingerprints

_LIMIT_S = 300
# What acts import as they come by it, which takes half of the time of a small one.
_LATER = (
    *("almanac.index.lexical.lexical_reader", "almanac.index.lexical.writer"),
    *(
        "almanac.index.verify.lexical",
        "almanac.index.verify.mapped_rows",
        "almanac.index.verify.verify_composed",
        "almanac.query.published",
    ),
    *("pyarrow.acero", "pyarrow.dataset", "pyarrow.pandas_compat", "structlog", "tokenizers"),
)


def main() -> None:
    """Serves requests until stdin ends."""
    _import_engines()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print
    for line in sys.stdin:
        answers.write(json.dumps(_answer(json.loads(line))) + "\n")
        answers.flush()


def _import_engines() -> None:
    from almanac.core.settings import quiet_engines

    quiet_engines()
    engines = ("chromadb", "chromadb_rust_bindings", "great_expectations", "pandas", "trafilatura")
    for name in (
        *engines,
        *_LATER,
        "almanac.index.chroma.chroma_client",
        "almanac.index.verify.verify_rows",
        "tests.proof.acts",
    ):
        importlib.import_module(name)
    find_fingerprints()
    gc.freeze()  # so that collecting garbage does not touch, and copy, what is shared


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(_LIMIT_S)
        os.close(reading)
        try:
            answer = _perform(request)
        except BaseException:
            answer = {"code": 1, "result": traceback.format_exc()}
        with os.fdopen(writing, "w") as pipe:
            pipe.write(json.dumps(answer))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answered = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return json.loads(answered) if answered else {"code": code, "result": None, "points": []}


def _perform(request: dict[str, Any]) -> dict[str, Any]:
    from almanac.core.durable import watched
    from tests.proof import acts

    place, die_at = Path(request["place"]), request.get("die_at")
    points: list[list[str]] = []
    count = 0

    def watcher(moment: str, deed: str, path: Path) -> None:
        nonlocal count
        if count == die_at:
            acts.die()
        count += 1
        if request.get("trace"):
            points.append([moment, deed, str(path.relative_to(place) if path.is_relative_to(place) else path)])

    with acts.small_and_here(place), watched(watcher):
        result = acts.act(request["act"], place, request.get("arguments") or {})
    return {"code": 0, "result": result, "points": points, "count": count}


if __name__ == "__main__":
    main()
