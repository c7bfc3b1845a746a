"""Row format of a chunk in Chroma: the document is its text, and the metadata is flat, so that stock Chroma clients can show and filter it."""

import json
import math
from typing import Any

from almanac.schemas.hashing import canonical_json

Scalar = str | int | float | bool

CHROMA = "chroma"  # the folder of Chroma's own files in a version directory
DATABASE = "chroma.sqlite3"  # in that folder
OWN_KEYS = ("source", "document_id", "url", "title", "kind", "ordinal", "start", "end", "fetched_at")
STORED_COLUMNS = ["chunk_id", *OWN_KEYS, "text", "text_sha256", "metadata"]  # columns of chunks.parquet that a Chroma row is built from
_LARGEST = 2**63 - 1


def document_of(row: dict[str, Any]) -> str:
    return _clean(row["text"])


def metadata_of(row: dict[str, Any]) -> dict[str, Scalar]:
    """Returns a chunk's metadata in Chroma: the built-in keys (`OWN_KEYS`), then the declared ones, which never overwrite them.

    Scalars are stored unchanged, nested values as JSON text; None is left out. Declared keys that are empty or begin with `chroma:` are dropped.
    """
    declared = {key: value for key, value in json.loads(row["metadata"]).items() if key not in OWN_KEYS and key and not key.startswith("chroma:")}
    flat: dict[str, Scalar] = {}
    for key, value in {**{key: row[key] for key in OWN_KEYS}, **declared}.items():
        if value is not None:
            flat[_clean(key)] = _scalar(value)
    return flat


def _scalar(value: Any) -> Scalar:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _clean(value)
    # Chroma silently drops values that do not fit (integers beyond 64 bits, infinity).
    if (isinstance(value, int) and abs(value) <= _LARGEST) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return _clean(canonical_json(value))


def _clean(text: str) -> str:
    """Removes NUL characters, which can corrupt Chroma's text index."""
    return text.replace("\0", "")
