"""What a worker of a cluster has: the code, libraries and models that decide the results of its batches. They have to
be those of the run.

A worker is another process, often on another machine, and installed by itself. One that differs would give results that
no fingerprint tells apart from the run's own, so it may do nothing.
"""

import os
import platform
import socket
import sys
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import import_module, metadata
from pathlib import Path
from threading import Thread
from typing import Any

from almanac.core.code_fingerprint import code_fingerprint
from almanac.core.extras import installed_version
from almanac.core.settings import DataDir
from almanac.core.uncollected import uncollected
from almanac.flows.pipeline.fingerprints import CHUNKING, CLEANING, MAPPING
from almanac.index.embedding.embedder import Embedder, describe_embedder, load_embedder
from almanac.index.embedding.precision import require_precision
from almanac.schemas.declaration.embed import Embed
from almanac.schemas.errors import AlmanacError, UsageError

# What mapping imports is part of its fingerprint. These compute vectors, or carry batches from one process to another.
_LIBRARIES = (
    "torch", "transformers", "sentence-transformers", "openvino", "tokenizers", "numpy", "pyarrow",
    "pydantic", "prefect", "dask", "distributed", "cloudpickle",
)  # fmt: skip
_BATCHES = (
    "flows.pipeline.page_batches",
    "flows.pipeline.item_batches",
    "flows.pipeline.embed",
    "flows.pipeline.segments",
)
SEES = "sees"
SAME = (
    "install the same Almanac with its requirements.lock, and the same models, on every worker, and start the "
    "worker again"
)
Abilities = dict[str, str]  # what a process has → its version or fingerprint


def abilities(embed: Embed) -> Abilities:
    """The code, libraries and embedder of this process. A model that it cannot describe is given as the reason why."""
    return {**_code(), "embedder": _embedder(embed)}


@cache
def _code() -> Abilities:
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "almanac": metadata.version("almanac"),
        # torch's builds for processors and for GPUs are one version
        **{name: (installed_version(name) or "missing").partition("+")[0] for name in _LIBRARIES},
        "mapping": code_fingerprint(*MAPPING),
        "cleaning": code_fingerprint(*CLEANING),
        "chunking": code_fingerprint(*CHUNKING),
        "batches": code_fingerprint(*_BATCHES),
    }


def get_ready() -> None:
    """Does in a thread what workers and the scheduler begin with: the first batches would wait for it."""
    Thread(target=dask_setup, name="almanac-ready", daemon=True).start()


def dask_setup(_process: Any = None) -> None:
    """Imports what batches take and what carries them, and reads the code for its fingerprints: for `--preload
    almanac.flows.pipeline.worker`.

    The scheduler imports what carries batches, too: it unpickles each call, in the loop in which it does everything
    else.
    """
    later = ("trafilatura", "pandas")  # imported with the first page of a main text, and with the first table
    names = ("almanac.flows.refresh", "prefect.task_engine", "prefect_dask.task_runners", *later)
    if all(name in sys.modules for name in names):
        # each run asks a process that may live for months: `uncollected` would keep for ever what others have there at
        # the time
        return
    with uncollected():
        for name in names:
            import_module(name)
        _code()


def answer(embed: str, probe: str) -> dict[str, Any]:
    """What a worker answers: its abilities, and whether it SEES a folder of the run. `embed` is the JSON of the
    declared embedder.
    """
    return {**abilities(Embed.model_validate_json(embed)), SEES: Path(probe).is_dir()}


def _embedder(embed: Embed) -> str:
    try:
        require_precision(embed)
        return describe_embedder(embed).fingerprint
    except AlmanacError as error:
        return f"none ({error.message})"


def require_equal(worker: str, has: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Raises UsageError unless what a worker has is what the run has; it names the worker, the first difference and
    both sides of it.
    """
    differing = [name for name in wanted if has.get(name) != wanted[name]]
    if differing:
        name, more = differing[0], len(differing) - 1
        others = f", and {more} more: {', '.join(differing[1:])}" if more else ""
        raise UsageError(
            f"the worker's {name} is {has.get(name, 'missing')}, the run's is {wanted[name]}{others}",
            where=worker,
            hint=SAME,
        )


def require_same_here(embed: Embed, wanted: Mapping[str, str]) -> None:
    """Raises UsageError unless this process has what the run has. Each batch asks: a worker may have joined since the
    run asked all of them.
    """
    require_equal(f"worker {socket.gethostname()}, process {os.getpid()}", abilities(embed), wanted)


def model(embed: Embed, data: DataDir) -> Embedder:
    """The declared embedder, loaded once in a worker's process: its batches come one by one, and the next run has the
    same model, wherever its data are.
    """
    return _loaded(embed, describe_embedder(embed).fingerprint, None if embed.provider == "local" else data)


@lru_cache(maxsize=1)
def _loaded(embed: Embed, _fingerprint: str, data: DataDir | None) -> Embedder:
    """By fingerprint, too: another model may have been saved in the same folder."""
    return load_embedder(embed, data)
