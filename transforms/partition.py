"""HTML → readable text: main text by trafilatura, its structure by unstructured, written as Markdown.

Headings become `## …`, list items `- …`, table rows `a | b`; everything else is a paragraph. Records of why: docs/decisions.
"""

from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import lxml.etree
import lxml.html
from parsel import Selector

if TYPE_CHECKING:
    from unstructured.documents.elements import Element

Part = Literal["main", "all"]
_PRUNED = ("main", "nav", "form", "details", "figure")


def html_to_markdown(html: str, part: Part) -> str:
    """Readable text of a page: its main text without navigation, or all of it. Empty where there is none."""
    if not html.strip():
        return ""
    chosen = _main_html(html) if part == "main" else _all_html(html)
    if not chosen:
        return ""
    blocks: list[str] = []
    previous = ""
    for element in _partition(chosen):
        block = _markdown(element)
        if not block:
            continue
        joins = element.category == previous == "ListItem"
        blocks.append(("\n" if joins else "\n\n") + block)
        previous = element.category
    return "".join(blocks).strip("\n")


def _all_html(html: str) -> str:
    """The page with neutral tags where unstructured would take `<main>` alone, or leave navigation, forms and details out."""
    try:
        tree = lxml.html.document_fromstring(html.encode("utf-8", "replace"), parser=lxml.html.HTMLParser(encoding="utf-8", huge_tree=True))
    except lxml.etree.ParserError:  # nothing but comments
        return ""
    for element in tree.iter(*_PRUNED):
        element.tag = "div"
    return str(lxml.html.tostring(tree, encoding="unicode"))


def _main_html(html: str) -> str | None:
    """The page's main content as plain HTML, or None.

    Precision first: it leaves related links and teasers out. A page that is nothing but teasers then has nothing left, and is read less strictly.
    """
    import trafilatura

    for favor_precision in (True, False):
        found: str | None = trafilatura.extract(
            html,
            output_format="html",
            include_formatting=True,
            include_tables=True,
            include_comments=False,
            favor_precision=favor_precision,
            config=_trafilatura_config(),
        )
        if found:
            return found
    return None


@cache
def _trafilatura_config() -> Any:
    from trafilatura.settings import use_config

    config = use_config()
    # Below its default of 250 characters it falls back to a flat text that loses headings and splits words at inline tags; a short policy is a page too.
    config.set("DEFAULT", "MIN_EXTRACTED_SIZE", "1")
    config.set("DEFAULT", "MIN_OUTPUT_SIZE", "1")
    return config


def _partition(html: str) -> "list[Element]":
    _use_blank_pipeline()
    from unstructured.partition.html import partition_html

    return partition_html(text=html, languages=[""])


@cache
def _use_blank_pipeline() -> None:
    """Gives unstructured a language-neutral tokenizer where it would download spaCy's English model.

    It asks the model for sentences and for a verb in order to tell running text from a title; in HTML the tags tell that already.
    """
    import spacy
    from spacy.language import Language
    from unstructured.nlp import tokenize

    if not hasattr(tokenize, "_load_spacy_model"):
        raise RuntimeError("unstructured loads its language model in another way than at the locked version: see transforms/partition.py")

    def tag_verb(doc: Any) -> Any:
        if len(doc) >= 4:
            doc[0].tag_ = "VB"
        return doc

    Language.component("almanac_verb", func=tag_verb)
    pipeline = spacy.blank("xx")
    pipeline.add_pipe("sentencizer")
    pipeline.add_pipe("almanac_verb")
    tokenize._load_spacy_model = lambda: pipeline
    tokenize._get_nlp.cache_clear()


def _markdown(element: "Element") -> str:
    text = element.text.strip()
    match element.category:
        case "Title" if element.metadata.category_depth is not None:
            return f"{'#' * (element.metadata.category_depth + 1)} {' '.join(text.split())}" if text else ""
        case "ListItem":
            return f"- {' '.join(text.split())}" if text else ""
        case "Table" if element.metadata.text_as_html:
            return _rows(element.metadata.text_as_html)
        case "PageBreak" | "Image":
            return ""
        case _:
            return text


def _rows(table: str) -> str:
    rows = (
        " | ".join(" ".join(cell.xpath("string(.)").get(default="").split()) for cell in row.xpath("./td|./th")) for row in Selector(text=table).xpath("//tr")
    )
    return "\n".join(row for row in rows if row.strip(" |"))
