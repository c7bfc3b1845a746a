"""Searches a knowledge base without a pause until its stdin ends: `python -m tests.proof.reader KB DATA OUT [pinned]`.

A line in OUT for each answer: its version, and the chunk ids of its hits. With `pinned`, it stays with the version that
it met first.
"""

import select
import sys
import time
from pathlib import Path
from unittest.mock import patch

from almanac.query import PublishedIndex, open_index
from almanac.schemas.errors import NothingPublished
from tests.index.conftest import INFO, HashEmbedder

_HITS = 4


def main(kb: str, data: str, out: str, *pinned: str) -> None:
    with (
        patch("almanac.query.published.describe_embedder", lambda _: INFO),
        patch("almanac.query.published.load_embedder", lambda *_, **__: HashEmbedder()),
    ):
        index = _opened(kb, data)
        if pinned:
            index = open_index(kb, data=data, version=index.search("anything").version)
        with index, Path(out).open("w") as file:
            number = 0
            while not _is_over():
                answer = index.search(f"question {number} of {out}", k=_HITS)
                file.write(f"{' '.join([answer.version, *(hit.chunk_id for hit in answer.hits)])}\n")
                number += 1


def _opened(kb: str, data: str) -> PublishedIndex:
    """Before the first version is live, and only then, there is nothing to open."""
    while True:
        try:
            return open_index(kb, data=data)
        except NothingPublished:
            if _is_over():
                sys.exit("nothing was ever published")
            time.sleep(0.1)


def _is_over() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
