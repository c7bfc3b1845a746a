"""Computes the URL of the next page of a listing, from the page number or from a value found in the page."""

import re
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from almanac.schemas.declaration.crawling import Pagination
from almanac.spiders.selecting.urls import parameter_of, with_parameter

_ABSOLUTE = re.compile(r"https?://", re.IGNORECASE)
# Common names of the page parameter. A parameter of another name with the same value is a coincidence.
NUMBERING = frozenset(
    {"page", "p", "pg", "paged", "pagenumber", "page_number", "pageno", "page_no", "pageindex", "page_index"}
)
_NUMBER = re.compile(r"-?\d{1,18}")


def page_number(url: str, pagination: Pagination) -> int | None:
    """The page number in a URL: `pagination.first` if the parameter is missing, None if it is not a number."""
    value = parameter_of(url, pagination.parameter or "page")
    if value is None:
        return pagination.first
    return int(value) if _NUMBER.fullmatch(value) else None


def numbered_next(url: str, pagination: Pagination) -> str | None:
    """The URL of the next page by number; None if the URL's page number is not a number."""
    number = page_number(url, pagination)
    return (
        None if number is None else with_parameter(url, pagination.parameter or "page", str(number + pagination.step))
    )


def stated_next(value: Any, url: str, pagination: Pagination) -> str | None:
    """The URL, possibly relative, that a value found in the page leads to; None if the value marks the last page.

    The value may be a URL, a page number, a cursor, or true for the page after this one.
    """
    if isinstance(value, list):
        value = value[0] if value else None
    if value is True:
        return numbered_next(url, pagination)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int | str) or value is False or value == "":
        return None
    text = str(value)
    if _ABSOLUTE.match(text):
        return text
    if pagination.parameter is not None:
        return with_parameter(url, pagination.parameter, text)
    return with_parameter(url, _numbering_parameter(url, int(text)), text) if _NUMBER.fullmatch(text) else text


def _numbering_parameter(url: str, following: int) -> str:
    """The query parameter that has the number before `following` as its value and a common name; `page` if there is
    none.
    """
    names = [name for name, value in parse_qsl(urlsplit(url).query) if value == str(following - 1)]
    return next((name for name in names if name.lower() in NUMBERING), "page")
