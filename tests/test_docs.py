"""What the guides show works: every declared source in them loads."""

import re

import pytest
from pydantic import TypeAdapter
from ruamel.yaml import YAML

from almanac.schemas.declaration.source import Source
from almanac.schemas.errors import (
    CredentialRefused,
    DamagedVersion,
    OperationalError,
    PrefectGone,
    StorageError,
    StoreAway,
    Unreachable,
)
from tests.conftest import ROOT

_BLOCKS = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/sources.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("block", _BLOCKS, ids=lambda block: block.split("\n")[0])
def test_recipe_is_a_valid_source(block: str) -> None:
    declared = YAML(typ="safe").load(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", block))
    source: Source = TypeAdapter(Source).validate_python(declared)
    assert source.name == declared["name"]


@pytest.mark.parametrize(
    "error", [Unreachable, CredentialRefused, StorageError, StoreAway, OperationalError, PrefectGone, DamagedVersion]
)
def test_the_runbook_has_each_kind_of_operational_error(error: type[OperationalError]) -> None:
    assert f"\n| `{error('').kind}` | " in (ROOT / "docs/runbook.md").read_text(encoding="utf-8")
