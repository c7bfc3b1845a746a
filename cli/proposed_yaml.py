"""Writes a proposed declaration as YAML that is pleasant to read: what was seen stands above each key."""

import io
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from almanac.core.yaml_source import literal

if TYPE_CHECKING:
    from almanac.spiders.proposing.proposal import ProposedSource

_ORDER = (
    "name", "kind", "glob", "start_urls", "sitemaps", "allowed_domains", "fetch", "follow", "pagination", "listing",
    "match", "each", "yields", "id", "title", "fields", "limits", "politeness",
)  # fmt: skip
_IN_LINES = ("fields", "listing")  # keys whose parts have a line each
_COLUMNS = 110  # of comments
_ENDLESS = 100_000  # columns: a value stays on its line


def proposed_declaration(
    name: str, origin: str, model: tuple[str, str], sources: "Sequence[ProposedSource]", language: str
) -> str:
    """The text of a declaration. `model` is that which embeds, and why it does."""
    from ruamel.yaml import YAML

    title = next((source.title for source in sources if source.title), name)
    whole = _written({"name": name, "title": title, "language": language})
    whole.fa.set_block_style()
    whole["sources"] = [_source(source) for source in sources]
    whole["embed"] = _written({"provider": "local", "model": model[0]})
    whole["validate"] = _written({"min_items": 1, "max_rejected": "5%"})
    whole["gate"] = _written({"max_failed": "5%", "max_lost": "10%"})
    whole.yaml_set_start_comment(
        _comment(f"Proposed from {origin}. What was seen stands above each key; other pages may be different.")
        + f"\nLook at it with: almanac validate {name}; almanac test-url {name} …; almanac plan {name}"
    )
    whole.yaml_set_comment_before_after_key("embed", before=model[1])
    whole.yaml_set_comment_before_after_key("gate", before="a worse run is not published")
    writer, out = YAML(), io.StringIO()
    writer.width = _ENDLESS
    writer.indent(mapping=2, sequence=4, offset=2)
    writer.dump(whole, out)
    return out.getvalue()


def _source(proposed: "ProposedSource") -> Any:
    keys = sorted(proposed.keys, key=_ORDER.index)
    source = _written({key: proposed.keys[key] for key in keys})
    for mapping in (source, *(source[key] for key in _IN_LINES if key in source)):
        mapping.fa.set_block_style()
    for key in keys:
        remarks = proposed.remarks if key == keys[-1] else []
        for line in [*remarks, *filter(None, [proposed.seen.get(key)])]:
            source.yaml_set_comment_before_after_key(key, before=_comment(line), indent=4)
    return source


def _written(value: Any) -> Any:
    """A value as it stands on one line, its texts without variables."""
    from ruamel.yaml.comments import CommentedMap, CommentedSeq

    if not isinstance(value, dict | list):
        return literal(value) if isinstance(value, str) else value
    written: Any = (
        CommentedMap({key: _written(part) for key, part in value.items()})
        if isinstance(value, dict)
        else CommentedSeq(map(_written, value))
    )
    written.fa.set_flow_style()
    return written


def _comment(text: str) -> str:
    """A comment in short lines, whatever a page has in it."""
    return textwrap.fill(
        "".join(character if character.isprintable() else " " for character in text), _COLUMNS, break_long_words=False
    )
