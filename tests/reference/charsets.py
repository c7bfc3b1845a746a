"""adv_vn_encodings: Vietnamese pages of three handbook pages, in encodings declared rightly, wrongly or not at all."""

import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import lxml.html

from tests.reference.figures import Figure, equal
from tests.reference.journey import CONTENT, served, travel


def adv_vn_encodings() -> Iterator[Figure]:
    with served("adv_vn_encodings") as site:
        content = travel("adv_vn_encodings", SITE=site)["pages"]
    truth = json.loads((CONTENT / "adv_vn_encodings/expected.json").read_text(encoding="utf-8"))
    sources = {path: _letters(_body(CONTENT / row["source"])) for path, row in truth.items()}
    items = {item.url.removeprefix(site): item for item in content.items}
    yield Figure("pages", len(items), len(truth), [f"{r.url}: {r.reason}" for r in content.rejects])
    yield equal(
        "every letter of the page", {path: _letters(item.fields["all"]) for path, item in items.items()}, sources
    )
    likes = {path: items[path.partition("__")[0] + "__header_vs_meta.html"] for path in items}
    yield equal(
        "main text",
        {path: item.text for path, item in items.items()},
        {path: like.text for path, like in likes.items()},
    )


def _body(path: Path) -> str:
    tree = lxml.html.parse(str(path), parser=lxml.html.HTMLParser(encoding="utf-8"))
    return str(tree.getroot().body.text_content())


def _letters(text: str) -> str:
    """All but white space and quotes, in NFC."""
    return "".join(c for c in unicodedata.normalize("NFC", text) if not c.isspace() and c not in "\"'‘’“”")
