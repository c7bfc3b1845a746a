"""The processes of a run on a cluster, for those who kill them: scheduler, worker and writer, each forked from a
process that has the engines loaded.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from unittest.mock import patch

from almanac.core.load import load_declaration
from almanac.core.logs import log_through_stdlib
from almanac.core.settings import DataDir
from almanac.flows.pipeline.run import Run
from almanac.schemas.errors import AlmanacError
from tests.flows.commands import carry_out
from tests.flows.dask_worker import noting, work
from tests.index.conftest import HashEmbedder
from tests.index.making import without_children

CHECKPOINT, ITEMS = 50, 25  # texts of a checkpoint, documents that are cut together
_ENGINES = [
    "tests.proof.cluster_processes",
    "distributed.cli.dask_worker",
    "distributed.cli.dask_scheduler",
    "chromadb",
    "boto3",
]


def start(what: str, log: Path, environment: Mapping[str, str], *arguments: str) -> ForkServerProcess:
    """Starts a `scheduler`, a `worker` or a `writer`."""
    context = get_context("forkserver")
    context.set_forkserver_preload(_ENGINES)
    process = context.Process(target=_begin, args=(what, str(log), dict(environment), arguments), daemon=True)
    process.start()
    return process


def _begin(what: str, log: str, environment: dict[str, str], arguments: tuple[str, ...]) -> None:
    os.environ.update(environment)
    with Path(log).open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    begin: dict[str, Callable[..., None]] = {"scheduler": _schedule, "worker": _work, "writer": _write}
    begin[what](*arguments)


def _schedule(port: str) -> None:
    from distributed.cli.dask_scheduler import main

    main(["--host", "127.0.0.1", "--port", port, "--no-dashboard", "--no-jupyter"])


def _work(address: str) -> None:
    with without_children():
        work([address])


def _write(declared: str, url: str, report: str) -> None:
    """Ends with the exit code of the command; a whole run leaves its report."""
    log_through_stdlib()
    with (
        noting(),
        without_children(),
        patch("almanac.flows.cluster._CONNECT_S", 2),
        patch("almanac.flows.pipeline.embed.CHECKPOINT", CHECKPOINT),
        patch("almanac.flows.pipeline.item_batches._WORTH_SHARING", 1),
        patch("almanac.flows.pipeline.item_batches._ITEMS", ITEMS),
        patch("almanac.flows.pipeline.run.load_embedder", lambda *_, **__: HashEmbedder()),
    ):
        declaration = load_declaration(declared, "")
        try:
            run_report = carry_out(Run(declaration, DataDir.locate(url).for_kb(declaration.name)))
        except AlmanacError as error:
            sys.stderr.write(f"{error!r} {error.where}\n")
            sys.exit(error.exit_code)
    Path(report).write_text(json.dumps(run_report))
