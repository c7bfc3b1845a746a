"""A page's bytes as something to read and to select on: decoded, and parsed once when first asked for."""

import json
import math
import re
from functools import cached_property
from html import escape
from typing import Any, Literal, NoReturn

import parsel
from w3lib.encoding import read_bom
from w3lib.html import get_base_url

from almanac.schemas.items import Page
from almanac.spiders.reading.decode import decode_markup, decode_text, is_binary
from almanac.spiders.reading.docx import read_docx
from almanac.spiders.reading.markdown import render, split_front_matter
from almanac.spiders.reading.markup import parse_markup
from almanac.spiders.reading.pdf import PdfText, read_pdf

Form = Literal["html", "xml", "json", "jsonl", "csv", "markdown", "plain", "pdf", "docx"]

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
# What files may be and a crawl does not ask for.
_PACKED_FORMS: dict[str, Form] = {
    "application/pdf": "pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
}
_MAX_DEPTH = 100  # levels of a JSON value
_NOT_PROSE = frozenset({"text/css", "text/javascript", "text/ecmascript", "text/calendar", "text/vcard"})

_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_DIGITS = 1000
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def media_type(content_type: str) -> str:
    """`text/html` of `Text/HTML; charset=utf-8`."""
    return content_type.partition(";")[0].strip().lower()


def is_text_type(content_type: str) -> bool:
    """Whether a page of this type is worth storing: HTML, XML, JSON and plain text are, images and archives are not."""
    kind = media_type(content_type)
    return kind in _FORMS or kind.endswith(("+xml", "+json")) or (kind.startswith("text/") and kind not in _NOT_PROSE)


def looks_like_text(body: bytes) -> bool:
    """A guess for pages that name no type: text has no NUL, unless a byte order mark announces wide characters."""
    return not is_binary(body) and (read_bom(body)[0] is not None or b"\0" not in body[:2048])


class Content:
    """A page, parsed on demand. What asks for the inside of a damaged file gets a ValueError that says what is wrong with it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.url = page.url
        self.form = _form(page)

    @cached_property
    def _decoded(self) -> tuple[str, str]:
        return decode_markup(self.page.body, self.page.content_type) if self.form in ("html", "xml") else decode_text(self.page.body, self.page.content_type)

    @property
    def encoding(self) -> str:
        return self._decoded[0]

    @property
    def text(self) -> str:
        return self._decoded[1]

    @cached_property
    def base_url(self) -> str:
        """What relative links on the page are relative to."""
        try:
            return get_base_url(self.text[:4096], self.url) if self.form == "html" else self.url
        except ValueError:  # <base href> is no URL
            return self.url

    @property
    def has_markup(self) -> bool:
        """Whether `selector` finds elements: on what is rows of values, it has nothing to read."""
        return self.form not in ("json", "jsonl", "csv")

    @cached_property
    def selector(self) -> parsel.Selector:
        return parse_markup(self._markup, "xml" if self.form == "xml" else "html")

    @cached_property
    def json(self) -> Any:
        """The parsed JSON body, or what a Markdown file says of itself at its head; ValueError where there is none."""
        if self.form == "markdown":
            return self._front_matter_and_prose[0]
        try:
            return parse_json(self.page.body)
        except UnicodeDecodeError:
            if self.encoding == "utf-8":  # but for some bytes: nobody can tell which characters they were
                raise
            return parse_json(self.text)

    @property
    def lines(self) -> list[bytes]:
        """The body in UTF-8, cut at its line feeds alone: a JSON string may hold what else Unicode calls a line's end."""
        encoding, mark = read_bom(self.page.body)
        body = self.page.body[len(mark or b"") :]
        return (body if encoding in (None, "utf-8") else body.decode(encoding, "replace").encode()).split(b"\n")

    @property
    def prose(self) -> str:
        """What a reader reads: Markdown without its front matter, a PDF's paragraphs, a DOCX file as HTML, any other text as it is."""
        match self.form:
            case "markdown":
                return self._front_matter_and_prose[1]
            case "pdf":
                return self.pdf.text
            case "docx":
                return self._docx
            case _:
                return self.text

    @property
    def _markup(self) -> str:
        match self.form:
            case "markdown":
                return render(self.prose)
            case "plain" | "pdf":
                return _paragraphs(self.prose)
            case _:
                return self.prose

    @cached_property
    def _front_matter_and_prose(self) -> tuple[dict[str, Any], str]:
        return split_front_matter(self.text)

    @cached_property
    def pdf(self) -> PdfText:
        return read_pdf(self.page.body)

    @cached_property
    def _docx(self) -> str:
        return read_docx(self.page.body)


def _paragraphs(text: str) -> str:
    """Text as HTML: a paragraph for what stands between empty lines."""
    return "".join(f"<p>{escape(paragraph.strip(), quote=False)}</p>\n" for paragraph in re.split(r"\n[^\S\n]*\n", text) if paragraph.strip())


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
    """Strict JSON: NaN, Infinity and numbers too large to keep are none. Raises ValueError, also for what is nested deeper than 100 levels.

    Half of a surrogate pair, which JSON can write and UTF-8 cannot, becomes U+FFFD.
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
    """Whether a value has more than so many levels. What cleans and writes it walks by recursion, and must come to its end."""
    layer = [value]
    for _ in range(levels + 1):
        layer = [inner for outer in layer if isinstance(outer, list | dict) for inner in (outer.values() if isinstance(outer, dict) else outer)]
        if not layer:
            return False
    return True


def _not_json(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _whole_characters(value: Any) -> Any:
    """Half of a surrogate pair is no character: no encoding could write it down again."""
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
