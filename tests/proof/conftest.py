"""The stage that the tests of a worker share."""

from collections.abc import Iterator

import pytest

from tests.proof.base import Stage


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("stage") / "log.txt")
    yield stage
    stage.close()
