"""Reads declarations from YAML. Errors name file, line, key, what was found and what is allowed."""

import difflib
import os
import re
from collections.abc import Iterable
from datetime import date, time
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from schemas.declaration import Declaration
from schemas.errors import DeclarationError, NotFound
from schemas.model import Declared
from schemas.settings import project_root

# What stands below these is shown to nobody, even where it is written the wrong way.
_SECRET_KEYS = frozenset({"auth", "headers", "cookies"})
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def find_declaration(kb: str) -> Path:
    """The file of a knowledge base: a name under `knowledge/`, or a path to a YAML file."""
    if kb.endswith((".yaml", ".yml")) or os.sep in kb:
        path = Path(kb)
        if not path.is_file():
            raise NotFound("no such declaration file", where=kb, hint="almanac init NAME writes a commented one")
        return path
    folder = project_root() / "knowledge"
    path = folder / f"{kb}.yaml"
    if not path.is_file():
        names = ", ".join(sorted(p.stem for p in folder.glob("*.yaml"))) or "none yet"
        raise NotFound(f"no knowledge base '{kb}' under knowledge/", where=kb, hint=f"known: {names}; a path to a YAML file works too")
    return path


def is_declared(kb: str) -> bool:
    """Whether there is a declaration of that name, or at that path."""
    try:
        return find_declaration(kb).is_file()
    except NotFound:
        return False


def load_declaration(kb: str, env: str | None = None) -> Declaration:
    """Reads and checks the declaration of `kb`, a name or a path, with the overlay of `env`, else of ALMANAC_ENV."""
    path = find_declaration(kb)
    try:
        tree = YAML(typ="rt").load(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DeclarationError(f"not UTF-8: {error.reason} at byte {error.start}", where=str(path), hint="save the file as UTF-8") from error
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise DeclarationError(f"not valid YAML: {error.problem or error.context}", where=place, hint="check indentation, quotes and brackets there") from error
    except YAMLError as error:
        raise DeclarationError(f"not valid YAML: {error}", where=str(path), hint="check indentation, quotes and brackets") from error
    except OSError as error:
        raise DeclarationError(f"cannot be read: {error.strerror}", where=str(path), hint="check the file's permissions") from error
    if not isinstance(tree, dict):
        raise DeclarationError("is not a mapping of keys", where=str(path), hint="start with `name:` and `sources:`; almanac init NAME writes an example")
    try:
        return Declaration.model_validate(_beside(path, _substitute(tree, path, ()))).at(path.resolve())
    except ValidationError as error:
        raise _teach(path, tree, error.errors()) from error


def _beside(path: Path, declared: Any) -> Any:
    """The model's folder is relative to the declaration, as a glob is; what is no path is a model's name."""
    embed = declared.get("embed")
    if isinstance(embed, dict) and isinstance(model := embed.get("model"), str) and os.sep in model:
        embed["model"] = str((path.resolve().parent / Path(model).expanduser()).resolve())
    return declared


def _substitute(node: Any, path: Path, at: tuple[str | int, ...]) -> Any:
    """Plain Python values, with `${VAR}` and `${VAR:-default}` replaced in every string."""
    if isinstance(node, dict):
        return {str(key): _substitute(value, path, (*at, str(key))) for key, value in node.items()}
    if isinstance(node, list):
        return [_substitute(value, path, (*at, number)) for number, value in enumerate(node)]
    if isinstance(node, date | time):  # a datetime is a date, too
        return node.isoformat()
    if not isinstance(node, str):
        return node

    def value_of(match: re.Match[str]) -> str:
        value = os.environ.get(match[1]) or match[2]
        if value is None:
            raise DeclarationError(
                f"{_dotted(at)}: environment variable {match[1]} is not set", where=str(path), hint=f"export {match[1]}=…, or write ${{{match[1]}:-default}}"
            )
        return value

    return _VARIABLE.sub(value_of, str(node))


def _teach(path: Path, tree: Any, details: list[ErrorDetails]) -> DeclarationError:
    """One error for all findings, each with its line, key, value and what is allowed."""
    findings = sorted(((_line(tree, _keys(d, tree)), _finding(d, tree)) for d in details), key=lambda finding: finding[0] or 0)
    places = [f"line {line}: {text}" if line else text for line, text in findings]
    first = next((line for line, _ in findings if line), None)
    message = places[0] if len(places) == 1 else f"{len(places)} problems\n" + "\n".join(f"  - {p}" for p in places)
    hint = "docs/declaration.md lists every key with its meaning"
    return DeclarationError(message, where=f"{path}:{first}" if first else str(path), hint=hint)


def _finding(detail: ErrorDetails, tree: Any) -> str:
    keys = _keys(detail, tree)
    # The name of a header may hold the value by mistake.
    at, kind, found = _dotted(_without_names(keys)), detail["type"], detail["input"]
    if kind == "extra_forbidden":
        close = difflib.get_close_matches(str(detail["loc"][-1]), _keys_there_are(), 1)
        return f"{at}: unknown key" + (f"; did you mean {close[0]}?" if close else "")
    if kind == "union_tag_invalid":
        return f"{at}.kind: must be one of {detail['ctx']['expected_tags']}; found {detail['ctx']['tag']!r}"
    if kind == "union_tag_not_found":
        return f"{at}.kind: is required: site or files"
    if kind == "missing":
        return f"{at}: is required"
    message = detail["msg"].removeprefix("Value error, ")
    is_secret = kind == "secret" or not _SECRET_KEYS.isdisjoint(map(str, detail["loc"]))
    shown = "" if isinstance(found, dict | list) or kind == "not_supported_yet" or is_secret else f"; found {found!r}"
    return f"{at}: {message}{shown}" if at else f"{message}{shown}"


def _keys_there_are(model: type[Declared] = Declared) -> list[str]:
    own = [field.alias or name for name, field in model.model_fields.items()]
    return sorted({*own, *(key for part in model.__subclasses__() for key in _keys_there_are(part))})


def _without_names(keys: tuple[str | int, ...]) -> tuple[str | int, ...]:
    below = next((number for number, key in enumerate(keys) if key in ("headers", "cookies")), len(keys))
    return keys[: below + 1]


def _keys(detail: ErrorDetails, tree: Any) -> tuple[str | int, ...]:
    """The error's location as keys of the file; the tags of pydantic's unions are left out."""
    keys: list[str | int] = []
    node = tree
    for part in detail["loc"]:
        if isinstance(node, dict) and (part in node or (detail["type"] == "missing" and part == detail["loc"][-1])):
            keys.append(part)
            node = node.get(part)
        elif isinstance(node, list) and isinstance(part, int) and part < len(node):
            keys.append(part)
            node = node[part]
    return tuple(keys)


def _line(tree: Any, keys: Iterable[str | int]) -> int | None:
    line: int | None = None
    node: Any = tree
    for key in keys:
        try:
            marks = node.lc  # ruamel's line and column marks
            position = marks.key(key) if isinstance(node, dict) else marks.item(key)
        except (AttributeError, KeyError, IndexError):
            break
        line, node = position[0] + 1, node[key]
    return line


def _dotted(keys: Iterable[str | int]) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).lstrip(".")
