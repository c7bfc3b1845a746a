"""What there is to read of a chunk, from a row of its version."""

from collections.abc import Mapping
from typing import Any

READABLE = ("text", "passage")  # the columns it is made of
TITLED = ("title", *READABLE)


def readable(row: Mapping[str, Any]) -> str:
    """The text of a row with READABLE, as `Hit.readable`."""
    return str(row["text"] if row["passage"] is None else row["passage"])


def titled(row: Mapping[str, Any]) -> str:
    """The title of a row with TITLED, and its text."""
    return f"{row['title']} {readable(row)}"
