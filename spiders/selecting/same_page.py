"""Compares what two pages show: their visible text and what the declared rules read, without what differs each time a
page is sent.

Bytes would not do: the same not-found page names the URL that was asked for, the time and the id of the request.
"""

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import parsel

from almanac.schemas.declaration.field_rules import FieldRule, Selector
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.hashing import sha256
from almanac.spiders.reading.content import Content
from almanac.spiders.selecting.embedded import find

# Not "outside of <head>": where <body> is left out, as it may be, the parser takes <main> and others for a part of
# that.
_SHOWN = (
    "//text()[normalize-space() and not(ancestor::script or ancestor::style or ancestor::noscript or "
    "ancestor::template or parent::title[parent::head])]"
)
_TITLE = "//head/title/text()"
# A short word or a number of the URL may be all that tells two pages apart, unless they say that something is not
# there.
_TELLING = re.compile(r"\d+|\w{1,3}")
_NOT_THERE = re.compile(
    r"not? (?:be )?found|gibt es nicht|\b404\b|\b410\b|(?:not|n.t) (?:exist|available)|no longer|no such"
    r"|nicht (?:gefunden|vorhanden|verfügbar)|existiert nicht|introuvable"
    r"|n.existe|n.est plus|no (?:se )?(?:ha )?(?:encontrad|existe|disponible)|non (?:è )?(?:stat\w "
    r")?(?:trovat|esiste|disponibil)"
    r"|không (?:tìm thấy|tồn tại|có)"
    r"|לא (?:נמצא|קיימ)|niet (?:gevonden|beschikbaar)|bestaat niet|não (?:foi )?(?:encontrad|existe)|nie "
    r"(?:znaleziono|istnieje)|nenalezen|neexistuj"
    r"|не (?:найден|существу)|hittades inte|ikke f[ua]n|ei löyd|nem "
    r"található|bulunamadı|存在しません|見つかりません|不存在|未找到|찾을 수 없|غير موجود"
)
# Times of day, ids of requests, nonces, durations and epochs. Dates are not: both pages are of the same day. Nor are
# short numbers, which may be all that tells two pages apart.
_VOLATILE = re.compile(
    r"\d{4}-\d\d-\d\d[t ]\d\d:\d\d\S*|\b\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d+)?(?:\s?[ap]\.?m\b\.?)?|\b0[.,]\d{3,}\b"
    r"|\b\d{9,}(?:[.,]\d+)?\b|\b\d+[.,]\d+\s?(?:ms|sec|secs|seconds?|secondes?|sekunden|segundos|secondi)\b"
    r"|\b(?=[a-f-]{0,40}\d)[0-9a-f](?:-?[0-9a-f]){7,}+\b|\b(?=\w*\d)(?=\w*[a-z])\w{16,}+\b"
)


@dataclass(frozen=True, slots=True)
class Shown:
    """Hashes of what a page shows, all empty if it shows no text.

    Attributes:
        bare: without its own URL.
        ways: as it stands, without its own URL, and without that URL's path alone: of two pages that show the same, one
            of these is the other's `bare`, whatever words of a URL the page has for other reasons.
        says_gone: whether the page says, in one of many languages, that something is not there.
    """

    bare: str = ""
    ways: tuple[str, ...] = ()
    says_gone: bool = False

    @property
    def plain(self) -> str:
        """The hash of the page as it stands."""
        return self.ways[0] if self.ways else ""


def what_is_shown(content: Content, source: SiteSource) -> Shown:
    """What a page shows, and what the rules of its source read on it."""
    text = _visible(content)
    if not text.strip():
        return Shown()
    text = _folded(
        "\n".join(
            [text, *content.selector.xpath(_TITLE).getall()[:1], *_read(content, source)]
            if content.form == "html"
            else [text]
        )
    )
    says_gone = _NOT_THERE.search(text) is not None
    url, path, words = _names(content, may_be_short=says_gone)
    without_path = _without(text, [url, *([path] if path != "/" else [])])
    bare = _hash(_without(without_path, words))
    return Shown(bare, (_hash(text), bare, _hash(without_path)), says_gone)


def _hash(text: str) -> str:
    return sha256(_settled(text))


def _visible(content: Content) -> str:
    return " ".join(content.selector.xpath(_SHOWN).getall()) if content.form == "html" else content.text


def _read(content: Content, source: SiteSource) -> Iterator[str]:
    """What declared rules find beside visible text: attributes, and data in scripts. A page that scripts draw may show
    nothing else of its own.
    """
    rules: list[Selector | FieldRule] = [source.each] if source.each is not None else []
    for rule in [*rules, *source.declared_fields().values()]:
        where = rule.each if isinstance(rule, FieldRule) and rule.each is not None else rule
        if where.css is None and where.xpath is None and where.json_ is None:
            continue
        for match in find(content, where):
            yield _plain(match)


def _plain(match: Any) -> str:
    return (
        str(match.get())
        if isinstance(match, parsel.Selector)
        else json.dumps(match, sort_keys=True, ensure_ascii=False, default=str)
    )


def _names(content: Content, *, may_be_short: bool) -> tuple[str, str, list[str]]:
    """The page's URL, its path, and its own part of the path and the query as they may be written on the page, the
    longest first.
    """
    url = _folded(unquote(content.page.requested_url or content.url))
    parts = urlsplit(url)
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    words = {
        path.rstrip("/").rpartition("/")[2],
        parts.path.rstrip("/").rpartition("/")[2],
        *re.split(r"[&=]", parts.query),
    } - {""}
    words |= {word.rpartition(".")[0] for word in words if "." in word}
    words |= {re.sub(r"[-_+]+", " ", word).strip() for word in words}
    return (
        url,
        path,
        sorted(
            (word for word in words if word and (may_be_short or not _TELLING.fullmatch(word))),
            key=lambda word: (-len(word), word),
        ),
    )


def _without(text: str, names: list[str]) -> str:
    for name in names:
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "", text)
    return text


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def _settled(text: str) -> str:
    return " ".join(_VOLATILE.sub("", text).split())
