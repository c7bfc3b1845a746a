"""The names in the file are those that babel has."""

from almanac.query.answering.cldr_names import cldr_names
from tests.query.cldr import names


def test_the_file_has_what_babel_has() -> None:
    assert cldr_names() == names(), "python -m tests.query.cldr writes it anew"
