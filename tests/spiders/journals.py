"""Journals changed by hand, with lines that are whole all the same."""

import json
import re
from pathlib import Path

from almanac.spiders.store.journal import line_of, values_of


def edit(path: Path, pattern: str, new: str, *, only: str = "") -> None:
    """Replaces a regular expression in the JSON of each line that contains `only`."""
    lines = path.read_bytes().splitlines(keepends=True)
    texts = [json.dumps(values_of(line)) for line in lines]
    path.write_bytes(
        b"".join(line_of(json.loads(re.sub(pattern, new, text) if only in text else text)) for text in texts)
    )
