"""Pages of prose: how much of what is to be read arrives, and how much of what surrounds it. Truth is read by lxml from
the bytes.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import lxml.etree
import lxml.html

from tests.reference.figures import Figure, contained, equal, kept_out, squeeze
from tests.reference.journey import CONTENT, SHARED, SourceContent, served, travel

_BLOCKS = frozenset(
    {
        *("div", "p", "blockquote", "pre", "br", "ul", "ol", "li", "dl", "dt", "dd"),
        *("table", "thead", "tbody", "tr", "td", "th", "h1", "h2", "h3", "h4", "h5", "h6"),
    }
)
_READ = 0.94  # of the handbook
_MARKS = re.compile(r"[*_`#|>\\]")
_READABLE = 20  # characters; what is shorter stands on a page more than once


def musee_ecole_fr() -> Iterator[Figure]:
    """22 pages in sections; the truth names three paragraphs of each, the bytes all of them."""
    with served("musee_ecole_fr") as site:
        content = travel("musee_ecole_fr", SITE=site)["pages"]
    truth = {unquote(row["url"]): row for row in _expected("musee_ecole_fr")["records"]}
    items = {unquote(item.url.removeprefix(site)): item for item in content.items}
    text_of = {path: item.text for path, item in items.items()}
    yield Figure("pages stored", len(content.stored), 27, [f"{f.url}: {f.reason}" for f in content.outcome.failures])
    yield Figure("documents", len(items), len(truth), [f"{r.url}: {r.reason}" for r in content.rejects])
    titles = {
        path: (item.title, item.fields["subtitle"] or "", item.fields["author"] or "") for path, item in items.items()
    }
    yield equal(
        "titles, subtitles, authors",
        titles,
        {
            path: tuple(squeeze(row[name] or "") for name in ("title", "subtitle", "author"))
            for path, row in truth.items()
        },
    )
    tags = {path: [item.fields["tag"]] if item.fields["tag"] else [] for path, item in items.items()}
    yield equal("tags", tags, {path: row["tags"] for path, row in truth.items()})
    yield contained(
        "paragraphs of the truth",
        text_of,
        ((path, text) for path, row in truth.items() for text in row["main_text_must_contain"]),
    )
    pages = {path: CONTENT / "musee_ecole_fr/www" / path.strip("/") / "index.html" for path in truth}
    segments = _segments(pages, "//div[@class='body']")
    yield contained("all segments", text_of, segments, floor=len(segments) - 5)  # a list of links, a signature
    yield kept_out("pages without the site's name", text_of, ((path, "Il était une fois l'école") for path in truth))


def deb_handbook_fr() -> Iterator[Figure]:
    yield from _handbook("fr-FR", "deb_handbook_fr")


def deb_handbook_vi() -> Iterator[Figure]:
    yield from _handbook("vi-VN", "deb_handbook_vi")


def maintext_dev() -> Iterator[Figure]:
    """220 saved pages, with strings that belong to their main text and strings that do not."""
    folder = SHARED / "eval/maintext_dev"
    content = travel("maintext_dev", EVAL=str(folder.parent))["pages"]
    text_of = {Path(item.document_id).name: _MARKS.sub("", item.text) for item in content.items}
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    wanted, unwanted = (
        [(page["file"], _MARKS.sub("", text)) for page in truth for text in page[key]] for key in ("with", "without")
    )
    belongs = contained("strings that belong", text_of, wanted, floor=int(0.96 * len(wanted)))
    foreign = kept_out("strings that do not, kept out", text_of, unwanted, floor=int(0.9 * len(unwanted)))
    yield belongs
    yield foreign
    let_in = foreign.expected - foreign.count
    f1 = 2 * belongs.count / (2 * belongs.count + let_in + belongs.expected - belongs.count)
    yield Figure("F1, in thousandths", round(1000 * f1), 1000, floor=945)


def _handbook(language: str, name: str) -> Iterator[Figure]:
    with served("deb_handbook") as site:
        content = travel(name, SITE=site)["book"]
    folder = CONTENT / "deb_handbook/www" / language
    pages = {path.name: path for path in sorted(folder.glob("*.html"))}
    stats = _expected("deb_handbook", "stats.json")
    text_of = {item.document_id: item.text for item in content.items}
    yield Figure(
        "pages stored",
        len(content.stored),
        stats["html_files"] // 3,
        [f"{f.url}: {f.reason}" for f in content.outcome.failures],
    )
    yield Figure("documents", len(content.distinct_items), len(pages), _left_out(pages, content))
    yield equal(
        "titles",
        {item.document_id: squeeze(item.title) for item in content.items},
        {page: _title(path) for page, path in pages.items()},
    )
    wanted = (
        "//div[contains(@class, 'chapter') or contains(@class, 'section') or contains(@class, 'book') or "
        "contains(@class, 'preface')][1]"
    )
    segments = _segments(pages, wanted)
    yield contained("segments of the text", text_of, segments, floor=int(_READ * len(segments)))
    navigation = _segments(pages, "//ul[contains(@class, 'docnav')] | //div[@id='banner']")
    # the book's title is also its heading
    yield kept_out("segments of navigation kept out", text_of, navigation, floor=len(navigation) - 1)


def _expected(site: str, name: str = "expected.json") -> Any:
    return json.loads((CONTENT / site / name).read_text(encoding="utf-8"))


def _left_out(pages: dict[str, Path], content: SourceContent) -> list[str]:
    document_ids = {item.document_id for item in content.distinct_items}
    return [f"{r.document_id}: {r.reason}" for r in content.rejects] + [
        f"{page}: not there" for page in pages if page not in document_ids
    ]


def _segments(pages: dict[str, Path], where: str) -> list[tuple[str, str]]:
    """Runs of text between block elements, with their page, at least 20 characters long; tables of contents are left
    out.
    """
    return [(page, run) for page, path in pages.items() for run in _runs(path, where) if len(run) >= _READABLE]


def _runs(path: Path, where: str) -> Iterator[str]:
    tree = lxml.html.parse(str(path), parser=lxml.html.HTMLParser(encoding="utf-8"))
    for toc in tree.xpath("//div[@class='toc']"):
        toc.drop_tree()
    for root in tree.xpath(where)[:1] if where.endswith("[1]") else tree.xpath(where):
        pieces: list[str] = []
        for event, element in lxml.etree.iterwalk(root, events=("start", "end")):
            if element.tag in _BLOCKS and pieces:
                yield squeeze("".join(pieces))
                pieces = []
            if isinstance(element.tag, str) and event == "start":
                pieces.append(element.text or "")
            elif event == "end" and element is not root:
                pieces.append(element.tail or "")
        yield squeeze("".join(pieces))


def _title(path: Path) -> str:
    tree = lxml.html.parse(str(path), parser=lxml.html.HTMLParser(encoding="utf-8"))
    return squeeze(tree.findtext(".//title"))
