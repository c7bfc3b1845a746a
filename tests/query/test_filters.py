"""Filters mean what they say, row by row."""

import re
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from almanac.core.coded import Coded
from almanac.query.retrieval.arguments import parse_where
from almanac.query.retrieval.filters import Column, filter_key, matching_rows, reach
from almanac.schemas.errors import UsageError
from tests.growth import assert_comparable

_ROWS: list[dict[str, Any]] = [
    {"name": "a", "n": 1, "tags": ["x", "y"], "price": [{"amount": "99.00", "currency": "$"}, {"amount": "7"}]},
    {"name": "b", "n": 5, "tags": ["y"], "price": [{"amount": "250", "currency": "$"}]},
    {"name": "c", "n": None, "flag": True, "#": 4, "$ref": {"#text": "x"}},
]


def _match(where: Any) -> str:
    def column(path: str) -> Column:
        name, *inner = path.split(".")
        if all(name not in row for row in _ROWS):
            raise UsageError("unknown")
        return Column(Coded.from_values([reach(row.get(name), inner) for row in _ROWS]))

    mask = matching_rows(where, column, len(_ROWS))
    return "".join(str(row["name"]) for row, hit in zip(_ROWS, mask, strict=True) if hit)


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ({"name": "b"}, "b"),
        ({"n": {"$gt": 1}}, "b"),
        ({"n": {"$gte": 1, "$lt": 5}}, "a"),
        ({"n": {"$ne": 1}}, "b"),
        ({"tags": "y"}, "ab"),
        ({"tags": {"$nin": ["x"]}}, "b"),
        ({"name": {"$in": ["a", "c"]}}, "ac"),
        ({"name": {"$contains": "c"}}, "c"),
        ({"price.amount": {"$lte": 100}}, "a"),
        ({"price.amount": {"$lt": "100"}}, "a"),
        ({"price.amount": {"$gt": "100"}}, "b"),
        ({"price.amount": {"$lt": "cheap"}}, ""),
        ({"n": {"$lt": "3"}}, "a"),
        ({"name": {"$lt": "b"}}, "a"),
        ({"price.currency": "$"}, "ab"),
        ({"$or": [{"name": "c"}, {"n": 5}]}, "bc"),
        ({"$and": [{"tags": "y"}, {"$not": {"name": "a"}}]}, "b"),
        ({"name": "a", "n": 5}, ""),
        ({"n": {"$gt": "text"}}, ""),
        ({"flag": True}, "c"),
        ({"price.amount": {"$lt": 100}, "price.currency": "$"}, "a"),
        ({"price": {"$any": {"amount": {"$lt": 50}, "currency": "$"}}}, ""),
        ({"price": {"$any": {"amount": {"$lt": 100}, "currency": "$"}}}, "a"),
        ({"price": {"$any": {"$not": {"currency": "$"}}}}, "a"),
        ({"price": {"$any": {"$or": [{"amount": 7}, {"amount": {"$gt": 200}}]}}}, "ab"),
        ({"$not": {"price": {"$any": {"amount": 7}}}}, "bc"),
        ({"$ref": {"$any": {"#text": "x"}}}, "c"),
        ({"price": {"$any": {"currency": {"$in": ["$"]}, "amount": {"$ne": "99.00"}}}, "n": 5}, "b"),
        ({"#": {"$gt": 3}}, "c"),
        ({"$ref.#text": "x"}, "c"),
    ],
)
def test_a_filter_selects_its_rows(where: Any, rows: str) -> None:
    assert _match(where) == rows


@pytest.mark.parametrize(
    "where",
    [
        {},
        [],
        "text",
        {"$xor": []},
        {"n": {"$near": 1}},
        {"$and": {}},
        {"$or": []},
        {"unknown": 1},
        {"n": {"$in": 3}},
        {"tags": ["x"]},
        {"n": {"$gt": [1]}},
    ],
)
def test_a_filter_that_means_nothing_is_refused(where: Any) -> None:
    with pytest.raises(UsageError):
        _match(where)


@pytest.mark.parametrize(
    ("where", "message", "hint"),
    [
        ({"price": {"$any": {"amuont": 7}}}, "no entry of price has 'amuont'", "entries have: amount, currency"),
        ({"tags": {"$any": {"x": 1}}}, "tags holds no objects", '{"tags": value}: one entry of a list is enough'),
        ({"price": {"$any": {}}}, "a filter is an object", None),
        ({"price": {"$any": "7"}}, "a filter is an object", None),
        ({"price": {"amount": 7}}, "unknown operator amount", '{"price": {"$any": {"amount": ...}}}'),
    ],
)
def test_what_no_entry_has_is_refused(where: Any, message: str, hint: str | None) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as raised:
        _match(where)
    assert hint is None or hint in str(raised.value.hint)


def test_one_entry_meets_all_of_a_filter_on_entries_of_entries_too() -> None:
    adult, infant = (
        {"participant": name, "amount": {"amount": amount, "currency": "VND"}}
        for name, amount in (("Adult", "2500000"), ("Infant", "200000"))
    )
    dollars = {"participant": "Adult", "amount": {"amount": "99", "currency": "USD"}}
    column = Column(
        Coded.from_values(
            [
                [adult, infant],
                [dollars, infant],
                [{**adult, "amount": {"amount": "1900000", "currency": "VND"}}],
                None,
                adult,
            ]
        )
    )

    def passing(where: Any, seen: Any = None) -> list[int]:
        return np.flatnonzero(matching_rows({"price": where}, lambda _: column, 5, seen)).tolist()

    cheap = {"participant": "Adult", "amount.currency": "VND", "amount.amount": {"$lte": 2_000_000}}
    assert passing({"$any": cheap}) == [2]
    assert passing({"$any": {**cheap, "amount.amount": {"$gt": 2_000_000}}}) == [0, 4]
    assert passing({"$any": {"amount": {"$any": {"currency": "USD", "amount": 99}}}}) == [1]
    with pytest.raises(UsageError, match=r"no entry of price has 'amount\.net'"):
        passing({"$any": {"amount.net": 1}})
    unseen = np.array([False, False, False, True, False])
    assert passing({"$any": {"amount.net": 1}}, unseen) == [], "a caller without such rows is told of none"


@pytest.mark.parametrize("wanted", [99, "99.00", {"$lt": 100}, {"$ne": 99}, {"$in": [7, 99]}])
def test_a_plain_value_is_not_compared_with_objects(wanted: Any) -> None:
    with pytest.raises(UsageError, match=r"price holds objects") as raised:
        _match({"price": wanted})
    assert raised.value.hint == "name a value within it: price.amount, price.currency"


def test_a_refusal_tells_of_the_rows_alone_that_the_caller_sees() -> None:
    column = Column(Coded.from_values([{"amount": "5"}, {"net": "4"}, 3, None]))
    for seen, named in (([True, False, False, True], "f.amount"), ([True, True, False, False], "f.amount, f.net")):
        with pytest.raises(UsageError) as raised:
            matching_rows({"f": 5}, lambda _: column, 4, np.array(seen))
        assert raised.value.hint == f"name a value within it: {named}"
    for seen in ([True, False, True, False], [False, False, True, True], [False, False, False, True]):
        assert not matching_rows({"f": 5}, lambda _: column, 4, np.array(seen)).any()


def test_texts_are_in_the_order_of_letters_as_dates_are_and_numbers_in_that_of_numbers() -> None:
    def passing(where: Any, *values: Any) -> list[bool]:
        return list(
            map(bool, matching_rows({"at": where}, lambda _: Column(Coded.from_values(list(values))), len(values)))
        )

    assert passing({"$gte": "2026-05-01"}, "2026-04-30", "2026-05-01", "2027", "soon") == [False, True, True, True]
    assert passing({"$lt": "500"}, "4650.00", "79.00", "500", 20, None, "none") == [
        False,
        True,
        False,
        True,
        False,
        False,
    ]


def test_integers_that_no_float_tells_apart_stay_apart() -> None:
    column = Column(Coded.from_values([2**53, 2**53 + 1, 10**400]))
    for wanted, rows in ((2**53 + 1, [False, True, False]), (10**400, [False, False, True]), (1, [False] * 3)):
        assert matching_rows({"n": wanted}, lambda _: column, 3).tolist() == rows
    assert matching_rows({"n": {"$lt": 10**400}}, lambda _: Column(Coded.from_values([1, 2])), 2).tolist() == [
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("where", "named"),
    [
        ({"tags": {"$in": {"x"}}}, r"\{'x'\}, a set at tags.\$in"),
        ({"n": {"$gt": datetime(2026, 1, 2)}}, r"datetime.datetime\(2026, 1, 2, 0, 0\), a datetime at n.\$gt"),
        ({"$and": [{"name": "a"}, {"n": object()}]}, r"<object object at .*>, a object at \$and.n"),
        ({"n": Decimal("1.5")}, "a Decimal at n"),
        ({"n": np.int64(3)}, "a int64 at n"),
        ({"name": b"a"}, "a bytes at name"),
        ({1: 2}, "1, a int"),
        ({"name": {None: "a"}}, "None, a NoneType at name"),
        ({"name": {"x" * 300}}, "a set at name"),
    ],
)
def test_a_value_that_no_filter_can_hold_is_named(where: Any, named: str) -> None:
    with pytest.raises(UsageError, match=named) as raised:
        filter_key(None, where)
    assert raised.value.where == "--where"
    assert len(raised.value.message) < 300


def test_a_filter_without_end_and_a_workspace_that_is_no_text_are_refused() -> None:
    endless: dict[str, Any] = {}
    endless["$not"] = endless
    with pytest.raises(UsageError, match="levels"):
        filter_key(None, endless)
    with pytest.raises(UsageError, match="a workspace is a text; found 3"):
        filter_key(3, None)
    with pytest.raises(UsageError, match="not JSON"):
        parse_where("[" * 200_000)


def test_filters_that_say_the_same_have_the_same_key() -> None:
    assert filter_key("a", {"x": 1, "y": [True, None]}) == filter_key("a", {"y": [True, None], "x": 1})
    assert (
        len(
            {
                filter_key(*arguments)
                for arguments in (
                    (None, None),
                    ("", None),
                    (None, {"x": 1}),
                    (None, {"x": 1.0}),
                    (None, {"x": "1"}),
                    (None, {"x": True}),
                )
            }
        )
        == 6
    )


_VALUES: list[Any] = [
    1, 1.0, "1", "1.0", True, False, 0, "a", "", "nan", float("nan"), None, "true", {"x": 1}, [1, "a"], [None, 2],
    [[1]], "2", 2, 2**60, str(2**60), "1e400",
    float("inf"), [True], [{"x": 1}], -0.0, "²",
]  # fmt: skip


@given(
    st.lists(st.sampled_from(_VALUES), min_size=1, max_size=8),
    st.lists(st.sampled_from(_VALUES), min_size=1, max_size=4),
)
def test_one_of_several_is_equal_to_any_of_them(distinct: list[Any], wanted: list[Any]) -> None:
    distinct = ["plain", *distinct]  # not all objects, which plain values are not compared with
    column = Column(Coded.from_values(distinct))
    wanted = ["plain", *(value for value in wanted if not isinstance(value, list))]

    def rows(where: Any) -> list[bool]:
        mask: list[bool] = matching_rows({"f": where}, lambda _: column, len(distinct)).tolist()
        return mask

    assert rows({"$in": wanted}) == [
        any(row_matches) for row_matches in zip(*(rows({"$eq": value}) for value in wanted), strict=True)
    ]
    assert rows({"$nin": wanted}) == [
        value is not None and not is_match for value, is_match in zip(distinct, rows({"$in": wanted}), strict=True)
    ]


def test_many_values_cost_a_filter_no_more_than_one() -> None:
    values = [f"https://example.org/{number}" for number in range(20_000)]
    column = Column(Coded.from_values(values))
    for wanted in (values[:500], list(range(500))):
        many, single = ({"url": {"$in": wanted[:count]}} for count in (500, 1))
        assert_comparable(lambda where: matching_rows(where, lambda _: column, len(values)), many, single, times=5)


def test_null_matches_nothing_in_a_list_neither() -> None:
    column = Column(Coded.from_values([None, [None, 1], 1]))
    for wanted in (None, {"$eq": None}, {"$in": [None]}):
        assert not matching_rows({"f": wanted}, lambda _: column, 3).any()
    assert matching_rows({"f": 1}, lambda _: column, 3).tolist() == [False, True, True]


def test_true_and_false_are_no_numbers() -> None:
    column = Column(Coded.from_values([True, False, 1, 0, 1.0, "1", [True], None]))

    def passing(wanted: Any) -> list[int]:
        return [place for place, is_in in enumerate(matching_rows({"f": wanted}, lambda _: column, 8)) if is_in]

    assert [passing(wanted) for wanted in (True, False, 1, 0)] == [[0, 6], [1], [2, 4, 5], [3]]
    assert [passing({"$in": wanted}) for wanted in ([True], [1, False])] == [[0, 6], [1, 2, 4, 5]]
    assert passing({"$ne": True}) == [1, 2, 3, 4, 5]
    assert [passing({"$gte": wanted}) for wanted in (0, True)] == [[2, 3, 4, 5], [0, 6]]


def test_a_value_within_another_is_named_with_a_dot() -> None:
    with pytest.raises(UsageError, match="unknown operator amount") as raised:
        _match({"price": {"amount": "7"}})
    assert '"price.amount"' in str(raised.value.hint)
    with pytest.raises(UsageError, match="n has no operator"):
        _match({"n": {}})
