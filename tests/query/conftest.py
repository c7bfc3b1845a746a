"""What tests of answers share that takes seconds to load."""

import pytest

from almanac.index.embedding.embedder import BUNDLED, load_embedder
from almanac.query.answering.reading import Reader
from almanac.query.models.embedding_cache import CachingEmbedder
from almanac.schemas.declaration.embed_section import Embed


@pytest.fixture(scope="session")
def reader() -> Reader:
    """The reader of answers: both bundled embedders."""
    english, every = (CachingEmbedder(load_embedder(Embed(model=model), for_queries=True)) for model in BUNDLED)
    return Reader(every, lambda: english, is_multilingual=True)
