"""Documents that pages of a site lead to: those that the declaration leaves out, by type, and what links call the
others.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import get_args

from almanac.schemas.crawl_outcome import NotFetched
from almanac.schemas.declaration.source import Fetched, SiteSource

_EXAMPLES = 2
READABLE = frozenset(get_args(Fetched)) - {"html"}
# What links say whatever they lead to. A page says it in its own language; a text that several documents share says
# nothing in any.
_SAYS_NOTHING = re.compile(
    r"(?:[\W\d_]|\b(?:download|downloads|herunterladen|télécharger|telecharger|descargar|scarica|baixar|pobierz|tả"
    r"i xuống|tải về|הורדה|here|hier|ici|aquí|qui"
    r"|click|klick|klicken|cliquez|sie|clic|this|the|a|an|as|to|for|of|file|files|datei|fichier|archivo|docume"
    r"nt|dokument|documento|pdf|docx?|word|read|view|open"
    r"|see|show|more|mehr|link|full|text|version|format|print|[kmg]i?b|bytes?|lesen|öffnen|ansehen|voir|lire|v"
    r"er|abrir|leggi|apri)\b)*",
    re.IGNORECASE,
)
_LONGEST = 200


def remedy(source: SiteSource, kind: str) -> str:
    """What to declare so that documents of a type are fetched, or why they cannot be."""
    if kind not in READABLE:
        return "this type cannot be read"
    if kind not in source.fetch:
        return f"fetch: [{', '.join([*source.fetch, kind])}]"
    if source.match is not None:
        return "`match` does not match their URLs, or they are beyond what `follow` leads to"
    if source.listing is not None:
        return "`listing` is declared: only what its cards link to is fetched, or what `follow.allow` and `match` name"
    return "links are not followed here: add `follow.allow`"


def not_fetched_by_type(source: SiteSource, kinds: Mapping[str, str]) -> list[NotFetched]:
    """Groups documents, given as URL → type, by their type."""
    urls_by_kind = defaultdict(list)
    for url, kind in kinds.items():
        urls_by_kind[kind].append(url)
    groups = [
        NotFetched(type=kind, documents=len(urls), urls=sorted(urls)[:_EXAMPLES], remedy=remedy(source, kind))
        for kind, urls in urls_by_kind.items()
    ]
    return sorted(groups, key=lambda group: (-group.documents, group.type))


def describe_not_fetched(not_fetched: Iterable[NotFetched]) -> str | None:
    """The files left out in one sentence; None where there are none."""
    parts = [f"{group.documents} {group.type} ({group.remedy})" for group in not_fetched]
    return f"files that are not fetched: {'; '.join(parts)}" if parts else None


class LinkTexts:
    """What the links of a crawl call the documents that they lead to. Whatever the order of pages and documents, the
    names are the same.
    """

    def __init__(self) -> None:
        self._texts: dict[str, Counter[str]] = {}
        self._documents: dict[str, str] = {}  # key of a document → the URL that it is stored under
        self._leads: dict[str, str] = {}  # key of a URL → key of the one that it redirects to

    def note(self, links: Iterable[tuple[str, str]]) -> None:
        """Notes the links of a page: keys of URLs, and the links' texts."""
        for key, text in set(links):
            shown = " ".join(text.split())
            if 0 < len(shown) <= _LONGEST and not _SAYS_NOTHING.fullmatch(shown):
                self._texts.setdefault(key, Counter())[shown] += 1

    def arrived(self, key: str, url: str) -> None:
        """Notes a document that arrived under a key, and the URL that it is stored under."""
        self._documents[key] = url

    def leads(self, key: str, target: str) -> None:
        """Notes that a URL redirects to another one, which was found before; both are given as keys."""
        self._leads[key] = target

    def names(self) -> dict[str, str]:
        """URL of each document that arrived → the text that most pages link to it with; empty where there is none, or
        where other documents share it.
        """
        called = {url: Counter[str]() for url in self._documents.values()}
        for key, texts in self._texts.items():
            if (url := self._document_of(key)) is not None:
                called[url] += texts
        chosen = {
            url: min(texts, key=lambda text: (-texts[text], text)) if texts else "" for url, texts in called.items()
        }
        shared = Counter(chosen.values())
        return {url: text if shared[text] == 1 else "" for url, text in chosen.items()}

    def _document_of(self, key: str) -> str | None:
        """The URL of the document that a key leads to, by redirects, too; None where it leads to none."""
        met: set[str] = set()
        while key not in self._documents and key in self._leads and key not in met:
            met.add(key)
            key = self._leads[key]
        return self._documents.get(key)
