"""Great Expectations over a run's items. An item that breaks an expectation is quarantined; the rest goes on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.declaration import Declaration
from schemas.errors import DeclarationError
from schemas.expectations import ColumnExpectation, expectations_of
from schemas.items import Item, Reject, canonical_json
from schemas.sources import Source


@dataclass(slots=True)
class Validation:
    """`kept` in the order of arrival; `report` has one row an expectation: source, expectation, column, rule, checked, broken, ok."""

    kept: list[Item] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    report: list[dict[str, Any]] = field(default_factory=list)


def validate_items(items: Sequence[Item], declaration: Declaration) -> Validation:
    """Checks every source's items against what is declared for them."""
    result = Validation()
    for source in declaration.sources:
        mine = [item for item in items if item.source == source.name]
        expectations = expectations_of(declaration, source)
        broken = _check(mine, source, expectations, result.report) if mine and expectations else {}
        for row, item in enumerate(mine):
            if row in broken:
                expectation, value = broken[row]
                column = expectation.column.partition("#")[0]
                result.rejects.append(Reject(item.source, item.url, item.document_id, "validate", "expectation not met", column, value, expectation.rule))
            else:
                result.kept.append(item)
    return result


def _check(
    items: Sequence[Item], source: Source, expectations: Sequence[ColumnExpectation], report: list[dict[str, Any]]
) -> dict[int, tuple[ColumnExpectation, Any]]:
    """Row number → the first expectation that it breaks, and the value found."""
    import great_expectations as gx
    import pandas as pd
    from great_expectations.data_context.types.base import ProgressBarsConfig

    columns = list(dict.fromkeys(e.column for e in expectations))
    frame = pd.DataFrame({column: pd.Series([_cell(item, column) for item in items], dtype=object) for column in columns})
    # Ephemeral, so that nothing is written; its progress bars would write into ours.
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    suite = gx.ExpectationSuite(name=source.name)
    for number, expectation in enumerate(expectations):
        kwargs = {k: v for k, v in expectation.arguments.items() if v is not None}
        suite.add_expectation(getattr(gx.expectations, expectation.type)(column=expectation.column, meta={"number": number}, **kwargs))
    batch = context.data_sources.add_pandas(source.name).add_dataframe_asset("items").add_batch_definition_whole_dataframe("all")
    outcome = batch.get_batch(batch_parameters={"dataframe": frame}).validate(suite, result_format="COMPLETE")
    broken: dict[int, tuple[ColumnExpectation, Any]] = {}
    for result in sorted(outcome.results, key=_number_of):
        expectation = expectations[_number_of(result)]
        _raise_if_failed_inside(result, source, expectation)
        rows = list(result.result.get("unexpected_index_list") or [])
        if expectation.type == "ExpectColumnValuesToBeUnique":
            rows = _later_ones(frame[expectation.column], rows)
        name = expectation.column.partition("#")[0]
        for row in rows:
            broken.setdefault(row, (expectation, items[row].fields.get(name, getattr(items[row], name, None))))
        report.append(
            {
                "source": source.name, "column": name, "expectation": expectation.type, "rule": expectation.rule,
                "checked": len(items), "broken": len(rows), "ok": not rows,
            }
        )  # fmt: skip
    return broken


def _number_of(result: Any) -> int:
    return int(result.expectation_config.meta["number"])


def _raise_if_failed_inside(result: Any, source: Source, expectation: ColumnExpectation) -> None:
    """A check that could not be made looks like a failed one unless its exception is read."""
    info = result.exception_info or {}
    inner = [info] if "raised_exception" in info else list(info.values())
    for one in inner:
        if one.get("raised_exception"):
            name = expectation.column.partition("#")[0]
            raise DeclarationError(
                f"source '{source.name}', field '{name}': {expectation.rule} cannot be checked: {one.get('exception_message')}",
                where="validate.expect",
                hint="min and max go with numbers and prices, pattern with texts, min_length with texts and lists",
            )


def _later_ones(values: Any, rows: list[int]) -> list[int]:
    """Of rows that share a value, all but the first."""
    seen: set[Any] = set()
    later = []
    for row in sorted(rows):
        if values[row] in seen:
            later.append(row)
        seen.add(values[row])
    return later


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str | list | dict) else 0 if value is None else len(str(value))


def _number(value: Any) -> float | None:
    amount = value.get("amount") if isinstance(value, dict) else value
    return None if amount is None else float(amount)


_DERIVED: dict[str, Callable[[Any], Any]] = {
    "length": _length,
    "number": _number,
    "key": lambda value: None if value is None else canonical_json(value),
    "": lambda value: canonical_json(value) if isinstance(value, list | dict) else value,
}


def _cell(item: Item, column: str) -> Any:
    name, _, derived = column.partition("#")
    value = item.fields[name] if name in item.fields else getattr(item, name, None) if name in ("title", "url", "text") else None
    try:
        return _DERIVED[derived](value)
    except (TypeError, ValueError) as error:
        raise DeclarationError(
            f"source '{item.source}', field '{name}': min and max need numbers; found {value!r} at {item.url}",
            where="validate.expect",
            hint="declare the field with type: number, integer or price",
        ) from error
