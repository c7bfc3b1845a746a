"""What Chroma holds of a chunk, for stock clients to show and filter: its text as document, and flat metadata. The
tables are the record.

Chroma 1.5.9 refuses some keys and values, drops others without a word, and gives some floats back with another last
bit. `metadata_of` is the one form in which they are put there, by builds and exports, and with which verification
compares what it finds. docs/operating.md tells users of stock clients.
"""

import json
import math
from decimal import Decimal
from typing import Any

from almanac.schemas.hashing import canonical_json

Scalar = str | int | float | bool

CHROMA = "chroma"  # the folder of Chroma's own files in a version directory
DATABASE = "chroma.sqlite3"  # in that folder
OWN_KEYS = ("source", "document_id", "url", "title", "kind", "ordinal", "start", "end", "fetched_at")
# columns of chunks.parquet that a Chroma row is built from
STORED_COLUMNS = ["chunk_id", *OWN_KEYS, "text", "text_sha256", "metadata"]
_MOST_KEYS = 5000  # of one row; with the document, 5,461 and more fail: SQLite's limit of 32,766 variables by 6
_REFUSED = ("#", "$", "chroma:")  # Chroma refuses keys that begin so, or drops them; an empty one, too
_LARGEST = 2**63 - 1
# Chroma's reader of numbers takes the digits for a whole number and multiplies or divides it by a power of ten. This is
# exact as long as both are: 15 digits, and powers up to 10^22. A whole number from 10^15 on is written with another
# digit, `.0`.
_DIGITS, _DECIMALS, _BEYOND = 15, 22, 1e15


def document_of(row: dict[str, Any]) -> str:
    return _clean(row["text"])


def metadata_of(row: dict[str, Any]) -> dict[str, Scalar]:
    """Returns a chunk's metadata in Chroma: the built-in keys (`OWN_KEYS`), then the declared ones, which never
    overwrite them.

    A key that Chroma refuses gets `_` before it, unless another key is called that. Of more than 5,000 keys, the first
    in alphabetical order are there.
    """
    held = {key: _held(row[key]) for key in OWN_KEYS if row[key] is not None}
    # in the order of keys
    declared = [(key, _key(key), value) for key, value in json.loads(row["metadata"]).items() if value is not None]
    # Keys that are held as they are come before those with another name.
    for _, key, value in sorted(declared, key=lambda field: field[0] != field[1]):
        if key not in held and len(held) < _MOST_KEYS:
            held[key] = _held(value)
    return held


def _key(key: str) -> str:
    name = _clean(key)
    return f"_{name}" if not name or name.startswith(_REFUSED) else name


def _held(value: Any) -> Scalar:
    """A value as Chroma holds it: what is no text, truth value or number that it gives back as it was is text, as JSON.
    Floats are rounded to 15 digits.
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, int) and abs(value) <= _LARGEST:
        return value
    if isinstance(value, float) and math.isfinite(value):
        rounded = float(f"{value:.{_DIGITS}g}")
        if abs(rounded) < _BEYOND and -int(Decimal(repr(rounded)).as_tuple().exponent) <= _DECIMALS:
            return rounded
    return _clean(canonical_json(value))


def _clean(text: str) -> str:
    """Removes NUL characters, which can corrupt Chroma's text index."""
    return text.replace("\0", "")
