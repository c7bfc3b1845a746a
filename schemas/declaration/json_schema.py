"""The JSON Schema of a declaration, by which an editor completes keys, shows their meaning and marks what is wrong."""

from collections.abc import Callable
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from almanac.schemas.declaration.knowledge_base import Declaration

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_VARIABLE = {
    "type": "string",
    "pattern": r"\$\{",
    "description": "filled from the environment: ${VAR}, ${VAR:-default}",
}
_SCALARS = ("integer", "number", "boolean")
_PICKY = ("enum", "pattern", "format", "minLength", "maxLength")  # where not every text is valid
_NO_KEYWORDS = ("discriminator", "ge", "gt", "le", "lt")  # OpenAPI's and pydantic's own


class _WithoutTitles(GenerateJsonSchema):
    """Keys speak for themselves: pydantic's title of `max_lost` is `Max Lost`."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


def declaration_schema() -> dict[str, Any]:
    """The schema of `knowledge/<name>.yaml` (draft 2020-12, read alike by draft 7): keys with their meaning, values and
    defaults. `${VAR}` may stand wherever a value is written, but for `kind`. What two keys demand of each other is for
    `almanac validate`.
    """
    schema: dict[str, Any] = Declaration.model_json_schema(schema_generator=_WithoutTitles)
    return {"$schema": _DIALECT, **_rewritten(schema, _admit_variables), "title": "A knowledge base of Almanac"}


def overlay_schema() -> dict[str, Any]:
    """The schema of `knowledge/<name>.<env>.yaml`: nothing is required but the names of sources, and `null` resets any
    key.
    """
    overlay = _rewritten(declaration_schema(), _ask_for_little)
    return {**overlay, "title": "An overlay of a knowledge base of Almanac"}


def _rewritten(node: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """A schema with each schema in it changed, the inner ones first."""
    if isinstance(node, list):
        return [_rewritten(part, change) for part in node]
    if not isinstance(node, dict):
        return node
    parts = {}
    for key, part in node.items():
        if key in ("properties", "$defs"):
            parts[key] = {name: _rewritten(schema, change) for name, schema in part.items()}
        else:
            parts[key] = part if key in ("default", "enum", "const") else _rewritten(part, change)
    return change(parts)


def _admit_variables(node: dict[str, Any]) -> dict[str, Any]:
    node = {key: part for key, part in node.items() if key not in _NO_KEYWORDS}
    if "oneOf" in node:  # a text may be a name and a template
        node["anyOf"] = node.pop("oneOf")
    if "anyOf" in node:  # those of its parts are its own
        parts = [
            part
            for alternative in node["anyOf"]
            for part in (alternative["anyOf"] if set(alternative) == {"anyOf"} else [alternative])
        ]
        return {**node, "anyOf": [*(part for part in parts if part != _VARIABLE), *[_VARIABLE] * (_VARIABLE in parts)]}
    kind = node.get("type", "string")
    if kind not in _SCALARS and (kind != "string" or not any(key in node for key in _PICKY)):
        return node
    about: dict[str, Any] = {key: node.pop(key) for key in ("description", "default") if key in node}
    words = [{"enum": ["yes", "no", "on", "off"]}] if kind == "boolean" else []  # which YAML 1.2 reads as texts
    return {**about, "anyOf": [node, *words, _VARIABLE]}


def _ask_for_little(node: dict[str, Any]) -> dict[str, Any]:
    if "properties" not in node:
        return node
    properties = node["properties"]
    resettable = {key: {"anyOf": [part, {"type": "null"}]} for key, part in properties.items()}
    return {**node, "required": ["name"] if "kind" in properties else [], "properties": resettable}
