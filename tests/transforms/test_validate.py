"""Rules on items: judged in batches as on all at once, entry by entry, and each item quarantined for the first rule
that it breaks.
"""

import json
from collections.abc import Callable
from importlib.metadata import version
from typing import Any
from unittest.mock import patch

import pytest
from packaging.version import Version

from almanac.flows.pipeline.results_page import page_of
from almanac.schemas.declaration import Declaration
from almanac.schemas.items import PLACES, Item, Reject
from almanac.schemas.reports import BrokenValue, ItemCounts, JudgedExpectation, OtherRejects, ValidationResults
from almanac.transforms.gate import refusing
from almanac.transforms.library import Finding
from almanac.transforms.validate_items import Validation, validate_items

_FIELDS = {
    "code": {"json": "code", "required": True},
    "n": {"json": "n", "type": "number"},
    "m": {"json": "m"},
    "tags": {"json": "tags", "many": True},
    "on": {"json": "on", "type": "datetime"},
    "price": {"json": "price", "type": "price"},
}


def _judged(items: list[Item], *expect: dict[str, Any], rejects: list[Reject] | None = None) -> Validation:
    source = {"name": "s", "kind": "files", "glob": "x.jsonl", "yields": "records", "fields": _FIELDS}
    declaration = Declaration.model_validate({"name": "kb", "sources": [source], "validate": {"expect": list(expect)}})
    return validate_items(items, declaration, rejects or [])


def _items(*fields: dict[str, Any]) -> list[Item]:
    every = ({"code": f"c{number}", **values} for number, values in enumerate(fields))
    return [
        Item("s", "record", f"i{n}", f"u{n}", "t", "text", {**values}, {}, "raw", "2026-02-02T00:00:00+00:00")
        for n, values in enumerate(every)
    ]


def _named(name: str, **arguments: Any) -> dict[str, Any]:
    return {"expectation": f"expect_{name}", **arguments}


@pytest.mark.parametrize("batch", [2, 5000])
@pytest.mark.parametrize(
    ("values", "expect", "broken"),
    [
        ([1, 2, 1, None, None, 1], lambda: {"field": "m", "unique": True}, {2, 5}),
        ([1, 1.0, True, "1", [1]], lambda: {"field": "m", "unique": True}, set()),
        ([{"b": 1, "a": 2}, {"a": 2, "b": 1}], lambda: {"field": "m", "unique": True}, {1}),
        (["a", "bb", None, "b"], lambda: _named("column_values_to_match_regex", field="m", regex="^a"), {1, 3}),
        (
            [["a", "b"], ["a", "x"], [], "a"],
            lambda: _named("column_values_to_be_in_set", field="m", value_set=["a", "b"]),
            {1},
        ),
        ([["ab", "x"], ["abc"]], lambda: {"field": "m", "pattern": "ab"}, {0}),
        ([[1, 9], 3, "7", None], lambda: {"field": "m", "max": 8}, {0}),
        ([1, "x", 2], lambda: {"field": "m", "min": 0}, {1}),
        ([1, 2, 2, 1, None, 0], lambda: _named("column_values_to_be_increasing", field="m"), {3, 5}),
        (
            [1, 1, 1, 1, 1, 90],
            lambda: _named("column_value_z_scores_to_be_less_than", field="m", threshold=2, double_sided=True),
            {5},
        ),
        (["", "a", None], lambda: _named("column_values_to_not_be_null", field="m"), {2}),
        ([1, "1", 1.5, None], lambda: _named("column_values_to_be_of_type", field="m", type_="str"), {0, 2}),
        (
            [{"a": 1}, {"b": 1}],
            lambda: _named("column_values_to_match_json_schema", field="m", json_schema={"required": ["a"]}),
            {1},
        ),
        (["c0", "c9"], lambda: _named("column_pair_values_to_be_equal", column_A="code", column_B="m"), {1}),
        (["x", "y", "x"], lambda: _named("compound_columns_to_be_unique", column_list=["m", "title"]), {2}),
    ],
)
def test_exactly_the_items_that_break_a_rule_are_quarantined_however_they_are_batched(
    values: list[Any], expect: Callable[[], dict[str, Any]], broken: set[int], batch: int
) -> None:
    with patch("almanac.transforms.judging._BATCH", batch):
        judged = _judged(_items(*({"m": value} for value in values)), expect())
    assert judged.rejects.keys() == broken
    assert (judged.results[-1].broken, judged.results[-1].error) == (len(broken), None)
    assert all(
        (reject.field, reject.value) == (judged.results[-1].field, reject.value) for reject in judged.rejects.values()
    )


def test_dates_are_compared_as_moments_and_prices_as_amounts() -> None:
    at = ["2024-05-03T01:00:00+02:00", "2024-05-02T23:30:00", "2024-05-04T00:00:00Z"]
    prices = [{"amount": "10.00", "currency": "EUR"}, {"amount": "9.5", "currency": "EUR"}, None]
    judged = _judged(
        _items(*({"on": date, "price": price} for date, price in zip(at, prices, strict=True))),
        _named("column_values_to_be_between", field="on", min_value="2024-05-02T23:15:00+00:00"),
        _named("column_values_to_be_in_set", field="price", value_set=[10]),
        _named("column_max_to_be_between", field="on", max_value="2024-05-03"),
        _named("column_mean_to_be_between", field="price", min_value=1),
    )
    assert {number: reject.field for number, reject in judged.rejects.items()} == {0: "on", 1: "price"}
    assert [(rule.value, rule.limit, rule.ok) for rule in judged.results[-2:]] == [
        ("2024-05-04", "2024-05-03", False),
        (None, 1, False),
    ]


def test_an_item_counts_for_the_first_rule_that_it_breaks() -> None:
    items = _items({"n": 9, "m": "x"}, {"n": 1, "m": "x"}, {"n": 9, "m": "y"})
    judged = _judged(items, {"field": "n", "max": 5}, {"field": "m", "one_of": ["y"]})
    assert {number: reject.rule for number, reject in judged.rejects.items()} == {
        0: "max: 5",
        1: "one_of: ['y']",
        2: "max: 5",
    }
    assert [(rule.broken, rule.also) for rule in judged.results[-2:]] == [(2, 0), (1, 1)]
    assert [sample.url for sample in judged.results[-1].samples] == ["u1"]


def test_a_rule_that_warns_or_refuses_leaves_its_items_alone() -> None:
    items = _items(*({"n": n} for n in range(10)))
    judged = _judged(
        items,
        {"field": "n", "min": 1, "severity": "warn"},
        {"field": "n", "min": 2, "severity": "refuse", "mostly": "80%"},
    )
    assert judged.rejects == {}
    assert [(rule.value, rule.limit, rule.ok, rule.broken) for rule in judged.results[-2:]] == [
        (0.9, 1.0, False, 1),
        (0.8, 0.8, True, 2),
    ]
    assert [check.model_dump() for check in refusing(judged.results)] == [
        {"name": "expect_column_values_to_be_between n", "value": 0.8, "limit": 0.8, "ok": True}
    ]


def test_a_column_with_values_that_are_no_numbers_has_no_mean() -> None:
    judged = _judged(_items({"m": 1}, {"m": "many"}), _named("column_mean_to_be_between", field="m", min_value=0))
    assert (judged.results[-1].ok, judged.results[-1].error) == (False, "it needs numbers, and 1 of 2 values are none")
    assert [check.ok for check in refusing(judged.results)] == [False]


def test_a_field_that_no_file_has_is_an_error_and_one_that_another_file_has_is_none() -> None:
    sources = [{"name": name, "kind": "files", "glob": "x.csv", "yields": "records"} for name in ("s", "t")]
    expect = [
        {"field": "colour", "not_null": True},
        {"field": "n", "min": 5},
        _named("column_mean_to_be_between", field="colour", min_value=1),
    ]
    declaration = Declaration.model_validate({"name": "kb", "sources": sources, "validate": {"expect": expect}})
    items = [
        Item(source, "record", source, "u", "t", "text", fields, {}, "raw", "")
        for source, fields in (("s", {"color": "red"}), ("t", {"n": 1}))
    ]
    judged = validate_items(items, declaration)
    assert {number: reject.field for number, reject in judged.rejects.items()} == {1: "n"}
    errors = {(rule.source, rule.rule): rule.error for rule in judged.results if rule.error}
    assert (
        errors["s", "not_null: true"]
        == "no item has a field 'colour'; did you mean color; there is color, text, title, url"
    )
    assert len(errors) == 4


_OWN = {"kind": "files", "glob": "x.csv", "yields": "records"}
_ELSEWHERE = [
    _named("column_mean_to_be_between", field="price", min_value=1),
    _named("column_values_to_be_between", field="price", min_value=1),
    {"field": "price", "not_null": True},
    _named("column_pair_values_to_be_equal", column_A="price", column_B="n"),
]


def test_the_places_of_pages_are_no_field() -> None:
    item = Item(
        "s",
        "document",
        "i",
        "u",
        "t",
        "text",
        {"n": 1, PLACES: [[0, "page", 1]]},
        {},
        "raw",
        "2026-02-02T00:00:00+00:00",
    )
    source = {"name": "s", "kind": "files", "glob": "*.pdf"}
    expect = _named("table_column_count_to_equal", source="s", value=1)
    judged = validate_items(
        [item], Declaration.model_validate({"name": "kb", "sources": [source], "validate": {"expect": [expect]}}), []
    )
    assert [(rule.ok, rule.error) for rule in judged.results] == [(True, None)]


def _of_sources(
    expect: dict[str, Any], has: dict[str, Any], *, without: list[dict[str, Any]]
) -> dict[str, JudgedExpectation]:
    """The last rule's result by source, of source `has`, whose fields may be declared, and of `lacks`, which takes the
    fields of its file.
    """
    sources = [{"name": "has", **_OWN, **has}, {"name": "lacks", **_OWN}]
    declaration = Declaration.model_validate({"name": "kb", "sources": sources, "validate": {"expect": [expect]}})
    rows = [("has", {"price": 2.0, "n": 2.0}), *(("lacks", fields) for fields in without)]
    items = [
        Item(source, "record", f"i{n}", "u", "t", "text", fields, {}, "raw", "")
        for n, (source, fields) in enumerate(rows)
    ]
    return {
        rule.source: rule for rule in validate_items(items, declaration).results if not rule.rule.startswith("type")
    }


@pytest.mark.parametrize("without", [[{"size": 1}], []], ids=["others", "no items"])
@pytest.mark.parametrize(
    "has",
    [{}, {"fields": {"price": {"json": "price", "type": "number"}, "n": {"json": "n"}}, "glob": "x.jsonl"}],
    ids=["own", "declared"],
)
@pytest.mark.parametrize("expect", _ELSEWHERE, ids=range(4))
def test_a_source_whose_items_never_have_the_field_is_none_that_the_rule_is_about(
    expect: dict[str, Any], has: dict[str, Any], without: Any
) -> None:
    by_source = _of_sources(expect, has, without=without)
    assert {source: (rule.ok, rule.error) for source, rule in by_source.items()} == {"has": (True, None)}


@pytest.mark.parametrize("expect", _ELSEWHERE, ids=range(4))
def test_a_source_that_is_named_has_to_have_the_field(expect: dict[str, Any]) -> None:
    by_source = _of_sources({**expect, "source": "lacks"}, {}, without=[{"size": 1}])
    assert [(source, rule.ok, (rule.error or "").partition(";")[0]) for source, rule in by_source.items()] == [
        ("lacks", False, "no item has a field 'price'")
    ]


@pytest.mark.parametrize(
    ("expect", "share"),
    [
        ({"field": "m", "one_of": ["a"]}, 0.5),
        (_named("column_values_to_match_regex", field="m", regex="a"), 0.5),
        (_named("column_value_lengths_to_equal", field="m", value=1), 1.0),
        (_named("column_values_to_be_unique", field="m"), 1.0),
        ({"field": "m", "not_null": True}, 0.5),
        ({"field": "m", "min_length": 1}, 0.5),  # nothing is a text of no characters
        (_named("column_values_to_be_null", field="m"), 0.5),
        (
            _named(
                "column_pair_values_to_be_equal", column_A="m", column_B="n", ignore_row_if="both_values_are_missing"
            ),
            0.0,
        ),
        (
            _named(
                "column_pair_values_to_be_equal", column_A="m", column_B="n", ignore_row_if="either_value_is_missing"
            ),
            1.0,
        ),
    ],
)
def test_mostly_is_a_share_of_what_has_a_value(expect: dict[str, Any], share: float) -> None:
    (result,) = _judged(
        _items({"m": "a"}, {"m": "b"}, {"m": None}, {}), {**expect, "severity": "refuse", "mostly": 0.6}
    ).results[-1:]
    assert (result.value, result.ok, result.checked) == (share, share >= 0.6, 4)


def test_a_source_without_items_breaks_no_rule_on_items() -> None:
    judged = _judged(
        [],
        {"field": "m", "unique": True},
        {"field": "m", "min": 1},
        _named("column_mean_to_be_between", field="n", min_value=1),
    )
    assert [(rule.ok, rule.error) for rule in judged.results[-3:-1]] == [(True, None)] * 2
    assert not judged.results[-1].ok


def test_what_mapping_rejected_is_checked_and_only_its_own_rules_are_broken() -> None:
    reject = Reject(
        "s", "u9", None, "map", "neither", "n", "x", "json: n", {"n": "type: number", "code": "required: true"}
    )
    other = Reject("s", "u8", None, "read", "line 3 is not JSON")
    judged = _judged(
        _items({"m": 1}), {"field": "m", "not_null": True}, {"field": "m", "unique": True}, rejects=[reject, other]
    )
    assert judged.rejects == {}
    assert {rule.checked for rule in judged.results} == {2}
    assert {(rule.field, rule.rule): (rule.broken, rule.also) for rule in judged.results if not rule.ok} == {
        ("n", "type: number"): (1, 0),
        ("code", "required: true"): (0, 1),
    }


def test_the_page_asks_for_nothing_and_runs_nothing_whatever_the_items_hold() -> None:
    bad = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
    samples = [
        BrokenValue(url=url, document_id=bad, value=bad) for url in (f"https://example.org/{bad}", f"javascript:{bad}")
    ]
    rule = JudgedExpectation(
        source=bad,
        field=bad,
        expectation="e",
        rule=bad,
        severity="quarantine",
        checked=3,
        broken=2,
        ok=False,
        samples=samples,
    )
    failed = rule.model_copy(update={"error": bad, "severity": "refuse", "value": bad, "limit": bad})
    page = page_of(
        ValidationResults(
            kb=bad, run_id=bad, judged_at="", items=ItemCounts(), by_expectations=2,
            otherwise=[OtherRejects(stage=bad, count=1, example=bad)], expectations=[rule, failed],
        )
    )  # fmt: skip
    assert "<script" not in page
    assert "<img" not in page
    assert 'href="javascript' not in page
    assert "default-src 'none'" in page
    assert [
        part for part in ("src=x", "url(", "@import", "<link", "<iframe") if part in page.replace("src=x onerror", "")
    ] == []


_MIXED = [
    "abc",
    "",
    ["a", "bcd"],
    [],
    {"amount": "12.50", "currency": "EUR"},
    {"k": 1},
    7,
    7.5,
    True,
    "2024-05-03",
    None,
]
_FINE = Finding([], True)
_NOT_TEXTS = {2, 4, 5, 6, 7, 8}  # of a list, entries are judged


@pytest.mark.parametrize(
    ("expect", "broken"),
    [
        # of a number or true, as it is printed
        (_named("column_value_lengths_to_equal", field="m", value=3), {1, 2, 3, 4, 5, 6, 8, 9}),
        (_named("column_value_lengths_to_be_between", field="m", min_value=1, max_value=3), {1, 3, 8, 9}),
        (_named("column_value_lengths_to_be_between", field="m", min_value=2, strict_min=True), {1, 2, 3, 4, 5, 6}),
        ({"field": "m", "min_length": 1}, {1, 3, 10}),
        (_named("column_values_to_be_of_type", field="m", type_="str"), {2, 3, 4, 5, 6, 7, 8}),
        (_named("column_values_to_be_of_type", field="m", type_="int"), {0, 1, 2, 3, 4, 5, 7, 8, 9}),
        (_named("column_values_to_be_in_type_list", field="m", type_list=["list", "dict", "float"]), {0, 1, 6, 8, 9}),
        (_named("column_values_to_match_strftime_format", field="m", strftime_format="%Y-%m-%d"), {0, 1, *_NOT_TEXTS}),
        (_named("column_values_to_be_dateutil_parseable", field="m"), {0, 1, *_NOT_TEXTS}),
        (_named("column_values_to_be_json_parseable", field="m"), {0, 1, 9, *_NOT_TEXTS}),
        (_named("column_values_to_match_regex", field="m", regex="^a"), {1, 2, 4, 5, 6, 7, 8, 9}),
        (_named("column_values_to_not_match_regex", field="m", regex="b"), {0, 2}),
        (
            _named("column_values_to_match_regex_list", field="m", regex_list=["a", "c"], match_on="all"),
            {1, 2, 4, 5, 6, 7, 8, 9},
        ),
        (
            _named("column_values_to_match_json_schema", field="m", json_schema={"type": "string"}),
            {2, 3, 4, 5, 6, 7, 8},
        ),
        (
            _named("column_values_to_match_json_schema", field="m", json_schema={"type": ["number", "array"]}),
            {0, 1, 4, 5, 8, 9},
        ),
        (_named("column_values_to_be_in_set", field="m", value_set=["abc", 7, 12.5]), {1, 2, 5, 7, 8, 9}),
        (_named("column_values_to_not_be_in_set", field="m", value_set=["a", 7, 12.5]), {2, 4, 6}),
        (_named("column_values_to_be_null", field="m"), {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}),
        (_named("column_values_to_not_be_null", field="m"), {10}),
        (_named("column_values_to_be_unique", field="m"), set()),
        (_named("column_values_to_be_between", field="m", min_value=7.2), {0, 1, 2, 5, 6, 8, 9}),
        (_named("column_values_to_be_between", field="m", min_value="2024-01-01"), {0, 1, 2, 4, 5, 6, 7, 8}),
        (_named("column_values_to_be_decreasing", field="m"), {0, 1, 2, 5, 7, 8, 9}),
        (_named("column_pair_values_a_to_be_greater_than_b", column_A="m", column_B="n"), {0, 1, 2, 3, 5, 6, 8, 9, 10}),
        (
            _named("column_pair_values_to_be_in_set", column_A="m", column_B="n", value_pairs_set=[["abc", 7], [7, 7]]),
            {1, 2, 3, 4, 5, 7, 8, 9, 10},
        ),
        (_named("multicolumn_values_to_be_equal", column_list=["m", "n"]), {0, 1, 2, 3, 4, 5, 7, 8, 9, 10}),
        (_named("select_column_values_to_be_unique_within_record", column_list=["m", "n"]), {6}),
        pytest.param(
            _named("multicolumn_sum_to_equal", column_list=["m", "n"], sum_total=14),
            {0, 1, 2, 3, 4, 5, 7, 8, 9, 10},
            marks=pytest.mark.skipif(
                Version(version("pandas")) < Version("3.1"), reason="pandas before 3.1 adds no None to a number"
            ),
        ),
    ],
)
def test_values_of_every_kind_are_judged_as_what_they_are(expect: dict[str, Any], broken: set[int]) -> None:
    judged = _judged(_items(*({"m": value, "n": 7} for value in _MIXED)), expect)
    assert (judged.results[-1].error, {*judged.rejects}) == (None, broken)


def test_an_object_among_others_that_break_a_rule_on_types_is_no_error() -> None:
    judged = _judged(
        _items({"m": {"k": 1}}, {"m": 1}, {"m": "x"}), _named("column_values_to_be_of_type", field="m", type_="str")
    )
    assert (judged.results[-1].error, {*judged.rejects}) == (None, {0, 1})


@pytest.mark.parametrize("severity", ["warn", "refuse"])
@pytest.mark.parametrize(
    ("at", "shown"),
    [
        ("0001-01-01T00:00:00+01:00", "0001-01-01T22:59:00+23:59"),
        ("9999-12-31T23:59:59-01:00", "9999-12-31T01:00:59-23:59"),
    ],
)
def test_a_date_that_utc_has_no_year_for_is_reported_in_another_offset(at: str, shown: str, severity: str) -> None:
    rules = [
        _named(f"column_{which}_to_be_between", field="on", min_value="2024-01-01", severity=severity)
        for which in ("min", "max")
    ]
    judged = _judged(_items({"on": at}, {"on": None}), *rules)
    assert [(rule.value, rule.ok, rule.error) for rule in judged.results[-2:]] == [(shown, at > "2024", None)] * 2


def _nested() -> Any:
    value: list[Any] = []
    for _ in range(3000):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [float("inf"), float("nan"), 10**400, 10**5000, _nested(), "\ud83d", "\0", {"amount": {}}, {"": None}],
    ids=range(9),
)
def test_no_value_of_an_item_ends_a_run_and_what_is_reported_is_json(value: Any) -> None:
    names = [
        "values_to_match_regex",
        "values_to_match_json_schema",
        "values_to_be_in_set",
        "values_to_be_unique",
        "values_to_be_of_type",
    ]
    arguments: list[dict[str, Any]] = [
        {"regex": "a"},
        {"json_schema": {"type": "string"}},
        {"value_set": ["a"]},
        {},
        {"type_": "str"},
    ]
    expect = [_named(f"column_{name}", field="m", **given) for name, given in zip(names, arguments, strict=True)]
    judged = _judged(
        _items({"m": value}, {"m": "a"}),
        *expect,
        _named("column_max_to_be_between", field="m", max_value=3, severity="warn"),
    )
    errors = {rule.rule: rule.error for rule in judged.results if rule.error}
    assert "required: true" not in errors, "a rule on another field is judged"
    assert 1 not in judged.rejects
    json.dumps(
        [rule.model_dump() for rule in judged.results if rule.expectation.startswith("expect_column_max")],
        allow_nan=False,
    )
    if not isinstance(value, int):
        json.dumps([rule.model_dump() for rule in judged.results], allow_nan=False)


def test_a_sum_beyond_all_numbers_is_told_in_words() -> None:
    judged = _judged(
        _items({"n": 1e308}, {"n": 1e308}), _named("column_sum_to_be_between", field="n", max_value=1, severity="warn")
    )
    assert (judged.results[-1].value, judged.results[-1].ok) == ("inf", False)


def test_a_schema_is_judged_without_a_socket() -> None:
    schema = {"$ref": "#/$defs/b", "$defs": {"b": {"items": {"$ref": "#/$defs/c"}}, "c": {"type": "integer"}}}
    judge = _named("column_values_to_match_json_schema", field="m", json_schema=schema)
    with patch("socket.socket.connect", side_effect=AssertionError("nothing is asked for")):
        judged = _judged(_items({"m": [1]}, {"m": ["x"]}), judge)
    assert (judged.results[-1].error, {*judged.rejects}) == (None, {1})


def test_a_fault_of_the_library_is_an_error_of_one_rule() -> None:
    with patch(
        "almanac.transforms.library._finding",
        side_effect=lambda result: 1 / 0 if "min_value" in result.expectation_config.kwargs else _FINE,
    ):
        judged = _judged(
            _items({"m": "a"}), {"field": "m", "min_length": 1, "severity": "warn"}, {"field": "m", "one_of": ["a"]}
        )
    assert [rule.error for rule in judged.results[-2:]] == [
        "it cannot be judged: ZeroDivisionError: division by zero",
        None,
    ]
