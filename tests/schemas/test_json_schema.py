"""The JSON Schema of declarations takes all that a run takes, and refuses what an editor should mark."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from almanac.core.overlays import base_of
from almanac.core.settings import installation
from almanac.schemas.declaration.json_schema import declaration_schema, overlay_schema

_FENCED = re.compile(r"^```ya?ml\n(.*?)^```", re.DOTALL | re.MULTILINE)
_SITE: dict[str, Any] = {"name": "s", "kind": "site", "start_urls": ["https://shop.example.org/"]}


@cache
def _checks(is_overlay: bool) -> tuple[Any, ...]:
    """Validators of both drafts that editors read."""
    schema = overlay_schema() if is_overlay else declaration_schema()
    return jsonschema.Draft202012Validator(schema), jsonschema.Draft7Validator(schema)


def _refusals(declared: Any, *, is_overlay: bool = False) -> list[str]:
    return [error.message for check in _checks(is_overlay) for error in check.iter_errors(declared)]


def _declared(**keys: Any) -> dict[str, Any]:
    return {"name": "shop", "sources": [_SITE], **keys}


def _shipped() -> list[Path]:
    return sorted((installation() / "knowledge").glob("*.yaml"))


def _in_documents() -> Iterator[tuple[str, Any]]:
    """Every YAML of the documents, and where it stands."""
    for page in sorted([installation() / "README.md", *(installation() / "docs").rglob("*.md")]):
        text = page.read_text(encoding="utf-8")
        for block in _FENCED.finditer(text):
            yield f"{page.name}:{text.count(chr(10), 0, block.start()) + 1}", YAML(typ="safe").load(block[1])


def test_it_is_a_schema_in_both_drafts() -> None:
    for schema in (declaration_schema(), overlay_schema()):
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.Draft7Validator.check_schema(schema)


@pytest.mark.parametrize("path", _shipped(), ids=lambda path: path.name)
def test_every_declaration_of_the_examples_is_valid(path: Path) -> None:
    declared = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    assert _refusals(declared, is_overlay=base_of(path) is not None) == []


def test_every_declaration_in_the_documents_is_valid() -> None:
    """A part of one stands in its place: a source, a list of them, or some keys."""
    wrong, judged = {}, 0
    for place, declared in _in_documents():
        if isinstance(declared, list) and all(isinstance(part, dict) and "kind" in part for part in declared):
            declared = {"name": "shop", "sources": declared}
        elif isinstance(declared, dict) and "kind" in declared:
            declared = {"name": "shop", "sources": [declared]}
        if not isinstance(declared, dict):
            continue
        judged += 1
        if refused := _refusals(declared, is_overlay="sources" not in declared or "name" not in declared):
            wrong[place] = refused
    assert wrong == {}
    assert judged > 20


@pytest.mark.parametrize(
    "keys",
    [
        {"gate": {"max_failed": 1.5}},
        {"gate": {"max_failed": "five"}},
        {"retrieve": {"k": "four"}},
        {"retrieve": {"mode": "both"}},
        {"shedule": "0 3 * * *"},
        {"name": "Shop"},
        {"sources": []},
        {"sources": [{**_SITE, "strt_urls": []}]},
        {"sources": [{**_SITE, "kind": "page"}]},
        {"sources": [{"name": "s", "start_urls": _SITE["start_urls"]}]},
        {"sources": [{"name": "s", "kind": "files"}]},
        {"sources": [{**_SITE, "fields": {"price": {"css": ".price", "type": "money"}}}]},
        {"sources": [{**_SITE, "limits": {"pages": -1}}]},
        {"validate": {"expect": [{"field": "price", "mean": 3}]}},
    ],
    ids=str,
)
def test_what_is_wrong_is_refused(keys: dict[str, Any]) -> None:
    assert _refusals(_declared()) == []
    assert _refusals(_declared(**keys)) != []


@pytest.mark.parametrize(
    "keys",
    [
        {"gate": {"max_failed": "5%", "max_lost": 0.1, "golden": None}},
        {"retrieve": {"k": "${K:-4}", "mode": "${MODE}"}},
        {"name": "${NAME}"},
        {"sources": [{**_SITE, "limits": {"pages": "${PAGES}", "bytes_per_page": "16MiB"}, "render": True}]},
        {"gate": {"complete": "${WHOLE}"}, "chunk": {"by": "${BY:-words}"}},
        {"sources": [{**_SITE, "gone": 401, "drop": [".banner", {"xpath": "//aside"}]}]},
        {"validate": {"expect": [{"expectation": "expect_table_row_count_to_be_between", "min_value": 3}]}},
    ],
    ids=str,
)
def test_short_forms_and_variables_are_admitted(keys: dict[str, Any]) -> None:
    assert _refusals(_declared(**keys)) == []


def test_an_overlay_needs_only_what_differs() -> None:
    assert _refusals({"sources": [{"name": "s", "limits": {"pages": 60}}], "gate": None}, is_overlay=True) == []
    assert _refusals({"sources": [{"limits": {"pages": 60}}]}, is_overlay=True) != []
    assert _refusals({"gates": None}, is_overlay=True) != []


def test_every_key_says_what_it_means() -> None:
    """An editor shows it beside the key."""
    schema = declaration_schema()
    models = {"Declaration": schema, **schema["$defs"]}
    silent = [
        f"{name}.{key}"
        for name, model in models.items()
        for key, part in model.get("properties", {}).items()
        if "description" not in part and key != "kind"
    ]
    assert silent == []
    assert schema["properties"]["language"]["default"] == "en"
