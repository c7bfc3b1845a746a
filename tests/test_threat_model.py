"""Each promise of the threat model names tests that exist."""

import re

import pytest

from tests.conftest import ROOT

_PROMISES = [
    line
    for line in (ROOT / "docs/security.md")
    .read_text(encoding="utf-8")
    .partition("## Promises")[2]
    .partition("\n## ")[0]
    .splitlines()
    if line.startswith("| ")
][1:]


@pytest.mark.parametrize("promise", _PROMISES, ids=lambda line: line.split("|")[2].strip()[:40])
def test_a_promise_is_held_by_a_test(promise: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)`", promise)
    assert named, promise
    assert [path for path in named if not (ROOT / path).is_file()] == []
