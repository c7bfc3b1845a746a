"""Folders of notes and documents: Markdown with and without front matter, and PDF."""

import json
import re
from collections import Counter
from collections.abc import Iterator

from almanac.schemas.items import Item
from tests.reference.figures import Figure, contained, equal, squeeze
from tests.reference.journey import CONTENT, travel

# Read off the documents by eye, across line ends: paragraphs have to be whole.
_MARGIES = {
    "Dubai Brochure.pdf": [
        "most populous city in the United Arab Emirates",
        "Family-run hotel in Dubai's traditional commercial center.",
    ],
    "Las Vegas Brochure.pdf": [
        "the 28th-most populated city in the United States",
        "An opulent Italian-themed resort with luxurious suite accommodation.",
    ],
    "London Brochure.pdf": [
        "a major settlement for two millennia",
        "within walking distance of Tower Bridge and the Tower of London",
    ],
    "Margies Travel Company Info.pdf": [
        "combining international reach with local expertise",
        "Deepak Nadar (Strategic Director)",
    ],
    "New York Brochure.pdf": [
        "the most populous city in the United States",
        "in upper Manhattan, with views of Central Park.",
    ],
    "San Francisco Brochure.pdf": [
        "the fourth-most populous city in California",
        "the Golden Gate Bridge and the Presidio",
    ],
    "201801.pdf": [
        "The Creek Hotel, Dubai, UAE",
        "a company I was doing business with in DXB.First of all",
        "Reviewer: Ryouta Sato",
    ],
    "201802.pdf": [
        "The Buckingham Hotel, London, UK",
        "but a number of entrances to chose from",
        "Reviewer: Issac Collett",
    ],
    "201803.pdf": ["The Buckingham Hotel, London, UK", "The courtyard is very peaceful", "Reviewer: Akiko Kaneko"],
    "201804.pdf": ["The Kensington Hotel, London, UK", "definitely one of the better ones", "Reviewer: Hsiung Chuang"],
    "201805.pdf": [
        "The Deira Hotel, Dubai, UAE",
        "moved to this hotel. A quick look at trip advisor",
        "Reviewer: Reina Inoue",
    ],
    "201806.pdf": [
        "The Deira Hotel, Dubai, UAE",
        "with good toiletries in the bathroom",
        "Reviewer: Gangaadhar Sridhara",
    ],
    "201807.pdf": [
        "The Creek Hotel, Dubai, UAE",
        "has a limited menu but the vareity is good enough",
        "Reviewer: Bao Cheng",
    ],
    "201808.pdf": [
        "The Creek Hotel, Dubai, UAE",
        "had to come to one of their office rooms for the same",
        "Reviewer: Lavonne McKee",
    ],
}


def md_til() -> Iterator[Figure]:
    content = travel("md_til")["notes"]
    truth = json.loads((CONTENT / "md_til/expected.json").read_text(encoding="utf-8"))
    titles = {item.url: _without_marks(item.title) for item in content.items}
    yield equal("titles", titles, {url: _without_marks(title) for url, title in truth["titles"].items()})
    yield equal("notes of each topic", Counter(item.fields["topic"] for item in content.items), truth["topics"])


def md_elementum_fr() -> Iterator[Figure]:
    content = travel("md_elementum_fr")["notes"]
    truth = json.loads((CONTENT / "md_elementum_fr/expected.json").read_text(encoding="utf-8"))
    records = truth["records"]
    items = {item.url: item for item in content.items}
    tags = {url: item.fields["tags"] or [] for url, item in items.items()}
    yield Figure("notes", len(items), truth["files"], [f"{r.url}: {r.reason}" for r in content.rejects])
    titles = {url: _without_marks(item.title) for url, item in items.items() if records[url]["title"]}
    # In three files the truth took a comment in a code block, or a later heading, for the title; one begins with empty
    # lines before its front matter.
    yield equal("titles", titles, _titles(records), floor=len(_titles(records)) - 4)
    yield equal("tags", tags, {url: [squeeze(tag) for tag in row["tags"]] for url, row in records.items()})
    yield Figure("notes with tags", sum(map(bool, tags.values())), truth["with_tags"])
    counts = {squeeze(tag): count for tag, count in truth["tag_counts"].items()}
    yield equal("notes of each tag", Counter(tag for note_tags in tags.values() for tag in note_tags), counts)
    yield Figure(
        "front matter kept out of the text",
        sum(not _shows_front_matter(item) for item in items.values()),
        truth["files"],
        floor=truth["files"] - 1,
    )


def docs_margies_travel() -> Iterator[Figure]:
    content = travel("docs_margies_travel")["documents"]
    files = sorted((CONTENT / "docs_margies_travel").rglob("*.pdf"))
    text_of = {item.url.rpartition("/")[2]: item.text for item in content.items}
    yield Figure("documents", len(content.items), len(files), [f"{r.url}: {r.reason}" for r in content.rejects])
    yield Figure("documents with text", sum(len(text) > 200 for text in text_of.values()), len(files))
    yield contained("known words", text_of, ((name, words) for name, phrases in _MARGIES.items() for words in phrases))


def _without_marks(title: str) -> str:
    """The truth took underscores and opening brackets for Markdown, in names such as `execute_write_fn` too."""
    return squeeze(title.replace("_", "").replace("[", ""))


def _titles(records: dict[str, dict[str, str]]) -> dict[str, str]:
    return {url: _without_marks(row["title"]) for url, row in records.items() if row["title"]}


def _shows_front_matter(item: Item) -> bool:
    return re.match(r"---\s|(?i:tags|author|since)\s*:", item.text) is not None
