"""Validates a run's items with Great Expectations; items that break an expectation are quarantined."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.source import Source
from almanac.schemas.errors import DeclarationError
from almanac.schemas.hashing import canonical_json
from almanac.schemas.items import Item, Reject
from almanac.transforms.expectations import ColumnExpectation, expectations_of


@dataclass(slots=True)
class Validation:
    """The result of a validation: `rejects` by item number in order of arrival, and `report` with one row per expectation.

    Keys of a row: source, field, expectation, rule, checked, broken, ok.
    """

    rejects: dict[int, Reject] = field(default_factory=dict)
    report: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class _Checked:
    """The data to check of one source: the numbers of its items, and a column of cells for each expectation."""

    source: Source
    expectations: list[ColumnExpectation]
    rows: list[int] = field(default_factory=list)
    cells: list[list[Any]] = field(default_factory=list)


def validate_items(items: Iterable[Item], declaration: Declaration) -> Validation:
    """Checks every item against the expectations declared for its source.

    `items` is iterated twice; only checked cells stay in memory. Raises DeclarationError for an expectation that cannot be evaluated.
    """
    checked = {source.name: _Checked(source, found) for source in declaration.sources if (found := expectations_of(declaration, source))}
    for one in checked.values():
        one.cells = [[] for _ in one.expectations]
    for number, item in enumerate(items) if checked else ():
        if (mine := checked.get(item.source)) is not None:
            mine.rows.append(number)
            for cells, expectation in zip(mine.cells, mine.expectations, strict=True):
                cells.append(_cell(item, expectation))
    result = Validation()
    broken = {row: expectation for one in checked.values() if one.rows for row, expectation in _check(one, result.report).items()}
    for number, item in enumerate(items) if broken else ():
        if number in broken:
            name, rule = broken[number].field, broken[number].rule
            result.rejects[number] = Reject(item.source, item.url, item.document_id, "validate", "expectation not met", name, _value(item, name), rule)
    return result


def _check(checked: _Checked, report: list[dict[str, Any]]) -> dict[int, ColumnExpectation]:
    """Item number → the first expectation that the item breaks; adds the source's rows to `report`."""
    expectations, source = checked.expectations, checked.source
    columns = {f"{e.field} {number}": cells for number, (e, cells) in enumerate(zip(expectations, checked.cells, strict=True))}
    _refuse_what_never_is_a_number(columns, source, expectations)
    broken: dict[int, ColumnExpectation] = {}
    for (name, cells), expectation, result in zip(columns.items(), expectations, _results(columns, source, expectations), strict=True):
        rows = list(result.result.get("unexpected_index_list") or [])
        if expectation.type == "ExpectColumnValuesToBeUnique":
            rows = _later_ones(cells, rows)
        rows += [row for row, cell in enumerate(cells) if cell is NOT_A_NUMBER]
        for row in rows:
            broken.setdefault(checked.rows[row], expectation)
        report.append(
            {
                "source": source.name, "field": expectation.field, "expectation": expectation.type, "rule": expectation.rule,
                "checked": len(columns[name]), "broken": len(rows), "ok": not rows,
            }
        )  # fmt: skip
    return broken


def _results(columns: Mapping[str, list[Any]], source: Source, expectations: Sequence[ColumnExpectation]) -> list[Any]:
    """The results of Great Expectations, in the order of the expectations, each on a column of its own."""
    import great_expectations as gx
    import pandas as pd
    from great_expectations.data_context.types.base import ProgressBarsConfig

    frame = pd.DataFrame({name: pd.Series([None if c is NOT_A_NUMBER else c for c in cells], dtype=object) for name, cells in columns.items()})
    # Ephemeral, so that nothing is written to disk; its progress bars would garble ours.
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    suite = gx.ExpectationSuite(name=source.name)
    for number, (name, expectation) in enumerate(zip(columns, expectations, strict=True)):
        arguments = {k: v for k, v in expectation.arguments.items() if v is not None}
        suite.add_expectation(getattr(gx.expectations, expectation.type)(column=name, meta={"number": number}, **arguments))
    batch = context.data_sources.add_pandas(source.name).add_dataframe_asset("items").add_batch_definition_whole_dataframe("all")
    outcome = batch.get_batch(batch_parameters={"dataframe": frame}).validate(suite, result_format="COMPLETE")
    results = sorted(outcome.results, key=_number_of)
    for expectation, result in zip(expectations, results, strict=True):
        _raise_if_failed_inside(result, source, expectation)
    return results


def _number_of(result: Any) -> int:
    return int(result.expectation_config.meta["number"])


def _raise_if_failed_inside(result: Any, source: Source, expectation: ColumnExpectation) -> None:
    """Raises DeclarationError if the check itself failed, which otherwise looks like a broken expectation."""
    info = result.exception_info or {}
    inner = [info] if "raised_exception" in info else list(info.values())
    for one in inner:
        if one.get("raised_exception"):
            raise DeclarationError(
                f"source '{source.name}', field '{expectation.field}': {expectation.rule} cannot be checked: {one.get('exception_message')}",
                where="validate.expect",
                hint="min and max go with numbers and prices, pattern with texts, min_length with texts and lists",
            )


NOT_A_NUMBER = object()


def _refuse_what_never_is_a_number(columns: Mapping[str, list[Any]], source: Source, expectations: Sequence[ColumnExpectation]) -> None:
    """Raises DeclarationError if not a single value of a numeric field is a number; one item with "N/A" is merely a bad item."""
    for cells, expectation in zip(columns.values(), expectations, strict=True):
        given = [cell for cell in cells if cell is not None]
        if given and all(cell is NOT_A_NUMBER for cell in given):
            raise DeclarationError(
                f"source '{source.name}', field '{expectation.field}': {expectation.rule} needs numbers, and none of {len(given)} values is one",
                where="validate.expect",
                hint="declare the field with type: number, integer or price",
            )


def _later_ones(cells: Sequence[Any], rows: list[int]) -> list[int]:
    """The rows whose value occurs in an earlier one of `rows`."""
    seen: set[Any] = set()
    later = []
    for row in sorted(rows):
        if cells[row] in seen:
            later.append(row)
        seen.add(cells[row])
    return later


def _value(item: Item, name: str) -> Any:
    return item.fields[name] if name in item.fields else getattr(item, name, None) if name in ("title", "url", "text") else None


def _cell(item: Item, expectation: ColumnExpectation) -> Any:
    """The value that the expectation checks, as a plain value; None if there is none."""
    value = _value(item, expectation.field)
    match expectation.aspect:
        case "length":
            return len(value) if isinstance(value, str | list | dict) else 0 if value is None else len(str(value))
        case "number":
            return _number(value)
        case "key":
            return None if value is None else canonical_json(value)
    if isinstance(value, list) and "value_set" in expectation.arguments:
        # A list is allowed if each entry is, so its first entry that is not represents it.
        return next((entry for entry in value if entry not in expectation.arguments["value_set"]), value[0] if value else None)
    return canonical_json(value) if isinstance(value, list | dict) else value


def _number(value: Any) -> Any:
    amount = value.get("amount") if isinstance(value, dict) else value
    if amount is None:
        return None
    try:
        number = float(amount)
    except (TypeError, ValueError, OverflowError):
        return NOT_A_NUMBER
    return number if math.isfinite(number) else NOT_A_NUMBER
