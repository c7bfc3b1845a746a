"""Converts HTML to readable Markdown: main text by trafilatura, its structure by unstructured. The reasons are in docs/decisions."""

import logging
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import lxml.etree
import lxml.html

from almanac.transforms.main_text import NOT_MAIN, main_tree
from almanac.transforms.markdown import one_line, write_elements, write_tree
from almanac.transforms.simplify import parse_page, simplify

if TYPE_CHECKING:
    from unstructured.documents.elements import Element

Part = Literal["main", "all"]
# Both libraries take more than linear time. A book on one page has about 10,000 elements; 30,000 take 5 s.
_MAX_ELEMENTS = 30_000
_MAX_CHARACTERS = 5_000_000
_TOO_DEEP = lxml.etree.XPath("boolean(" + "/*" * 101 + ")")

_LONGEST_WORD = 30  # characters
_PRUNED = ("main", "nav", "form", "details", "figure")
_NEVER = frozenset({"script", "style", "noscript", "template", "head"})
_log = logging.getLogger("almanac.transforms")


def html_to_markdown(html: str, part: Part) -> str:
    """Readable text of a page: `main` is its main text without navigation, `all` everything. Empty if there is none.

    A page too large for the two libraries is written in one pass; then only elements that are navigation by their tag are left out.
    """
    root = parse_page(html) if html.strip() else None
    if root is None:
        return ""
    if len(html) > _MAX_CHARACTERS or _TOO_DEEP(root) or any(number > _MAX_ELEMENTS for number, _ in enumerate(root.iter())):
        _log.warning("a page of %d characters is too large to tell its main text: it is read as a whole, without navigation", len(html))
        return write_tree(root, NOT_MAIN if part == "main" else _NEVER)
    simplify(root, drawings=part == "all")
    if part == "all":
        return _written(root)
    heading, everything = _heading(root), write_tree(root, NOT_MAIN)
    main = main_tree(root)
    if main is None:
        return ""
    text = _written(main)
    # trafilatura flattens short pages. Where it leaves nothing out, the page's own lists and tables are used.
    text = text if _letters(text) < _letters(everything) else everything
    return text if heading in one_line(text) else f"# {heading}\n\n{text}"


def _written(root: Any) -> str:
    """The tree as Markdown, by unstructured, or directly where unstructured loses text: options, formulas, paragraphs of one character."""
    everything = write_tree(root, _NEVER)
    text = write_elements(_partition(_all_html(root)))
    return text if _shown(text) >= _shown(everything) else everything


def _shown(text: str) -> int:
    return len("".join(text.split()))


def _letters(text: str) -> int:
    return sum(map(str.isalnum, text))


def _heading(root: Any) -> str:
    """The page's only <h1>, which trafilatura omits inside a <header>; empty if there is none or more than one, or if it is a link (the site's name)."""
    headings = list(root.iter("h1"))
    return one_line(headings[0].text_content()) if len(headings) == 1 and headings[0].find(".//a[@href]") is None else ""


def _all_html(root: Any) -> str:
    """The page with neutral tags where unstructured would read only <main>, or drop navigation, forms and details."""
    for element in root.iter(*_PRUNED):
        element.tag = "div"
    return str(lxml.html.tostring(root, encoding="unicode"))


def _partition(html: str) -> "list[Element]":
    _use_blank_pipeline()
    from unstructured.partition.html import partition_html

    return partition_html(text=html, languages=[""])


@cache
def _use_blank_pipeline() -> None:
    """Gives unstructured a language-neutral tokenizer instead of spaCy's English model, which it would download.

    unstructured uses the model to find sentences and verbs, by which it separates running text from titles; in HTML the tags suffice. Words are split at
    spaces only and truncated, since spaCy stores each one: its rules for punctuation took 60 s for one word of 20,000 marks.
    """
    import spacy
    from spacy.language import Language
    from spacy.tokens import Doc
    from unstructured.nlp import tokenize

    if not hasattr(tokenize, "_load_spacy_model"):
        raise RuntimeError("unstructured loads its language model in another way than at the locked version: see transforms/partition.py")

    def tag_verb(doc: Any) -> Any:
        if len(doc) >= 4:
            doc[0].tag_ = "VB"
        return doc

    Language.component("almanac_verb", func=tag_verb)
    pipeline = spacy.blank("xx")
    pipeline.tokenizer = lambda text: Doc(pipeline.vocab, words=[word[:_LONGEST_WORD] for word in text.split()])
    pipeline.add_pipe("sentencizer")
    pipeline.add_pipe("almanac_verb")
    tokenize._load_spacy_model = lambda: pipeline
    tokenize._get_nlp.cache_clear()
