"""`re:test`, `re:match` and `re:replace` of XPath do as lxml's own do, within a time limit."""

import pytest
from lxml import etree

from almanac.core import patterns
from almanac.schemas.declaration.field_rules import Selector
from almanac.schemas.items import Page
from almanac.spiders.reading.content import Content
from almanac.spiders.selecting.selectors import select

_PAGE = "<ul><li class='a'>Red 12</li><li>blue 7 and 8</li><li>{}</li></ul>"


def _select_texts(xpath: str, last: str = "none") -> list[str]:
    content = Content(Page("https://x.example/", _PAGE.format(last).encode(), content_type="text/html"))
    selected = select(content.selector, Selector(xpath=xpath))
    return [
        "".join(selector.root.itertext()) if isinstance(selector.root, etree._Element) else str(selector.root)
        for selector in selected
    ]


@pytest.mark.parametrize(
    ("xpath", "texts"),
    [
        (r"//li[re:test(., '^\w+ \d+$')]", ["Red 12"]),
        ("//li[re:test(., 'RED', 'i')]", ["Red 12"]),
        ("//li[re:test(@class, 'a')]", ["Red 12"]),
        (r"re:match(//li[2], '(\d) and (\d)')/text()", ["7 and 8", "7", "8"]),
        (r"re:match(//li[2], '\d', 'g')/text()", ["7", "8"]),
        (r"re:replace(//li[2], '\d', '', 'x')", ["blue x and 8"]),
        (r"re:replace(//li[2], '(\d)', 'g', '<\1>')", ["blue <7> and <8>"]),
        (r"re:test(//li[9], 'x')", ["False"]),
    ],
)
def test_they_find_what_they_say(xpath: str, texts: list[str]) -> None:
    assert _select_texts(xpath) == texts


def test_a_text_that_takes_too_long_has_no_match_and_its_neighbours_do() -> None:
    patterns._spent.clear()
    slow = "a{1,5000}a{1,5000}b|Red"
    assert _select_texts(f"//li[re:test(., '{slow}')]", "a" * 5000) == ["Red 12"]
    assert _select_texts(f"re:replace(//li[3], '{slow}', 'g', '')", "a" * 5000) == ["a" * 5000]
    assert patterns._spent[slow] > 1


def test_a_pattern_that_is_none_has_no_match() -> None:
    assert _select_texts("//li[re:test(., '(')]") == []
