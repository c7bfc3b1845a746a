"""product_docs: 45 product sheets in Markdown, and the two tables that name the same products."""

import json
from collections.abc import Iterator
from typing import Any

from tests.reference.figures import Figure, equal
from tests.reference.journey import CONTENT, SourceContent, travel


def product_docs() -> Iterator[Figure]:
    contents = travel("product_docs")
    truth = json.loads((CONTENT / "product_docs/expected.json").read_text(encoding="utf-8"))
    contoso, techhub = truth["contoso"], truth["techhub"]
    for name in ("contoso", "contoso_table"):
        rows = _rows(contents[name])
        for column in ("name", "category", "brand"):
            yield equal(
                f"{name}: {column}",
                {key: row[column] for key, row in rows.items()},
                {key: row[column] for key, row in contoso.items()},
            )
        prices = {
            key: row["price"]["amount"] if isinstance(row["price"], dict) else row["price"] for key, row in rows.items()
        }
        yield equal(
            f"{name}: price",
            {key: float(price) for key, price in prices.items()},
            {key: float(row["price"]) for key, row in contoso.items()},
        )
    yield equal(
        "techhub: name",
        {key: row["name"] for key, row in _rows(contents["techhub"]).items()},
        {key: row["h1"] for key, row in techhub.items()},
    )
    table = _rows(contents["techhub_table"])
    for column in ("name", "category", "price"):
        yield equal(
            f"techhub_table: {column}",
            {key: row[column] for key, row in table.items()},
            {key: row[column] for key, row in techhub.items()},
        )
    stock = {key: bool(row["in_stock"]) for key, row in techhub.items()}
    yield equal("techhub_table: in stock", {key: row["in_stock"] for key, row in table.items()}, stock)


def _rows(content: SourceContent) -> dict[str, dict[str, Any]]:
    return {item.document_id: item.fields for item in content.distinct_items}
