"""What tests of answers share that takes seconds to load."""

import pytest

from almanac.index.embedding.embedder import load_embedder
from almanac.index.embedding.model_cache import MULTILINGUAL_E5
from almanac.query.answering.reading import Reader
from almanac.query.models.embedding_cache import CachingEmbedder
from almanac.schemas.declaration.embed import Embed


@pytest.fixture(scope="session")
def reader() -> Reader:
    """The reader of answers: both bundled embedders."""
    every, english = (
        CachingEmbedder(load_embedder(embed, for_queries=True))
        for embed in (Embed(model=MULTILINGUAL_E5.name), Embed())
    )
    return Reader(every, english, is_multilingual=True)
