"""Searches a knowledge base in a store without a pause until its stdin ends: `python -m tests.flows.store_reader KB URL
OUT`.

A line in OUT for each answer: when, from which version, with which chunk ids.
"""

import select
import sys
import time
from pathlib import Path
from unittest.mock import patch

from almanac.query import PublishedIndex, open_index
from almanac.schemas.errors import NothingPublished
from tests.index.conftest import INFO, HashEmbedder


def main(kb: str, url: str, out: str) -> None:
    with (
        patch("almanac.query.published.describe_embedder", lambda _: INFO),
        patch("almanac.query.published.load_embedder", lambda *_, **__: HashEmbedder()),
    ):
        number = 0
        with _opened(kb, url) as index, Path(out).open("w") as file:
            while not _is_over(0.01):
                answer = index.search(f"question {number} of {out}", k=4)
                file.write(f"{time.time()} {answer.version} {' '.join(hit.chunk_id for hit in answer.hits)}\n")
                file.flush()
                number += 1


def _opened(kb: str, url: str) -> PublishedIndex:
    while True:
        try:
            return open_index(kb, data=url)
        except NothingPublished:
            if _is_over(0.1):
                sys.exit("nothing was ever published")


def _is_over(wait_s: float) -> bool:
    return bool(select.select([sys.stdin], [], [], wait_s)[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
