"""Templates over field values, such as `"{tour_name}. {description}"`: ids, titles, texts and bodies are made with them."""

import re
from collections.abc import Mapping
from typing import Any

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


def fill(template: str, values: Mapping[str, Any]) -> str:
    """The template with its values put in, stripped.

    A value that is missing or empty takes the literal text after its placeholder with it, so that "{title}. {text}"
    without a title gives the text alone and not ". " before it.
    """
    literals_and_names = _PLACEHOLDER.split(template)
    filled = [literals_and_names[0]]
    for name, literal in zip(literals_and_names[1::2], literals_and_names[2::2], strict=True):
        text = render(values.get(name))
        if text.strip():
            filled += [text, literal]
    return "".join(filled).strip()


def render(value: Any) -> str:
    """A field value as a reader would write it: `51.77 £`, `red, blue`, `yes`."""
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
