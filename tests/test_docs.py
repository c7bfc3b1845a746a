"""What the guides show works: every declared source in them loads, every link leads somewhere, and every module that
the top documents name is there.
"""

import re
from pathlib import Path

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


_PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "examples" / "README.md"]


def _anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    dead = []
    for link in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        target = page.parent / path
        if not target.exists() or (path and anchor and target.suffix == ".md" and anchor not in _anchors(target)):
            dead.append(link)
    assert dead == []


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_module_that_is_named_is_there(name: str) -> None:
    named = set(re.findall(r"`([\w/]+\.py)`", (ROOT / name).read_text(encoding="utf-8")))
    there = [f"/{path.relative_to(ROOT)}" for path in ROOT.glob("[a-z]*/**/*.py")] + ["/setup.py"]
    assert named
    assert [one for one in named if not any(path.endswith(f"/{one}") for path in there)] == []


@pytest.mark.parametrize(
    "error", [Unreachable, CredentialRefused, StorageError, StoreAway, OperationalError, PrefectGone, DamagedVersion]
)
def test_the_runbook_has_each_kind_of_operational_error(error: type[OperationalError]) -> None:
    assert f"\n| `{error('').kind}` | " in (ROOT / "docs/runbook.md").read_text(encoding="utf-8")
