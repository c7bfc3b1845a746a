"""Content hashes: SHA-256 of bytes, text and files, and canonical JSON."""

import hashlib
import json
from pathlib import Path
from typing import Any


def sha256(content: bytes | str) -> str:
    """Returns the hex SHA-256; text is encoded as UTF-8 (lone surrogates are kept)."""
    return hashlib.sha256(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content).hexdigest()


def file_sha256(path: Path) -> str:
    """Returns the hex SHA-256 of a file, read in blocks. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def canonical_json(value: Any) -> str:
    """Returns a value as JSON that is identical for equal values: sorted keys, no spaces, Unicode not escaped."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def short_hash(value: Any) -> str:
    """Returns the first 16 hex digits of the SHA-256 of a value's canonical JSON; values that JSON cannot represent are converted by `str`."""
    return sha256(canonical_json(json.loads(json.dumps(value, default=str))))[:16]
