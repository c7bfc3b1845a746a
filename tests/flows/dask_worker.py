"""A Dask worker with an embedder of a few lines: `python -m tests.flows.dask_worker tcp://… [--resources GPU=1]`.

It takes a moment for each text, and notes it in the file that ALMANAC_PROOF_EMBEDDED names, with its process id. A text
with the word `poison` kills it. Its embedder's fingerprint is ALMANAC_PROOF_FINGERPRINT, where that is set.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from almanac.schemas.hashing import sha256
from almanac.schemas.manifest import EmbedderInfo
from tests.index.conftest import INFO, HashEmbedder

_TEXT_S = 0.001


@dataclass
class _NotingEmbedder(HashEmbedder):
    def embed_documents(self, texts: Any) -> Any:
        if any("poison" in text for text in texts):
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(float(os.environ.get("ALMANAC_PROOF_TEXT_S", _TEXT_S)) * len(texts))
        with Path(os.environ["ALMANAC_PROOF_EMBEDDED"]).open("a") as file:
            file.writelines(f"{sha256(text)} {os.getpid()}\n" for text in texts)
        return super().embed_documents(texts)


def info() -> EmbedderInfo:
    """The tiny embedder, as this process describes it."""
    other = os.environ.get("ALMANAC_PROOF_FINGERPRINT")
    return INFO.model_copy(update={"fingerprint": other}) if other else INFO


@contextmanager
def noting() -> Iterator[None]:
    """Has this process embed with it."""
    with (
        patch("almanac.flows.pipeline.worker.load_embedder", lambda *_, **__: _NotingEmbedder()),
        patch("almanac.flows.pipeline.worker.describe_embedder", lambda _: info()),
        patch("almanac.flows.pipeline.run.describe_embedder", lambda _: INFO),
    ):
        yield


def work(arguments: list[str]) -> None:
    """Works until it is ended."""
    from distributed.cli.dask_worker import main

    with noting():
        main([*arguments, "--no-nanny", "--nthreads", "1", "--host", "127.0.0.1", "--no-dashboard"])


if __name__ == "__main__":
    work(sys.argv[1:])
