"""Content hashes: SHA-256 of bytes, text and files, and canonical JSON."""

import hashlib
import json
from pathlib import Path
from typing import Any

_CHECK = "check"


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


def checked(values: dict[str, Any]) -> dict[str, Any]:
    """Returns JSON values with a hash of themselves as `check`, by which `unchecked` notices a change."""
    return {**values, _CHECK: short_hash(values)}


def unchecked(values: Any) -> dict[str, Any]:
    """Returns the values that `checked` was given. Raises ValueError where they were altered."""
    if not isinstance(values, dict) or values.get(_CHECK) != short_hash(
        rest := {key: value for key, value in values.items() if key != _CHECK}
    ):
        raise ValueError("altered: it does not match its hash")
    return rest


def short_hash(value: Any) -> str:
    """Returns the first 16 hex digits of the SHA-256 of a value's canonical JSON; values that JSON cannot represent are
    converted by `str`.
    """
    return sha256(canonical_json(json.loads(json.dumps(value, default=str))))[:16]
