"""How content is identified: SHA-256 of bytes, text and files, and one JSON text for equal values."""

import hashlib
import json
from pathlib import Path
from typing import Any


def sha256(content: bytes | str) -> str:
    """Hex SHA-256; text is hashed as UTF-8 (lone surrogates are kept)."""
    return hashlib.sha256(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content).hexdigest()


def file_sha256(path: Path) -> str:
    """Hex SHA-256 of a file's content, which is never in memory as a whole. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def canonical_json(value: Any) -> str:
    """The same text for equal values: keys sorted, no spaces, Unicode as it is."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def short_hash(value: Any) -> str:
    """The first 16 characters of the SHA-256 of a value's canonical JSON; what JSON has no form for counts as its text."""
    return sha256(canonical_json(json.loads(json.dumps(value, default=str))))[:16]
