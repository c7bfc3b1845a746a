"""books_shop: a thousand products, every field to the character."""

import json
from collections.abc import Iterator
from typing import Any

from tests.reference.figures import Figure, equal
from tests.reference.journey import CONTENT, served, travel


def books_shop() -> Iterator[Figure]:
    with served("books_shop") as site:
        content = travel("books_shop", SITE=site)["shop"]
    records = {item.url.removeprefix(site): item.fields for item in content.distinct_items}
    truth = {
        row["url"]: row
        for row in json.loads((CONTENT / "books_shop/expected.json").read_text(encoding="utf-8"))["records"]
    }
    yield Figure("pages stored", len(content.stored), 1159, [f"{f.url}: {f.reason}" for f in content.outcome.failures])
    yield equal("names", _column(records, "name"), _column(truth, "name"))
    yield equal(
        "prices",
        {url: row["price"]["currency"] + row["price"]["amount"] for url, row in records.items()},
        _column(truth, "price"),
    )
    yield equal("in stock", _column(records, "in_stock"), _column(truth, "inStock"))
    yield equal("ratings", _column(records, "rating"), _column(truth, "rating"))
    yield equal(
        "descriptions",
        {url: row["description"] or "" for url, row in records.items()},
        {u: r["description"] or "" for u, r in truth.items()},
    )
    yield equal("breadcrumbs", _column(records, "breadcrumbs"), _column(truth, "breadcrumbs"))
    properties = {url: {entry["name"]: entry["value"] for entry in row["properties"]} for url, row in records.items()}
    yield equal("properties", properties, _column(truth, "properties"))


def _column(rows: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    return {key: row[name] for key, row in rows.items()}
