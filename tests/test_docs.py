"""What the guides show works: every declared source in them loads, every link leads somewhere, and every module that
the top documents name is there.
"""

import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.anchors import anchors_plugin
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


@cache
def _tokens(page: Path) -> list[Token]:
    """Of its Markdown, blocks and what stands in them, in order."""
    blocks = MarkdownIt("gfm-like", {"linkify": False}).use(anchors_plugin, max_level=6).parse(page.read_text("utf-8"))
    return [token for block in blocks for token in (block, *(block.children or ()))]


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    dead = []
    for link in [urlsplit(str(token.attrs.get("href") or token.attrs.get("src") or "")) for token in _tokens(page)]:
        target = page.parent / unquote(link.path) if link.path else page
        if not link.scheme and (
            not target.exists()
            or (link.fragment and link.fragment not in {token.attrs.get("id") for token in _tokens(target)})
        ):
            dead.append(link.geturl())
    assert dead == []


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_module_that_is_named_is_there(name: str) -> None:
    named = {token.content for token in _tokens(ROOT / name) if token.type == "code_inline"}
    modules = {path for path in named if path.endswith(".py")}
    assert modules
    assert [path for path in modules if not any((*ROOT.glob(path), *ROOT.glob(f"[a-z]*/**/{path}")))] == []


@pytest.mark.parametrize(
    "error", [Unreachable, CredentialRefused, StorageError, StoreAway, OperationalError, PrefectGone, DamagedVersion]
)
def test_the_runbook_has_each_kind_of_operational_error(error: type[OperationalError]) -> None:
    assert f"\n| `{error('').kind}` | " in (ROOT / "docs/runbook.md").read_text(encoding="utf-8")
