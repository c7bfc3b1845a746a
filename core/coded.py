"""Values of many rows, each distinct one stored once."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from almanac.schemas.hashing import canonical_json

Codes = npt.NDArray[np.int32]


class Coded:
    """Values of rows, dictionary-encoded: `codes` is int32 (n_rows,), the index of each row's value in `distinct`,
    which is in the order of first occurrence.

    Values that Python considers equal but that differ in type (1, 1.0 and True) are different ones.
    """

    def __init__(self, parts: Iterable[tuple[Sequence[Any], Codes]]) -> None:
        """Each part is of consecutive rows: some values, and the index of each row's value among these."""
        self.distinct: list[Any] = []
        numbers: dict[Any, int] = {}
        codes = [np.zeros(0, dtype=np.int32)]
        for values, rows in parts:
            own = np.empty(len(values), dtype=np.int32)
            for place, value in enumerate(values):
                own[place] = numbers.setdefault(_key(value), len(numbers))
                if len(numbers) > len(self.distinct):
                    self.distinct.append(value)
            codes.append(own[rows])
        self.codes: Codes = np.concatenate(codes)

    @classmethod
    def from_values(cls, values: Sequence[Any]) -> "Coded":
        """From the value of each row."""
        return cls([(values, np.arange(len(values), dtype=np.int32))])

    def values(self) -> list[Any]:
        """Returns the value of each row."""
        return [self.distinct[code] for code in self.codes.tolist()]

    def among(self, rows: npt.NDArray[np.bool_] | None) -> list[Any]:
        """Returns the distinct values of the rows of a mask, bool (n_rows,); None for all rows."""
        return self.distinct if rows is None else [self.distinct[code] for code in np.unique(self.codes[rows]).tolist()]


def _key(value: Any) -> Any:
    """Hashable key of a value."""
    return (
        (type(value), value) if value is None or isinstance(value, str | int | float | bool) else canonical_json(value)
    )
