"""Fills in templates over field values, such as `"{tour_name}. {description}"`, for ids, titles, texts and bodies."""

from collections.abc import Mapping
from typing import Any

from almanac.schemas.declaration.template import parse_template


def fill(template: str, values: Mapping[str, Any]) -> str:
    """Fills in a template and strips white space from the result.

    `{price.amount}` takes a part of a value, or of each entry of a list. Where a value is missing or empty, the literal
    text after its placeholder is left out too: "{title}. {text}" without a title gives the text alone, not ". " before
    it. Raises ValueError for a template that `parse_template` refuses.
    """
    literals_and_names = parse_template(template)
    filled = [literals_and_names[0]]
    for name, literal in zip(literals_and_names[1::2], literals_and_names[2::2], strict=True):
        text = render(_part(values, name))
        if text.strip():
            filled += [text, literal]
    return "".join(filled).strip()


def _part(value: Any, name: str) -> Any:
    """The part of a value that a dotted name leads to, for each entry of a list; None where there is none. A name with
    a dot in it comes first.
    """
    if isinstance(value, list | tuple):
        return [_part(entry, name) for entry in value]
    if not isinstance(value, Mapping) or name in value:
        return value[name] if isinstance(value, Mapping) else None
    heads = (name[:number] for number, character in enumerate(name) if character == ".")
    parts = (_part(value[head], name[len(head) + 1 :]) for head in heads if head in value)
    return next((part for part in parts if part is not None), None)


def render(value: Any) -> str:
    """Formats a field value for readers: `51.77 £`, `red, blue`, `yes`; None gives an empty text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, Mapping):
        return " ".join(text for part in value.values() if (text := render(part)))
    if isinstance(value, list | tuple):
        return ", ".join(text for part in value if (text := render(part)))
    return str(value)
