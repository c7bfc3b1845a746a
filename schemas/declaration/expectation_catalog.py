"""The expectations of Great Expectations that may be declared by name: where they look, what they need, and their
arguments.

Kept here as data, so that a declaration is checked without importing the library, which takes two seconds. A test
compares it with the installed library.
"""

from typing import Literal, NamedTuple

# What an argument takes; the checks are in `expectation_arguments`.
Argument = Literal[
    "bound", "number", "count", "width", "share", "yes_or_no", "text", "regex", "regexes", "time_format", "values",
    "pairs", "type", "types", "schema",
    "ranges", "fields", "names", "match_on", "method", "missing_pair", "missing_any",
]  # fmt: skip
# row: judged item by item. column: one value of all items of a source. table: how many items there are. names: which
# fields the items have.
Level = Literal["row", "column", "table", "names"]
# What the values must be: numbers (a price counts as its amount), texts, something with a length, numbers or dates, or
# anything.
Needs = Literal["anything", "number", "text", "length", "number or date"]
Over = Literal["field", "pair", "fields", "items"]


class Known(NamedTuple):
    """One expectation of the library.

    Attributes:
        level: what is judged.
        over: which fields it names: `field`, `column_A` and `column_B`, `column_list`, or none.
        needs: the values that it can judge.
        arguments: name → what it takes, besides the fields.
        required: arguments that must be given.
        some_of: arguments of which at least one must be given.
        whole: for rows: whether an item is judged by the others, so that all have to be there at once.
    """

    level: Level
    over: Over
    needs: Needs
    arguments: dict[str, Argument]
    required: tuple[str, ...] = ()
    some_of: tuple[str, ...] = ()
    whole: bool = False


_STRICT: dict[str, Argument] = {"strict_min": "yes_or_no", "strict_max": "yes_or_no"}
_LIMITS = ("min_value", "max_value")


def _between(of: Argument, *, strict: bool = True) -> dict[str, Argument]:
    return {"min_value": of, "max_value": of, **(_STRICT if strict else {})}


def _of_rows(needs: Needs, arguments: dict[str, Argument] | None = None, *required: str, whole: bool = False) -> Known:
    return Known("row", "field", needs, arguments or {}, required, whole=whole)


def _of_column(needs: Needs, of: Argument) -> Known:
    return Known("column", "field", needs, _between(of), some_of=_LIMITS)


_MISSING_PAIR: dict[str, Argument] = {"ignore_row_if": "missing_pair"}
_MISSING_ANY: dict[str, Argument] = {"ignore_row_if": "missing_any"}
_REGEX: dict[str, Argument] = {"regex": "regex"}
_VALUES: dict[str, Argument] = {"value_set": "values"}

CATALOG: dict[str, Known] = {
    "expect_column_values_to_not_be_null": _of_rows("anything"),
    "expect_column_values_to_be_null": _of_rows("anything"),
    "expect_column_values_to_be_unique": _of_rows("anything", whole=True),
    "expect_column_values_to_be_between": Known("row", "field", "number or date", _between("bound"), some_of=_LIMITS),
    "expect_column_values_to_be_in_set": _of_rows("anything", _VALUES, "value_set"),
    "expect_column_values_to_not_be_in_set": _of_rows("anything", _VALUES, "value_set"),
    "expect_column_values_to_be_of_type": _of_rows("anything", {"type_": "type"}, "type_"),
    "expect_column_values_to_be_in_type_list": _of_rows("anything", {"type_list": "types"}, "type_list"),
    "expect_column_value_lengths_to_be_between": Known("row", "field", "length", _between("count"), some_of=_LIMITS),
    "expect_column_value_lengths_to_equal": _of_rows("length", {"value": "count"}, "value"),
    "expect_column_values_to_match_regex": _of_rows("text", _REGEX, "regex"),
    "expect_column_values_to_not_match_regex": _of_rows("text", _REGEX, "regex"),
    "expect_column_values_to_match_regex_list": _of_rows(
        "text", {"regex_list": "regexes", "match_on": "match_on"}, "regex_list"
    ),
    "expect_column_values_to_not_match_regex_list": _of_rows("text", {"regex_list": "regexes"}, "regex_list"),
    "expect_column_values_to_match_strftime_format": _of_rows(
        "text", {"strftime_format": "time_format"}, "strftime_format"
    ),
    "expect_column_values_to_be_dateutil_parseable": _of_rows("text"),
    "expect_column_values_to_be_json_parseable": _of_rows("text"),
    "expect_column_values_to_match_json_schema": _of_rows("anything", {"json_schema": "schema"}, "json_schema"),
    "expect_column_values_to_be_increasing": _of_rows("number or date", {"strictly": "yes_or_no"}, whole=True),
    "expect_column_values_to_be_decreasing": _of_rows("number or date", {"strictly": "yes_or_no"}, whole=True),
    "expect_column_value_z_scores_to_be_less_than": _of_rows(
        "number", {"threshold": "width", "double_sided": "yes_or_no"}, "threshold", "double_sided", whole=True
    ),
    "expect_column_values_to_not_be_outliers": _of_rows(
        "number", {"method": "method", "multiplier": "width"}, whole=True
    ),
    "expect_column_pair_values_to_be_equal": Known("row", "pair", "anything", _MISSING_PAIR),
    "expect_column_pair_values_a_to_be_greater_than_b": Known(
        "row", "pair", "number or date", {"or_equal": "yes_or_no", **_MISSING_PAIR}
    ),
    "expect_column_pair_values_to_be_in_set": Known(
        "row", "pair", "anything", {"value_pairs_set": "pairs", **_MISSING_PAIR}, ("value_pairs_set",)
    ),
    "expect_compound_columns_to_be_unique": Known("row", "fields", "anything", _MISSING_ANY, whole=True),
    "expect_select_column_values_to_be_unique_within_record": Known("row", "fields", "anything", _MISSING_ANY),
    "expect_multicolumn_values_to_be_equal": Known("row", "fields", "anything", _MISSING_ANY),
    "expect_multicolumn_sum_to_equal": Known(
        "row", "fields", "number", {"sum_total": "number", **_MISSING_ANY}, ("sum_total",)
    ),
    "expect_column_min_to_be_between": _of_column("number or date", "bound"),
    "expect_column_max_to_be_between": _of_column("number or date", "bound"),
    "expect_column_mean_to_be_between": _of_column("number", "number"),
    "expect_column_median_to_be_between": _of_column("number", "number"),
    "expect_column_stdev_to_be_between": _of_column("number", "number"),
    "expect_column_sum_to_be_between": _of_column("number", "number"),
    "expect_column_unique_value_count_to_be_between": _of_column("anything", "count"),
    "expect_column_proportion_of_unique_values_to_be_between": _of_column("anything", "share"),
    "expect_column_proportion_of_non_null_values_to_be_between": _of_column("anything", "share"),
    "expect_column_distinct_values_to_be_in_set": Known("column", "field", "anything", _VALUES, ("value_set",)),
    "expect_column_distinct_values_to_contain_set": Known("column", "field", "anything", _VALUES, ("value_set",)),
    "expect_column_distinct_values_to_equal_set": Known("column", "field", "anything", _VALUES, ("value_set",)),
    "expect_column_most_common_value_to_be_in_set": Known(
        "column", "field", "anything", {**_VALUES, "ties_okay": "yes_or_no"}, ("value_set",)
    ),
    "expect_column_quantile_values_to_be_between": Known(
        "column", "field", "number", {"quantile_ranges": "ranges"}, ("quantile_ranges",)
    ),
    "expect_table_row_count_to_be_between": Known("table", "items", "anything", _between("count"), some_of=_LIMITS),
    "expect_table_row_count_to_equal": Known("table", "items", "anything", {"value": "count"}, ("value",)),
    "expect_column_to_exist": Known("names", "field", "anything", {"column_index": "count"}),
    "expect_table_column_count_to_be_between": Known(
        "names", "items", "anything", _between("count", strict=False), some_of=_LIMITS
    ),
    "expect_table_column_count_to_equal": Known("names", "items", "anything", {"value": "count"}, ("value",)),
    "expect_table_columns_to_match_set": Known(
        "names", "items", "anything", {"column_set": "names", "exact_match": "yes_or_no"}, ("column_set",)
    ),
    "expect_table_columns_to_match_ordered_list": Known(
        "names", "items", "anything", {"column_list": "names"}, ("column_list",)
    ),
}

_DATABASE = "the library judges it in databases only"
# Expectations of the library that cannot be declared, each with the reason.
NOT_TAKEN = {
    "expect_column_values_to_match_like_pattern": f"{_DATABASE}; expect_column_values_to_match_regex judges texts here",
    "expect_column_values_to_match_like_pattern_list": (
        f"{_DATABASE}; expect_column_values_to_match_regex_list judges texts here"
    ),
    "expect_column_values_to_not_match_like_pattern": (
        f"{_DATABASE}; expect_column_values_to_not_match_regex judges texts here"
    ),
    "expect_column_values_to_not_match_like_pattern_list": (
        f"{_DATABASE}; expect_column_values_to_not_match_regex_list judges texts here"
    ),
    "expect_query_results_to_match_comparison": _DATABASE,
    "unexpected_rows_expectation": _DATABASE,
    "expect_table_row_count_to_equal_other_table": (
        "there is no other table; expect_table_row_count_to_be_between takes limits"
    ),
    "expect_column_type_to_be": (
        "it asks how a data frame stores a column; expect_column_values_to_be_of_type judges the values"
    ),
    "expect_column_kl_divergence_to_be_less_than": (
        "it compares with a stored distribution; expect_column_quantile_values_to_be_between takes limits"
    ),
}
