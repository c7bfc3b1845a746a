"""What a worker of a cluster has: the code, libraries and models that decide the results of its batches. They have to
be those of the run.

A worker is another process, often on another machine, and installed by itself. One that differs would give results that
no fingerprint tells apart from the run's own, so it may do nothing.
"""

import os
import platform
from functools import cache, lru_cache
from importlib import metadata

from almanac.core.code_fingerprint import code_fingerprint
from almanac.core.extras import installed_version
from almanac.core.settings import DataDir
from almanac.flows.pipeline.fingerprints import CHUNKING, CLEANING, MAPPING
from almanac.index.embedding.embedder import Embedder, describe_embedder, load_embedder
from almanac.index.embedding.precision import require_precision
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.errors import AlmanacError, UsageError

# What mapping imports is part of its fingerprint. These compute vectors, or carry batches from one process to another.
_LIBRARIES = (
    "torch", "transformers", "sentence-transformers", "openvino", "tokenizers", "numpy", "pyarrow",
    "pydantic", "dask", "distributed", "cloudpickle",
)  # fmt: skip
_BATCHES = (
    "flows.pipeline.batches",
    "flows.pipeline.page_batches",
    "flows.pipeline.item_batches",
    "flows.pipeline.embed",
    "flows.pipeline.segment_batches",
)
_EMBEDDER = "embedder"
SAME = (
    "install the same Almanac with its requirements.lock, and the same models, on every worker, and start the "
    "worker again"
)
Abilities = dict[str, str]  # what a process has → its version or fingerprint


def abilities(embed: Embed) -> Abilities:
    """The code, libraries and embedder of this process. A model that it cannot describe is given as the reason why."""
    return {**_code(), _EMBEDDER: _embedder(embed)}


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


def _embedder(embed: Embed) -> str:
    try:
        require_precision(embed)
        return describe_embedder(embed).fingerprint
    except AlmanacError as error:
        return f"none ({error.message})"


def require_same_here(embed: str, wanted: Abilities) -> None:
    """Raises UsageError unless this process has what the run has; it names the process, the first difference and both
    sides of it. `embed` is the JSON of the declared embedder, which is read last: another Almanac may not know it.
    """
    for name, of_run in wanted.items():
        has = _embedder(Embed.model_validate_json(embed)) if name == _EMBEDDER else _code().get(name, "missing")
        if has != of_run:
            where = f"worker {platform.node()}, process {os.getpid()}"
            raise UsageError(f"the worker's {name} is {has}, the run's is {of_run}", where=where, hint=SAME)


def model(embed: Embed, data: DataDir) -> Embedder:
    """The declared embedder, loaded once in a worker's process: its batches come one by one, and the next run has the
    same model, wherever its data are.
    """
    return _loaded(embed, describe_embedder(embed).fingerprint, None if embed.provider == "local" else data)


@lru_cache(maxsize=1)
def _loaded(embed: Embed, _fingerprint: str, data: DataDir | None) -> Embedder:
    """By fingerprint, too: another model may have been saved in the same folder."""
    return load_embedder(embed, data)
