"""What generators share: a model on loopback with its key, and published knowledge bases of their own."""

from collections.abc import Iterator

import pytest

from tests.loopback.mistral import LoopbackMistral


@pytest.fixture(scope="module")
def mistral() -> Iterator[LoopbackMistral]:
    with LoopbackMistral() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("MISTRAL_API_KEY", "sk-loopback-1234567890")
        patch.delenv("INDEX_NAME", raising=False)
        yield server
