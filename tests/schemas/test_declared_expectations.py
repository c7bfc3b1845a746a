"""Expectations by the library's names: what is refused before a run, with its place."""

import subprocess
import sys
from pathlib import Path

import pytest

from almanac.core.load import load_declaration
from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.named_expectations import known_expectation
from almanac.schemas.errors import DeclarationError
from almanac.transforms.expectations import rules_of

_FIELDS = """{name: {css: h1, required: true}, price: {css: .p, type: price}, start: {css: .d, type: date}, open: {css: .o, type: boolean},
      tags: {css: .t, many: true}, sizes: {css: .s, many: true, type: integer}, seats: {each: {css: tr}, many: true, fields: {n: {css: td}}},
      any: {json: any}}"""  # noqa: E501
_DECLARATION = """
name: kb
sources:
  - name: s
    kind: site
    start_urls: ["https://example.org/"]
    yields: records
    fields: FIELDS
  - {name: t, kind: files, glob: "x.md"}
validate:
  expect:
    - EXPECT
"""


def _load(folder: Path, expect: str, source: bool = True) -> Declaration:
    text = _DECLARATION.replace("FIELDS", _FIELDS).replace("EXPECT", expect)
    (folder / "kb.yaml").write_text(
        text if not source else text.replace('  - {name: t, kind: files, glob: "x.md"}\n', "")
    )
    return load_declaration(str(folder / "kb.yaml"))


@pytest.mark.parametrize(
    ("expect", "says"),
    [
        (
            "{expectation: expect_column_values_to_match_regx, field: name, regex: a}",
            ".expectation: Great Expectations has no",
        ),
        (
            "{expectation: expect_column_values_to_match_regx, field: name, regex: a}",
            "; did you mean expect_column_values_to_match_regex",
        ),
        (
            "{expectation: ExpectColumnValuesToMatchRegex, field: name, regex: a}",
            "; did you mean expect_column_values_to_match_regex",
        ),
        (
            "{expectation: expect_column_values_to_match_like_pattern, field: name, like_pattern: a}",
            "expect_column_values_to_match_regex judges texts here",
        ),
        (
            "{expectation: expect_column_values_to_match_regex, field: name, regx: a}",
            ".regx: unknown argument; did you mean regex",
        ),
        (
            "{expectation: expect_column_values_to_match_regex, field: name, regex: a, row_condition: x}",
            ".row_condition: unknown argument",
        ),
        ("{expectation: expect_column_values_to_match_regex, column: name, regex: a}", "field is required"),
        (
            "{expectation: expect_column_values_to_match_regex, field: name, column: name, regex: a}",
            ".column: a field is named by `field` here",
        ),
        ("{expectation: expect_column_values_to_match_regex, field: name}", "regex is required"),
        (
            "{expectation: expect_column_values_to_match_regex, field: name, regex: '('}",
            ".regex: not a regular expression",
        ),
        (
            "{expectation: expect_column_values_to_match_regex, field: nam, regex: a}",
            ".field: no field 'nam'; did you mean name; declared: any, name",
        ),
        (
            "{expectation: expect_column_values_to_match_regex, field: price, regex: a}",
            ".field: expect_column_values_to_match_regex needs texts; 'price' is a",
        ),
        (
            "{expectation: expect_column_mean_to_be_between, field: name, min_value: 1}",
            "needs numbers (type: integer, number or price); 'name' is a text",
        ),
        (
            "{expectation: expect_column_mean_to_be_between, field: price}",
            "validate.expect[0]: at least one of min_value and max_value is required",
        ),
        (
            "{expectation: expect_column_mean_to_be_between, field: price, min_value: '1'}",
            ".min_value: must be a number; found '1'",
        ),
        (
            "{expectation: expect_column_mean_to_be_between, field: price, min_value: 3, max_value: 1}",
            ".max_value: is below min_value",
        ),
        (
            "{expectation: expect_column_mean_to_be_between, field: price, min_value: 3, severity: quarantine}",
            ".severity: no single item breaks this one",
        ),
        (
            "{expectation: expect_column_mean_to_be_between, field: price, min_value: 3, severity: fail}",
            ".severity: Input should be",
        ),
        (
            "{expectation: expect_column_values_to_be_between, field: start, min_value: soon}",
            ".min_value: value is not a valid float; invalid date format",
        ),
        (
            "{expectation: expect_column_values_to_be_between, field: start, min_value: 3}",
            ".min_value: must be ISO 8601 dates such as 2024-05-03, as 'start' is a",
        ),
        (
            "{expectation: expect_column_max_to_be_between, field: price, max_value: '2024-01-01'}",
            ".max_value: must be numbers, as 'price' is a number",
        ),
        (
            "{expectation: expect_column_values_to_be_in_set, field: open, value_set: [yes, '1']}",
            ".value_set: must be true or false, as 'open' is true or false",
        ),
        (
            "{expectation: expect_column_values_to_be_in_set, field: name, value_set: []}",
            ".value_set: must be a list of values",
        ),
        (
            "{expectation: expect_column_value_lengths_to_equal, field: price, value: 1}",
            "needs texts or lists; 'price' is a number",
        ),
        (
            "{expectation: expect_column_values_to_be_of_type, field: name, type_: varchar}",
            ".type_: must be one of str, int",
        ),
        (
            "{expectation: expect_column_values_to_match_json_schema, field: any, json_schema: {type: nothing}}",
            ".json_schema: not a JSON Schema",
        ),
        (
            "{expectation: expect_column_values_to_match_strftime_format, field: start, strftime_format: '%Q'}",
            ".strftime_format: Unable to use provided strftime_format",
        ),
        (
            "{expectation: expect_column_pair_values_a_to_be_greater_than_b, column_A: price, column_B: end}",
            ".column_B: no field 'end'",
        ),
        (
            "{expectation: expect_column_pair_values_a_to_be_greater_than_b, column_A: price, column_B: start}",
            ".column_B: a number cannot be compared with a date",
        ),
        (
            "{expectation: expect_column_pair_values_to_be_equal, field: price}",
            ".field: goes into column_A and column_B here",
        ),
        (
            "{expectation: expect_multicolumn_sum_to_equal, column_list: [price, start], sum_total: 3}",
            ".column_list[1]: expect_multicolumn_sum_to_equal needs numbers",
        ),
        (
            "{expectation: expect_table_row_count_to_be_between, field: name, min_value: 1}",
            ".field: this one is about all items",
        ),
        ("{expectation: expect_table_row_count_to_be_between, min_value: 1, source: x}", ".source: no source 'x'"),
        (
            "{expectation: expect_column_values_to_be_unique, field: name, mostly: 90%}",
            ".mostly: goes with severity: warn or refuse",
        ),
        (
            "{expectation: expect_column_values_to_be_unique, field: name, unique: true}",
            ".unique: goes without `expectation`",
        ),
        ("{field: start, min: 3}", ".field: min needs numbers (type: integer, number or price); 'start' is a date"),
        ("{field: name, minlength: 3}", ".minlength: unknown key; did you mean min_length?"),
        ("{field: price, min: 3, max: 1}", ".max: is below min"),
        ("{field: price}", ".field: nothing is expected of it"),
        (
            "{expectation: expect_column_values_to_match_json_schema, field: any, json_schema: {$ref: "
            "'http://localhost:9/s'}}",
            ".json_schema: $ref: http://localhost:9/s",
        ),
        (
            "{expectation: expect_column_values_to_match_json_schema, field: any, json_schema: {items: {$ref: "
            "'file:///etc/hosts'}}}",
            ".json_schema: $ref: file:///",
        ),
        (
            "{expectation: expect_column_values_to_match_json_schema, field: any, json_schema: {$ref: other.json}}",
            ".json_schema: $ref: other.json leads out of the schema",
        ),
        (
            "{expectation: expect_column_values_to_match_json_schema, field: any, json_schema: {$ref: '#/own/a', "
            "own: {a: {$dynamicRef: 'http://localhost:9/'}}}}",
            ".json_schema: $dynamicRef: http://localhost:9/ leads out of the schema",
        ),
        (
            "{expectation: expect_column_values_to_match_json_schema, field: any, json_schema: {$id: "
            "'http://localhost:9/a/', $ref: b}}",
            ".json_schema: $id: http://localhost:9/a/ leads out of the schema",
        ),
        (
            "{expectation: expect_column_values_to_not_be_outliers, field: price, multiplier: -1}",
            ".multiplier: ensure this value is greater than or equal to 0; found -1",
        ),
        ("{field: price, one_of: ['12.5']}", ".one_of: must be numbers, as 'price' is a number; found '12.5'"),
        ("{field: open, one_of: ['yes']}", ".one_of: must be true or false"),
        ("{field: name, one_of: []}", ".one_of: must be a list of values"),
        ("{field: name, one_of: [{a: 1}]}", ".one_of: its entries must be texts, numbers, true or false"),
        ("{field: price, min: .inf}", ".min: Input should be a finite number"),
        ("{field: price, max: .nan}", ".max: Input should be a finite number"),
        ("{field: price.amount, min: 1}", "no field 'price.amount'; 'price' counts as its amount"),
        (
            "{field: seats.n, not_null: true}",
            "no field 'seats.n'; conditions on what is in 'seats' stand with its own fields",
        ),
        ("{expectation: expect_column_pair_values_to_be_equal, column_A: name, column_B: nam}", "; found 'nam'"),
        ("{expectation: expect_compound_columns_to_be_unique, column_list: [name, nam]}", "; found 'nam'"),
        ("{expectation: expect_column_values_to_be_between, field: start, min_value: 3}", "; found 3"),
    ],
)
def test_what_can_never_be_judged_is_refused_with_its_place(tmp_path: Path, expect: str, says: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        _load(tmp_path, expect)
    assert says in str(caught.value)
    assert "found None" not in str(caught.value)
    assert "line 13: validate.expect[0]" in str(caught.value)
    assert str(caught.value.where).endswith("kb.yaml:13")


@pytest.mark.parametrize(
    "expect",
    [
        "{field: tags, min_length: 1}",
        "{field: sizes, min: 0}",
        "{field: seats, min_length: 1}",
        "{field: any, min: 3, severity: warn, mostly: 95%}",
        "{expectation: expect_column_value_lengths_to_be_between, field: sizes, min_value: 1}",
        "{expectation: expect_column_values_to_be_between, field: start, min_value: 2024-01-01}",  # a date in YAML
        "{expectation: expect_column_values_to_be_between, field: start, max_value: '2030-01-01T00:00:00+02:00'}",
        "{expectation: expect_column_values_to_match_regex, field: url, regex: '^https'}",
        "{expectation: expect_column_values_to_match_json_schema, field: any, json_schema: {$ref: '#/$defs/a', "
        "$defs: {a: {items: {$ref: '#'}}}}}",
        "{expectation: expect_column_values_to_match_json_schema, field: any, json_schema: {$ref: '#a', $defs: "
        "{x: {$anchor: a}}, properties: {$ref: {}}}}",
        "{field: price, one_of: [1, 2.5]}",
        "{field: start, one_of: [2024-05-03]}",
    ],
)
def test_what_may_be_judged_is_taken(tmp_path: Path, expect: str) -> None:
    assert len(_load(tmp_path, expect).validate_.expect) == 1


def test_of_two_sources_each_is_judged_by_what_is_meant_for_it(tmp_path: Path) -> None:
    declaration = _load(
        tmp_path, "{expectation: expect_column_values_to_match_regex, field: title, regex: a, source: t}", source=False
    )
    assert [
        [rule.fields for rule in rules_of(declaration, source) if not rule.by_mapping] for source in declaration.sources
    ] == [[], [("title",)]]


@pytest.mark.parametrize(
    ("name", "level", "fields"),
    [
        ("expect_column_values_to_be_unique", "row", ("column",)),
        ("expect_column_pair_values_to_be_equal", "row", ("column_A", "column_B")),
        ("expect_compound_columns_to_be_unique", "row", ("column_list",)),
        ("expect_column_mean_to_be_between", "column", ("column",)),
        ("expect_table_row_count_to_equal", "table", ()),
        ("expect_table_columns_to_match_ordered_list", "names", ()),
        ("expect_column_to_exist", "names", ("column",)),
    ],
)
def test_the_library_says_what_is_judged(name: str, level: str, fields: tuple[str, ...]) -> None:
    known = known_expectation(name)
    assert (known.level, known.fields) == (level, fields)


def test_reading_what_is_published_does_not_wait_for_the_library(tmp_path: Path) -> None:
    _load(tmp_path, "{field: price, min: 0}")
    _load_in_child = (
        "import sys; from almanac.core.load import load_declaration as load; load(sys.argv[1], to_read=sys.argv[2] == "
        "'read'); print('great_expectations' in sys.modules)"
    )

    def imports(mode: str) -> str:
        command = [sys.executable, "-c", _load_in_child, str(tmp_path / "kb.yaml"), mode]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    assert imports("run") == "False"
    text = (tmp_path / "kb.yaml").read_text()
    named = "{expectation: expect_column_mean_to_be_between, field: price, min_value: 3}"
    (tmp_path / "kb.yaml").write_text(text.replace("{field: price, min: 0}", named))
    assert [imports("read"), imports("run")] == ["False", "True"]
