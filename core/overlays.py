"""Overlays: `<file>.<env>.yaml` beside a declaration says what is different in one environment, such as dev, staging or production.

Mappings are merged key by key, `sources` by their names; other lists and values take the place of the declaration's. `null` takes a key back to its
default; only for a share of the gate it is itself a value: it switches that check off.
"""

import glob
import re
from pathlib import Path

from almanac.core.yaml_source import Keys, Node, dotted, read_tree
from almanac.schemas.errors import DeclarationError, NotFound, UsageError

_ENV = re.compile(r"[a-z0-9][a-z0-9_-]*")
SUFFIXES = (".yaml", ".yml")
# Where null is a value of its own.
_NULL_MEANS_OFF: frozenset[Keys] = frozenset({("gate", "max_failed"), ("gate", "max_lost")})


def overlays_of(base: Path) -> dict[str, Path]:
    """The environments that have an overlay beside this declaration, by name."""
    found: dict[str, Path] = {}
    for path in sorted(base.parent.glob(f"{glob.escape(base.stem)}.*")):
        env = path.stem.removeprefix(f"{base.stem}.")
        if path.suffix in SUFFIXES and path.stem != base.stem and _ENV.fullmatch(env):
            found.setdefault(env, path)
    return found


def base_of(path: Path) -> tuple[Path, str] | None:
    """The declaration that this file is an overlay of, and for which environment; None where it is none."""
    stem, dot, env = path.stem.rpartition(".")
    if not dot or not stem or not _ENV.fullmatch(env):
        return None
    bases = [path.with_name(f"{stem}{suffix}") for suffix in (path.suffix, *SUFFIXES)]
    return next(((base, env) for base in bases if base.is_file()), None)


def find_overlay(base: Path, env: str, *, asked_by: str) -> Path:
    """The overlay's file. `asked_by` names the option or variable that wants it."""
    if not _ENV.fullmatch(env):
        raise UsageError(f"'{env}' cannot be an environment's name", where=asked_by, hint="lower-case letters, digits, - and _, such as dev or staging")
    known = overlays_of(base)
    if env not in known:
        looked_for = base.with_name(f"{base.stem}.{env}{base.suffix}")
        hint = f"overlays there are: {', '.join(known)}" if known else f"there is no overlay beside {base.name}; that file says what is different in {env}"
        raise NotFound(f"no overlay '{env}' of {base.name}, which {asked_by} asks for", where=str(looked_for), hint=hint)
    return known[env]


def with_overlay(base: Node, path: Path) -> Node:
    """The declaration with the overlay's values; each still knows its place."""
    over = read_tree(path)
    if over.value is None:
        return base  # nothing is different there, yet
    if not isinstance(over.value, dict):
        raise DeclarationError("is not a mapping of keys", where=str(path), hint="write what is different there, such as: embed: {model: ./model}")
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
    """A source whose name the declaration has is changed; another one is new, and has to be complete."""
    sources: list[Node] = list(base.value)
    met: set[str] = set()
    for number, node in enumerate(over.value):
        name = _name_of(node)
        if name is None or name in met:
            finding = "is required: an overlay's sources are told apart by it" if name is None else f"'{name}' is there twice"
            raise DeclarationError(
                f"{dotted(('sources', number))}.name: {finding}", where=node.place, hint="one entry a source, with the name of one to change"
            )
        met.add(name)
        place = next((place for place, known in enumerate(sources) if _name_of(known) == name), len(sources))
        known = sources[place] if place < len(sources) else Node(None, node.path, node.line)
        sources[place : place + 1] = [_merge(known, node, ("sources", place))]
    return Node(sources, over.path, over.line)


def _name_of(source: Node) -> str | None:
    name = source.value.get("name") if isinstance(source.value, dict) else None
    return name.value if name is not None and isinstance(name.value, str) else None
