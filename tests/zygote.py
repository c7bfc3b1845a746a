"""Runs commands for tests, each in a process of its own, but forked from one that has imported the engines already.

Importing torch, Chroma, pandas and their kin is half of what a command costs, and says nothing about the command. A
process forked from here differs from one started by a shell in nothing else: its environment, arguments, streams and
exit code are its own. The children that it starts for crawls and versions are forked, too (tests/forked.py). Prefect
reads its environment when it is imported, so what is forked from here has to have Prefect's variables as they are here;
without an API among them it is left out. One request a line on stdin, {arguments, environment, stdout, stderr}; two
lines of answer on stdout, {pid} and {code}.
"""

import atexit
import gc
import json
import os
import sys
import threading
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from tests.forked import import_crawls, prepare_spares
from tests.processes import find_fingerprints

# Children of a command: a crawl, a builder, a verifier; a builder and a verifier for each version that something is
# taken out of.
_SPARES = {"run": 3, "rebuild": 2, "compact": 2, "promote": 2, "forget": 6, "verify": 1, "plan": 1, "export": 1}
# What commands and their libraries import within functions.
_LATER = (
    *(
        "almanac.cli.export",
        "almanac.cli.log_lines",
        "almanac.cli.run_report",
        "almanac.index.embedding.bert",
        "almanac.index.upkeep.export_chroma",
    ),
    *("openvino", "pyarrow.dataset", "pyarrow.pandas_compat", "rich.traceback", "structlog"),
)
_LATER_WITH_PREFECT = (
    "almanac.flows.server.prefect_api",
    "fastapi.encoders",
    "prefect.flow_engine",
    "prefect.task_engine",
    "prefect.utilities.visualization",
)


def main() -> None:
    """Serves requests until stdin ends."""
    _import_engines()
    gc.freeze()  # a collection in a forked process would touch, and so copy, every object of the engines
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become(request)
        _answer({"pid": pid})
        _answer({"code": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])})


def _answer(message: dict[str, int]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _import_engines() -> None:
    import_crawls()  # first: Scrapy looks through all modules as it is imported, and torch's are many
    from almanac.core.settings import quiet_engines

    quiet_engines()
    import chromadb  # noqa: F401
    import great_expectations  # noqa: F401
    import pandas  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import trafilatura  # noqa: F401
    import wordfreq  # noqa: F401

    for name in _LATER:
        import_module(name)
    with suppress(ImportError):  # the extra models
        import sentence_transformers  # noqa: F401
        from transformers import BertModel  # noqa: F401

    from almanac.index.build import builder
    from almanac.index.verify import verifier
    from almanac.query.retrieval.question_language import question_language

    question_language("What language is this?")  # reads its model
    builder.prepare()
    verifier.prepare()
    find_fingerprints()
    if os.environ.get("PREFECT_API_URL"):
        from almanac.core.settings import DataDir
        from almanac.flows.environment import prepare_prefect

        prepare_prefect(DataDir(Path(os.environ["PREFECT_HOME"])))
        import almanac.flows.refresh  # noqa: F401

        for name in _LATER_WITH_PREFECT:
            import_module(name)


def _become(request: dict[str, Any]) -> NoReturn:
    """Turns this process into the command."""
    places = ((0, os.devnull, os.O_RDONLY), (1, request["stdout"], os.O_WRONLY), (2, request["stderr"], os.O_WRONLY))
    for number, path, mode in places:
        opened = os.open(path, mode)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["almanac", *request["arguments"]]
    prepare_spares(_SPARES.get(request["arguments"][0], 0) if request["arguments"] else 0)
    from almanac.cli.main import run

    code = run(request["arguments"])
    # The interpreter's own end, but for taking down the engines: that costs more than most commands.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
