"""The type of a size in a declaration."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*")
_UNITS = {"b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "kb": 10**3, "mb": 10**6, "gb": 10**9}


def _parse_bytes(value: Any) -> Any:
    if isinstance(value, str) and (match := _SIZE.fullmatch(value)):
        unit = _UNITS.get(match[2].lower())
        if unit is None:
            raise ValueError(f"unknown unit {match[2]!r}; use one of KiB, MiB, GiB, kB, MB, GB")
        return int(float(match[1]) * unit)
    return value


Bytes = Annotated[
    int,
    BeforeValidator(_parse_bytes, json_schema_input_type=int | Annotated[str, Field(pattern=f"^{_SIZE.pattern}$")]),
]
