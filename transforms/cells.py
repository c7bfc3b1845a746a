"""What of an item a rule looks at: plain cells for a data frame, and narrow columns for rules that need all items at
once.
"""

import hashlib
import math
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

from almanac.schemas.hashing import canonical_json
from almanac.schemas.items import Item
from almanac.transforms.expectations import MET, Aspect, Rule, moment
from almanac.transforms.matching import matched

STRANGE = object()  # stands for a value that is no number, no date or no text, where one is needed
_DIGEST = 16  # bytes: two different values of a billion are taken for the same with a probability of 1e-21


def value_of(item: Item, name: str) -> Any:
    """The value of a field; of `title`, `url` and `text`, the item's own unless it has such a field."""
    return (
        item.fields[name]
        if name in item.fields
        else getattr(item, name, None)
        if name in ("title", "url", "text")
        else None
    )


def cells_of(item: Item, rule: Rule) -> list[tuple[Any, ...]]:
    """What the rule judges of the item: a cell for each of its fields, once, or once for each entry of a list."""
    if rule.aspect == "mapped":
        return [(MET,)]
    if rule.by_mapping and rule.fields == ("id",):
        return [(cell_of(item.document_id, rule.aspect),)]
    values = [value_of(item, name) for name in rule.fields]
    if (
        len(values) == 1
        and isinstance(values[0], list)
        and rule.aspect in ("value", "text", "number", "moment", "pattern")
    ):
        return [(_judged(entry, rule),) for entry in values[0]]
    return [tuple(_judged(value, rule) for value in values)]


def _judged(value: Any, rule: Rule) -> Any:
    return (
        cell_of(value, rule.aspect)
        if rule.aspect != "pattern"
        else matched(_cell(value, "value"), rule.expectation, rule.arguments)
    )


def is_present(rule: Rule, cells: list[tuple[Any, ...]]) -> bool:
    """Whether an item with these cells counts for `mostly`: as in the library, not without a value; where there are
    several, `ignore_row_if` says which.
    """
    if rule.expectation in ("expect_column_values_to_not_be_null", "expect_column_values_to_be_null"):
        return bool(cells)
    match rule.arguments.get("ignore_row_if"):
        case "neither" | "never":
            return bool(cells)
        case "either_value_is_missing" | "any_value_is_missing":
            return any(None not in entry for entry in cells)
    return any(cell is not None for entry in cells for cell in entry)


def cell_of(value: Any, aspect: Aspect) -> Any:
    """A value as the library gets it; None where there is none, STRANGE where it is not what the rule needs."""
    cell = _cell(value, aspect)
    if isinstance(cell, str) and not cell.isascii():
        try:
            cell.encode()
        except UnicodeEncodeError:  # half of a pair, as in the JSON "\ud83d": pandas takes no such text
            return cell.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return cell


def _cell(value: Any, aspect: Aspect) -> Any:
    match aspect:
        case "length" | "length from 0":
            if value is None:
                return None if aspect == "length" else 0
            return len(value if isinstance(value, str | list | dict) else str(value))
        case "number":
            return _number(value)
        case "moment":
            return _moment(value)
        case "text":
            return value if value is None or isinstance(value, str) else STRANGE
        case "key":
            return (
                None
                if value is None
                else hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).digest()[:_DIGEST]
            )
        case "type":
            return None if value is None else type(value).__name__
        case "json":
            return None if value is None else canonical_json(value)
    if (
        isinstance(value, dict)
        and "amount" in value
        and value.keys() <= {"amount", "currency"}
        and (amount := _number(value)) is not STRANGE
    ):
        return amount  # a price counts as its amount
    return canonical_json(value) if isinstance(value, list | dict) else value


def _number(value: Any) -> Any:
    if isinstance(value, bool) or (isinstance(value, dict) and "amount" not in value):
        return STRANGE
    amount = value["amount"] if isinstance(value, dict) else value
    if amount is None:
        return None
    try:
        number = float(amount)
    except (TypeError, ValueError, OverflowError):
        return STRANGE
    return number if math.isfinite(number) else STRANGE


def _moment(value: Any) -> Any:
    try:
        return None if value is None else moment(value)
    except (TypeError, ValueError, OverflowError):
        return STRANGE


class Narrow:
    """A column of all items of a source, in a few bytes a row: numbers as they are, keys as digests, other values once
    each.

    `owners` has, for each row, the number of the item within its source.
    """

    def __init__(self, aspect: Aspect) -> None:
        self._aspect = aspect
        self._numbers = array("d")
        self._digests = bytearray()
        self._values: list[Any] = []
        self._same: dict[Any, Any] = {}
        self.owners = array("q")

    def add(self, owner: int, cell: Any) -> None:
        self.owners.append(owner)
        if self._aspect in ("number", "moment"):
            self._numbers.append(math.nan if cell is None or cell is STRANGE else cell)
        elif self._aspect == "key":
            self._digests += bytes(_DIGEST) if cell is None else cell
        else:
            self._values.append(self._same.setdefault((type(cell), cell), cell))

    def column(self, rows: Any = None) -> Any:
        """The column as a NumPy array; of keys, a number for each distinct one, missing ones NaN. `rows` is a mask;
        None takes all.
        """
        import numpy as np

        if self._aspect in ("number", "moment"):
            column: Any = np.frombuffer(self._numbers, dtype=np.float64)
        elif self._aspect == "key":
            digests = np.frombuffer(self._digests, dtype=np.uint64).reshape(-1, _DIGEST // 8)
            distinct, codes = np.unique(digests, return_inverse=True, axis=0)
            column = codes.reshape(-1).astype(np.float64)
            missing = np.flatnonzero(~distinct.any(axis=1))
            column[np.isin(column, missing)] = np.nan
        else:
            column = np.empty(len(self._values), dtype=object)
            column[:] = self._values
        return column if rows is None else column[rows]


def later_ones(codes: Any, rows: Sequence[int]) -> Iterator[int]:
    """The rows of a NumPy table whose values stand in an earlier one of `rows`."""
    seen = set()
    for row in sorted(rows):
        code = codes[row].tobytes()
        if code in seen:
            yield row
        seen.add(code)
