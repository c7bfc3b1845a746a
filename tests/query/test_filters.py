"""Filters mean what they say, row by row."""

from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from almanac.core.coded import Coded
from almanac.query.published import parse_where
from almanac.query.retrieval.filters import Column, filter_key, matching_rows, reach
from almanac.schemas.errors import UsageError

_ROWS: list[dict[str, Any]] = [
    {"name": "a", "n": 1, "tags": ["x", "y"], "price": [{"amount": "99.00", "currency": "$"}, {"amount": "7"}]},
    {"name": "b", "n": 5, "tags": ["y"], "price": [{"amount": "250", "currency": "$"}]},
    {"name": "c", "n": None, "flag": True},
]


def _match(where: Any) -> str:
    def column(path: str) -> Column:
        name, *inner = path.split(".")
        if all(name not in row for row in _ROWS):
            raise UsageError("unknown")
        return Column(Coded.of([reach(row.get(name), inner) for row in _ROWS]))

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
        ({"price.currency": "$"}, "ab"),
        ({"$or": [{"name": "c"}, {"n": 5}]}, "bc"),
        ({"$and": [{"tags": "y"}, {"$not": {"name": "a"}}]}, "b"),
        ({"name": "a", "n": 5}, ""),
        ({"n": {"$gt": "text"}}, ""),
        ({"flag": True}, "c"),
    ],
)
def test_a_filter_selects_its_rows(where: Any, rows: str) -> None:
    assert _match(where) == rows


@pytest.mark.parametrize("where", [{}, [], "text", {"$xor": []}, {"n": {"$near": 1}}, {"$and": {}}, {"$or": []}, {"unknown": 1}, {"n": {"$in": 3}}])
def test_a_filter_that_means_nothing_is_refused(where: Any) -> None:
    with pytest.raises(UsageError):
        _match(where)


def test_integers_that_no_float_tells_apart_stay_apart() -> None:
    column = Column(Coded.of([2**53, 2**53 + 1, 10**400]))
    for wanted, rows in ((2**53 + 1, [False, True, False]), (10**400, [False, False, True]), (1, [False] * 3)):
        assert matching_rows({"n": wanted}, lambda _: column, 3).tolist() == rows
    assert matching_rows({"n": {"$lt": 10**400}}, lambda _: Column(Coded.of([1, 2])), 2).tolist() == [True, True]


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
    assert len({filter_key(*one) for one in ((None, None), ("", None), (None, {"x": 1}), (None, {"x": 1.0}), (None, {"x": "1"}), (None, {"x": True}))}) == 6
