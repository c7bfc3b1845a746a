"""adv_html5lib: 1,524 malformed trees and 82 encodings, with what a browser makes of them."""

import codecs
import json
import re
from collections.abc import Iterator

from almanac.schemas.items import Item, Page
from almanac.spiders.reading.content import Content
from tests.reference.figures import Figure, squeeze
from tests.reference.journey import CONTENT, served, travel

_NODE = re.compile(r'^\| (?P<indent> *)(?:"(?P<text>.*)|<(?P<tag>[^>]*)>|.*)$')
# Elements whose text is no text to a reader; and those that only scripts, frames or fallbacks show.
_UNREAD = frozenset(
    {
        *("head", "script", "style", "template", "content", "noscript", "iframe", "noembed", "noframes", "frameset"),
        *("textarea", "select", "option", "svg title", "svg style", "svg script"),
        *("rt", "rp", "rtc", "dialog"),  # how a base is spoken; what only a script opens
    }
)
_READ = 623  # of the trees with a text


def adv_html5lib() -> Iterator[Figure]:
    with served("adv_html5lib") as site:
        contents = travel("adv_html5lib", SITE=site)
    truth = json.loads((CONTENT / "adv_html5lib/expected.json").read_text(encoding="utf-8"))
    pages, read = contents["pages"], contents["read"]
    accounted = len(pages.items) + len(pages.rejects)
    yield Figure("pages accounted for", accounted, len(truth["tree"]) + len(truth["encoding"]))
    texts = {item.url.removeprefix(site): item for item in pages.items}
    expected = {path: _readable(tree) for path, tree in truth["tree"].items()}
    expected = {path: text for path, text in expected.items() if text}
    yield _share(
        "trees whose text is there, as a field", {path: _field(item) for path, item in texts.items()}, expected, _READ
    )
    documents = {f"/{item.url}": item.text for item in read.items}
    yield _share("trees whose text is there, as a document", documents, expected, _READ)
    yield _encodings(truth["encoding"])


def _field(item: Item) -> str:
    return str(item.fields["all"])


def _share(what: str, texts: dict[str, str], expected: dict[str, str], floor: int) -> Figure:
    missing = [
        f"{path}: {texts.get(path, 'no item')[:60]!r}, expected {text[:60]!r}"
        for path, text in expected.items()
        if _tight(text) not in _tight(texts.get(path, ""))
    ]
    return Figure(what, len(expected) - len(missing), len(expected), missing, floor)


def _tight(text: str) -> str:
    return re.sub(r"[\s\0|#*`-]", "", squeeze(text))


def _readable(tree: str) -> str:
    """The text nodes of a tree as html5lib's tests draw it, without those that are not for reading."""
    texts: list[str] = []
    skipped_at: int | None = None
    inside = False  # a text node that goes on over several lines
    for line in tree.split("\n"):
        node = _NODE.match(line)
        if node is None:
            if inside:
                texts.append(line.removesuffix('"'))
            continue
        depth = len(node["indent"])
        if skipped_at is not None and depth > skipped_at:
            inside = False
            continue
        skipped_at = None
        inside = node["text"] is not None
        if node["text"] is not None:
            texts.append(node["text"].removesuffix('"'))
        elif node["tag"] in _UNREAD:
            skipped_at = depth
    return squeeze("\n".join(texts))


def _encodings(truth: dict[str, str]) -> Figure:
    """Pages that decode as in the encoding that a browser would take; another name for the same text is as good."""
    wrong = []
    for path, encoding in truth.items():
        body = (CONTENT / "adv_html5lib/pages" / path.lstrip("/")).read_bytes()
        content = Content(Page(url=path, body=body, content_type="text/html"))
        if content.text.lstrip("\ufeff") != body.decode(codecs.lookup(encoding).name, "replace").lstrip("\ufeff"):
            wrong.append(f"{path}: read as {content.encoding}, a browser takes {encoding}")
    # one says that it is EUC-JP, and is UTF-8
    return Figure("encodings", len(truth) - len(wrong), len(truth), wrong, len(truth) - 1)
