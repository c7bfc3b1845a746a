"""Overlays: `<file>.<env>.yaml` beside a declaration lists what differs in one environment, such as dev, staging or
production.

Mappings are merged key by key, `sources` by name; other lists and values replace those of the declaration. `null`
resets a key to its default, except for `gate.max_failed`, `gate.max_lost` and `gate.max_shrunk`, where it is a value
and switches the check off.
"""

import glob
import re
from pathlib import Path

from almanac.core.yaml_source import Keys, Node, dotted, read_tree
from almanac.schemas.errors import DeclarationError, NotFound, UsageError

_ENV = re.compile(r"[a-z0-9][a-z0-9_-]*")
SUFFIXES = (".yaml", ".yml")
# Keys for which null is a value.
_NULL_MEANS_OFF: frozenset[Keys] = frozenset(
    {("gate", "complete"), ("gate", "max_failed"), ("gate", "max_lost"), ("gate", "max_shrunk")}
)


def overlays_of(base: Path) -> dict[str, Path]:
    """Returns the overlays beside a declaration: name of the environment → path."""
    overlays: dict[str, Path] = {}
    for path in sorted(base.parent.glob(f"{glob.escape(base.stem)}.*")):
        env = path.stem.removeprefix(f"{base.stem}.")
        if path.suffix in SUFFIXES and path.stem != base.stem and _ENV.fullmatch(env):
            overlays.setdefault(env, path)
    return overlays


def base_of(path: Path) -> tuple[Path, str] | None:
    """Returns the declaration and the environment that an overlay file belongs to; None where the file is not an
    overlay.
    """
    stem, dot, env = path.stem.rpartition(".")
    if not dot or not stem or not _ENV.fullmatch(env):
        return None
    bases = [path.with_name(f"{stem}{suffix}") for suffix in (path.suffix, *SUFFIXES)]
    return next(((base, env) for base in bases if base.is_file()), None)


def find_overlay(base: Path, env: str, *, asked_by: str) -> Path:
    """Returns the overlay file of an environment.

    `asked_by` is the option or variable that selected the environment, for messages. Raises NotFound where there is no
    such overlay, UsageError for an invalid name.
    """
    if not _ENV.fullmatch(env):
        raise UsageError(
            f"'{env}' cannot be an environment's name",
            where=asked_by,
            hint="lower-case letters, digits, - and _, such as dev or staging",
        )
    known = overlays_of(base)
    if env not in known:
        looked_for = base.with_name(f"{base.stem}.{env}{base.suffix}")
        hint = (
            f"overlays there are: {', '.join(known)}"
            if known
            else f"there is no overlay beside {base.name}; that file says what is different in {env}"
        )
        raise NotFound(
            f"no overlay '{env}' of {base.name}, which {asked_by} asks for", where=str(looked_for), hint=hint
        )
    return known[env]


def with_overlay(base: Node, path: Path) -> Node:
    """Merges the overlay file at `path` into a declaration; each value keeps its own file and line. Raises
    DeclarationError for an invalid overlay.
    """
    over = read_tree(path)
    if over.value is None:
        return base  # an empty file
    if not isinstance(over.value, dict):
        raise DeclarationError(
            "is not a mapping of keys",
            where=str(path),
            hint="write what is different there, such as: embed: {model: ./model}",
        )
    return _merge(base, over, ())


def _merge(base: Node, over: Node, at: Keys) -> Node:
    if at == ("sources",) and isinstance(base.value, list) and isinstance(over.value, list):
        return _merge_sources(base, over)
    if not isinstance(over.value, dict):
        return over
    merged: dict[str, Node] = dict(base.value) if isinstance(base.value, dict) else {}
    for key, node in over.value.items():
        if node.value is None and (*at, key) not in _NULL_MEANS_OFF:
            merged.pop(key, None)
        else:
            merged[key] = _merge(merged.get(key, Node(None, node.path, node.line)), node, (*at, key))
    return Node(merged, over.path, over.line)


def _merge_sources(base: Node, over: Node) -> Node:
    """Merges sources by name: a known name changes that source, an unknown one adds a source, which has to be
    complete.
    """
    sources: list[Node] = list(base.value)
    met: dict[str, int | None] = {}
    for number, node in enumerate(over.value):
        name = _name_of(node)
        if name is None or name in met:
            finding = (
                "is required: an overlay's sources are told apart by it"
                if name is None
                else f"'{name}' is there twice, first on line {met[name]}"
            )
            raise DeclarationError(
                f"{dotted(('sources', number))}.name: {finding}",
                where=node.place,
                hint="one entry a source, with the name of one to change",
            )
        met[name] = node.line
        place = next((place for place, known in enumerate(sources) if _name_of(known) == name), len(sources))
        known = sources[place] if place < len(sources) else Node(None, node.path, node.line)
        sources[place : place + 1] = [_merge(known, node, ("sources", place))]
    return Node(sources, over.path, over.line)


def _name_of(source: Node) -> str | None:
    name = source.value.get("name") if isinstance(source.value, dict) else None
    return name.value if name is not None and isinstance(name.value, str) else None
