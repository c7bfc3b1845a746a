"""What YAML amounts to is told before anything is made of it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from almanac.core.yaml_bounds import Excess, excess_of
from almanac.core.yaml_source import read_tree
from almanac.schemas.errors import DeclarationError


@pytest.mark.parametrize(
    ("text", "excess"),
    [
        ("a: [1, 2, 3]\nb: {c: d}", None),
        ("a: &a {x: 1}\nb: {<<: *a}\nc: *a", None),
        ("title: '{{ page.title }}'\nb: {{ page.title }}", None),
        (
            "a: &a [1, 2, 3, 4]\nb: &b [*a, *a, *a]\nc: [*b, *b, *b]",
            Excess(3, "more than 50 values, with those of each alias"),
        ),
        (
            "a: &a {x: 1, y: 2}\nb: &b\n  <<: [*a, *a, *a]\nc:\n  <<: [*b, *b, *b]",
            Excess(5, "more than 50 values, with those of each alias"),
        ),
        ("a: b\nc: &a [*a]", Excess(2, "*a stands within what it names")),
        ("a:\n  - &b\n    c: *b", Excess(3, "*b stands within what it names")),
        ("a: [[[[[[[[[[[1]]]]]]]]]]]", Excess(1, "more than 10 levels")),
        ("a: &a [[[[[1]]]]]\nb: [[[[[[*a]]]]]]", Excess(2, "more than 10 levels")),
        ("a:\n  ? ? ? ? ? ? ? x", Excess(2, "more than 4 keys within keys")),
    ],
)
def test_an_excess_is_told_with_its_line(text: str, excess: Excess | None) -> None:
    assert excess_of(text, 50, 10) == excess


_VALUES = st.recursive(
    st.integers(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab", min_size=1), inner, max_size=4),
    max_leaves=20,
)


def _count(value: object) -> int:
    inner = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    return 1 + sum(map(_count, inner))


@given(_VALUES)
def test_values_are_counted_as_they_are(value: object) -> None:
    written = repr(value)  # which is YAML
    assert YAML(typ="safe", pure=True).load(written) == value
    assert excess_of(written, _count(value), 100) is None
    assert excess_of(written, _count(value) - 1, 100) is not None


def test_a_declaration_of_aliases_of_aliases_is_refused_with_its_line(tmp_path: Path) -> None:
    lines = ["a0: &a0 [lol]", *(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 20)}]" for level in range(1, 9))]
    path = tmp_path / "kb.yaml"
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(DeclarationError) as caught:
        read_tree(path)
    assert (caught.value.where, caught.value.message) == (
        f"{path}:5",
        "more than 100,000 values, with those of each alias",
    )
