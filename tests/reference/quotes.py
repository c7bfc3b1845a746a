"""quotes: the same hundred, read from HTML, from a JSON interface and from what a script would show."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from almanac.schemas.errors import NoRecords
from tests.reference.figures import Figure, equal
from tests.reference.journey import CONTENT, SourceContent, served, travel


def quotes_html() -> Iterator[Figure]:
    with served("quotes") as site:
        yield from _compare_quotes("html", travel("quotes_html", SITE=site)["quotes"])


def quotes_microdata() -> Iterator[Figure]:
    with served("quotes") as site:
        yield from _compare_quotes("microdata", travel("quotes_microdata", SITE=site)["quotes"])


def quotes_api() -> Iterator[Figure]:
    with served("quotes") as site:
        for name, content in travel("quotes_api", SITE=site).items():
            yield from _compare_quotes(name, content)


def quotes_js() -> Iterator[Figure]:
    with served("quotes") as site:
        yield from _compare_quotes("script", travel("quotes_js", SITE=site)["quotes"])
        delayed = travel("quotes_js", SITE=site, START="/js-delayed/page/1/")["quotes"]
        yield from _compare_quotes("delayed script", delayed)
        yield Figure("by css: no records", int(_gives_no_records("quotes_js_by_css", site)), 1)


def _gives_no_records(name: str, site: str) -> bool:
    try:
        travel(name, SITE=site)
    except NoRecords:
        return True
    return False


def _compare_quotes(how: str, content: SourceContent) -> Iterator[Figure]:
    truth = json.loads((CONTENT / "quotes/expected.json").read_text(encoding="utf-8"))
    read = {item.fields["text"]: _quote(item.fields) for item in content.distinct_items}
    yield Figure(f"{how}: items", len(content.items), truth["total"], [r.reason for r in content.rejects])
    yield equal(f"{how}: quotes", read, {row["text"]: _quote(row) for row in truth["records"]})
    tags = Counter(tag for item in content.distinct_items for tag in item.fields["tags"] or [])
    yield equal(f"{how}: tags", tags, truth["tag_counts"])


def _quote(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["author"], row["tags"] or []
