"""`Content`: the bytes of a page, decoded and parsed on first use."""

import json
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from html import escape
from typing import Any, Literal, NoReturn, Self

import parsel
from lxml.etree import iselement
from w3lib.encoding import read_bom
from w3lib.html import get_base_url

from almanac.schemas.declaration.field_rules import Selector
from almanac.schemas.declaration.reading_limits import ReadingLimits
from almanac.schemas.declaration.source import Source
from almanac.schemas.items import Page
from almanac.schemas.left_out import LeftOut
from almanac.spiders.reading.bounded import read_document
from almanac.spiders.reading.decode import decode_markup, decode_text, is_binary
from almanac.spiders.reading.dialects import as_shown, without_links
from almanac.spiders.reading.document import Document, Interrupted, Unreadable, as_html
from almanac.spiders.reading.formats import DOCUMENT_TYPES
from almanac.spiders.reading.front_matter import BrokenFrontMatter, split_front_matter
from almanac.spiders.reading.markdown import render
from almanac.spiders.reading.markup import parse_markup
from almanac.spiders.reading.rewriting import remove

Form = Literal["html", "xml", "json", "jsonl", "csv", "markdown", "plain", "pdf", "docx", "pptx", "xlsx", "epub", "eml"]

_FORMS: dict[str, Form] = {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/xml": "xml",
    "text/xml": "xml",
    "application/json": "json",
    "text/json": "json",
    "application/jsonl": "jsonl",
    "application/x-ndjson": "jsonl",
    "text/markdown": "markdown",
    "text/csv": "csv",
    "text/tab-separated-values": "csv",
}
# Documents, which are read in a child process. `is_text_type` does not count them: a crawl of pages does not store
# them.
DOCUMENT_FORMS: frozenset[Form] = frozenset({"pdf", "docx", "pptx", "xlsx", "epub", "eml"})
_PACKED_FORMS: dict[str, Form] = {DOCUMENT_TYPES[form]: form for form in sorted(DOCUMENT_FORMS)}
_MAX_DEPTH = 100  # levels of a JSON value
_NOT_PROSE = frozenset({"text/css", "text/javascript", "text/ecmascript", "text/calendar", "text/vcard"})

_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_DIGITS = 1000
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def media_type(content_type: str) -> str:
    """The bare media type: `text/html` for `Text/HTML; charset=utf-8`."""
    return content_type.partition(";")[0].strip().lower()


def is_text_type(content_type: str) -> bool:
    """Whether a crawl stores pages of this content type: HTML, XML, JSON and plain text, but not images, archives,
    style sheets or scripts.
    """
    kind = media_type(content_type)
    return kind in _FORMS or kind.endswith(("+xml", "+json")) or (kind.startswith("text/") and kind not in _NOT_PROSE)


def looks_like_text(body: bytes) -> bool:
    """Guesses whether a body without a declared type is text: not binary, and no NUL in its first 2,048 bytes unless a
    byte order mark precedes them.
    """
    return not is_binary(body) and (read_bom(body)[0] is not None or b"\0" not in body[:2048])


class Content:
    """A page, decoded and parsed on demand.

    `form` is the format it is read as. Properties that parse a damaged file raise ValueError with the finding. `limits`
    are those of reading a document, whose numbers are written in `language`, a BCP 47 tag; `encoding` and `drop` are
    the declared ones. `left_out` tallies what those who read it leave out on purpose.
    """

    # frozen
    def __init__(
        self,
        page: Page,
        limits: ReadingLimits = ReadingLimits(),  # noqa: B008
        language: str = "",
        encoding: str | None = None,
        drop: Sequence[Selector] = (),
    ) -> None:
        self.page = page
        self._limits = limits
        self._language, self._encoding = language, encoding
        self.url = page.url
        self.form = _form(page)
        self._drop = drop if self.form in ("html", "xml") else ()
        self.left_out = LeftOut()
        self._reported: set[Any] = set()

    @classmethod
    def from_page(cls, page: Page, source: Source, language: str = "") -> Self:
        """The page as its source declares that pages are read."""
        limits = source.limits if isinstance(source.limits, ReadingLimits) else ReadingLimits()  # rows are no files
        return cls(page, limits, language, source.encoding, source.drop)

    def leave_out(self, reason: str, text: str, what: Any) -> None:
        """Tallies a text that is left out for a reason; that of the same thing, such as an element that two rules read,
        only once.
        """
        if (reason, what) not in self._reported:
            self._reported.add((reason, what))
            self.left_out.add(reason, text)

    @cached_property
    def _decoded(self) -> tuple[str, str]:
        decode = decode_markup if self.form in ("html", "xml") else decode_text
        return decode(self.page.body, self.page.content_type, self._encoding)

    @property
    def encoding(self) -> str:
        """Name of the codec that the body was decoded with."""
        return self._decoded[0]

    @property
    def text(self) -> str:
        """The decoded body."""
        return self._decoded[1]

    @cached_property
    def base_url(self) -> str:
        """The URL that relative links resolve against: `<base href>` if the page has one, else the page's URL."""
        try:
            return get_base_url(self.text[:4096], self.url) if self.form == "html" else self.url
        except ValueError:  # <base href> is not a URL
            return self.url

    @property
    def has_markup(self) -> bool:
        """Whether `selector` has elements to find; False for JSON, JSON Lines and CSV."""
        return self.form not in ("json", "jsonl", "csv")

    @cached_property
    def selector(self) -> parsel.Selector:
        """The page as a parsel selector, HTML and XML without what is declared to be dropped; Markdown, plain text and
        documents are converted to HTML first.
        """
        parsed = parse_markup(self._markup, "xml" if self.form == "xml" else "html")
        for rule in self._drop:
            with suppress(ValueError):  # a prefix that this page does not declare
                for match in parsed.css(rule.css) if rule.css else parsed.xpath(rule.xpath or "."):
                    self._remove(match.root, parsed.root)
        return parsed

    def _remove(self, element: Any, root: Any) -> None:
        """Removes and tallies an element that is not gone with one around it."""
        if iselement(element) and isinstance(element.tag, str) and root in (element, *element.iterancestors()):
            self.leave_out("dropped", " ".join("".join(element.itertext()).split()), element)
            remove(element)

    @cached_property
    def json(self) -> Any:
        """The parsed JSON body, or the front matter of a Markdown file. Raises ValueError if the body is not JSON, or
        the front matter broken.
        """
        if self.form == "markdown":
            if isinstance(self._front_matter_and_prose[0], BrokenFrontMatter):
                raise self._front_matter_and_prose[0]
            return self._front_matter_and_prose[0]
        try:
            return parse_json(self.text if self._is_told else self.page.body)
        except UnicodeDecodeError:
            if self.encoding == "utf-8":  # UTF-8 with some invalid bytes, whose characters cannot be recovered
                raise
            return parse_json(self.text)

    @property
    def lines(self) -> list[bytes]:
        """The body as UTF-8 lines, split at line feeds only, since JSON strings may contain the other line ends of
        Unicode.
        """
        mark = read_bom(self.page.body)[1] or b""
        return (self.text.encode() if self._is_told else self.page.body[len(mark) :]).split(b"\n")

    @property
    def _is_told(self) -> bool:
        """Whether a byte order mark or the source says that the body is in another encoding than UTF-8."""
        return (read_bom(self.page.body)[0] or self._encoding) not in (None, "utf-8")

    @property
    def prose(self) -> str:
        """The text without wrapping: Markdown without front matter and dialects, a document as HTML, any other text
        unchanged.
        """
        if self.form == "markdown":
            return self._front_matter_and_prose[1]
        return as_html(self.document) if self.is_document else self.text

    @property
    def _markup(self) -> str:
        match self.form:
            case "markdown":
                return render(self.prose)
            case "plain":
                return _paragraphs(self.prose)
            case _:
                return self.prose

    @cached_property
    def _front_matter_and_prose(self) -> tuple[dict[str, Any] | BrokenFrontMatter, str]:
        is_mdx = self.url.lower().endswith(".mdx")
        try:
            # line ends of old Macs
            values, prose = split_front_matter(self.text if "\n" in self.text else self.text.replace("\r", "\n"))
        except BrokenFrontMatter as error:
            return error, as_shown(error.below, is_mdx=is_mdx)
        return without_links(values), as_shown(prose, is_mdx=is_mdx)

    @property
    def is_document(self) -> bool:
        """Whether it is a PDF, an office file, an EPUB or a mail, which `document` has in elements. It has no links,
        and all of it is content.
        """
        return self.form in DOCUMENT_FORMS

    @cached_property
    def document(self) -> Document:
        """The document. Raises ValueError (Unreadable) with the reason; also of a limit that reading it exceeded."""
        assert self.is_document
        if isinstance(self._document, Unreadable):
            raise self._document
        return self._document

    @property
    def was_interrupted(self) -> bool:
        """Whether reading the document ended for what may be no fault of its own, so that another run may read it."""
        return self.is_document and isinstance(self._document, Interrupted)

    @cached_property
    def _document(self) -> "Document | Unreadable":
        try:
            document = read_document(self.page.body, self.form, self._limits, self._language)
        except Unreadable as error:  # kept, so that nobody reads the file again
            return error
        self.left_out.add_all(document.left_out)
        return document


def _paragraphs(text: str) -> str:
    """Plain text as HTML, with one `<p>` per block between empty lines."""
    return "".join(
        f"<p>{escape(paragraph.strip(), quote=False)}</p>\n"
        for paragraph in re.split(r"\n[^\S\n]*\n", text)
        if paragraph.strip()
    )


def _form(page: Page) -> Form:
    kind = media_type(page.content_type)
    if kind in _FORMS or kind in _PACKED_FORMS:
        return (_FORMS | _PACKED_FORMS)[kind]
    if kind.endswith("+json"):
        return "json"
    if kind.endswith("+xml"):
        return "xml"
    if not kind and page.body[:256].lstrip().startswith(b"<"):
        return "html"
    return "plain"


def parse_json(text: str | bytes) -> Any:
    """Parses strict JSON.

    Raises ValueError for invalid JSON, NaN, Infinity, floats out of range, integers of more than 1,000 digits, and more
    than 100 levels of nesting. Unpaired surrogates, which JSON can escape but UTF-8 cannot encode, become U+FFFD.
    """
    try:
        value = json.loads(text, parse_constant=_not_json, parse_float=_finite, parse_int=_integer)
        written = text if isinstance(text, str) else text.decode("utf-8", "replace")
        if written.count("[") + written.count("{") > _MAX_DEPTH and _is_deeper(value, _MAX_DEPTH):
            raise ValueError("nested too deep")
        return _whole_characters(value) if _SURROGATE_ESCAPE.search(written) else value
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether a JSON value is nested deeper than `levels`; the recursive functions that clean and write it must not
    exhaust the stack.
    """
    layer = [value]
    for _ in range(levels + 1):
        layer = [
            inner
            for outer in layer
            if isinstance(outer, list | dict)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not layer:
            return False
    return True


def _not_json(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _whole_characters(value: Any) -> Any:
    """The value with unpaired surrogates replaced, since no encoding can write them."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_whole_characters(v) for v in value]
    if isinstance(value, dict):
        return {_whole_characters(k): _whole_characters(v) for k, v in value.items()}
    return value


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is too large a number")
    return number


def _integer(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"a number of {len(text)} digits is too large")
    return int(text)
