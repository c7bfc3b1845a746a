"""Templates over field values, such as `"{tour_name}. {description}"`, for ids, titles, texts and bodies."""

import re
from collections.abc import Mapping
from typing import Any

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


def fill(template: str, values: Mapping[str, Any]) -> str:
    """Fills in a template and strips white space from the result.

    Where a value is missing or empty, the literal text after its placeholder is left out too: "{title}. {text}" without a title gives the text alone, not
    ". " before it.
    """
    literals_and_names = _PLACEHOLDER.split(template)
    filled = [literals_and_names[0]]
    for name, literal in zip(literals_and_names[1::2], literals_and_names[2::2], strict=True):
        text = render(values.get(name))
        if text.strip():
            filled += [text, literal]
    return "".join(filled).strip()


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
