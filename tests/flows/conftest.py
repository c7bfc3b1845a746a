"""What tests of runs share: a site on loopback that counts requests, and a knowledge base whose runs need no Prefect,
no processes and no model.
"""

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.flows.commands import Commands
from tests.flows.notes import DECLARATION, write
from tests.index.conftest import INFO, HashEmbedder
from tests.index.making import without_children
from tests.spiders.conftest import _forked_crawls, loopback_site

__all__ = ["_forked_crawls", "loopback_site"]


@pytest.fixture
def declared(tmp_path: Path) -> Iterator[Path]:
    """The declaration of `notes`, with a tiny embedder."""
    path = tmp_path / "many.yaml"
    path.write_text(DECLARATION)
    described, loaded = "almanac.flows.pipeline.run.describe_embedder", "almanac.flows.pipeline.run.load_embedder"
    with without_children(), patch(described, lambda _: INFO), patch(loaded, lambda *_, **__: HashEmbedder()):
        yield path


@pytest.fixture
def commands(declared: Path, prefect_home: Path) -> Commands:
    """Commands on the notes."""
    write(declared.parent, 60)
    return Commands(declared, prefect_home)
