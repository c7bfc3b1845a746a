"""Tells what a YAML document amounts to before anything is made of it: aliases let a few lines stand for billions of
values, or for themselves.
"""

from dataclasses import dataclass
from typing import NamedTuple

_MAX_KEYS = 4  # lists and mappings as keys of mappings that are keys: each takes twice the time of the one in it


class Excess(NamedTuple):
    """Where a document is larger than it may be, as a line from 1, and in what way."""

    line: int
    finding: str


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not come yet."""

    anchor: str | None
    before: int  # values before it
    is_mapping: bool
    keys: int  # within how many keys that are lists or mappings it stands
    nodes: int = 0  # in it, so far: of a mapping, keys and values in turn
    levels: int = 0  # in the deepest of them

    @property
    def awaits_key(self) -> bool:
        return self.is_mapping and self.nodes % 2 == 0


def excess_of(text: str, max_values: int, max_depth: int) -> Excess | None:
    """Where a document has more values than it may, with those of each alias counted once more, or is deeper, or
    contains itself; None if nowhere.

    Takes linear time and builds nothing. Raises ruamel's YAMLError for a text that is no YAML; of what follows an
    excess, nothing is read.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.events import (
        AliasEvent,
        MappingEndEvent,
        MappingStartEvent,
        NodeEvent,
        SequenceEndEvent,
        SequenceStartEvent,
    )

    values = 0
    stack: list[_Open] = []
    sizes: dict[str, int] = {}  # values of what an anchor names
    depths: dict[str, int] = {}  # levels in it
    for event in YAML(typ="safe", pure=True).parse(text):
        line = event.start_mark.line + 1
        if isinstance(event, AliasEvent):
            if any(open_node.anchor == event.anchor for open_node in stack):
                return Excess(line, f"*{event.anchor} stands within what it names")
            values += sizes.get(event.anchor, 1)
            levels = depths.get(event.anchor, 0)
        elif isinstance(event, MappingStartEvent | SequenceStartEvent):
            keys = stack[-1].keys + stack[-1].awaits_key if stack else 0
            stack.append(_Open(event.anchor, values, isinstance(event, MappingStartEvent), keys))
            values += 1
            if keys > _MAX_KEYS:
                return Excess(line, f"more than {_MAX_KEYS} keys within keys")
            if len(stack) > max_depth:
                return Excess(line, f"more than {max_depth} levels")
            continue
        elif isinstance(event, NodeEvent):
            values += 1
            levels = 0
            if event.anchor:
                sizes[event.anchor], depths[event.anchor] = 1, 0
        elif isinstance(event, MappingEndEvent | SequenceEndEvent):
            opened = stack.pop()
            levels = opened.levels + 1
            if opened.anchor:
                sizes[opened.anchor], depths[opened.anchor] = values - opened.before, levels
        else:
            continue
        if stack:
            stack[-1].nodes += 1
            stack[-1].levels = max(stack[-1].levels, levels)
        if values > max_values:
            return Excess(line, f"more than {max_values:,} values, with those of each alias")
        if len(stack) + levels > max_depth:
            return Excess(line, f"more than {max_depth} levels")
    return None
