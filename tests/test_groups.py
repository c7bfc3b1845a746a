"""What is said to share a worker does."""

import pytest


@pytest.mark.xdist_group("groups")
def test_a_group_is_told_to_those_who_hand_out_tests(request: pytest.FixtureRequest) -> None:
    """Where it is not, a run that serves a whole file is made once on each worker, and tests of one server meet two."""
    grouped = request.config.getoption("loadgroup", default=False)
    assert request.node.nodeid.endswith("@groups") is bool(grouped)
