"""Finds out what a host answers to a URL that it cannot have, so that a page that shows just that counts as gone: a
"soft 404".

Some sites answer status 200 whatever they are asked for, with a page that says so or with their home page. Each host is
asked once a crawl, when the first page has arrived that may be such an answer; it is asked for as any page is, by the
same robots.txt, pace and limits. The pages wait for what it says.

Where the answer is no page, as it should be, one part of the site may still answer otherwise, such as its shop: the
first places of the host (folders, and pages that are asked with a query) are asked for a made-up URL of their own.

Other sites have a page for whatever they are asked for. A page that shows the same but for its own URL, and does not
say that something is not there, is doubtful: it waits until other pages tell whether the host has any of its own.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import scrapy
from scrapy.http import Response

from almanac.schemas.crawl_outcome import UnknownUrl
from almanac.schemas.hashing import sha256
from almanac.schemas.items import Page
from almanac.spiders.crawling.frontier import Waiting
from almanac.spiders.crawling.problems import content_type_of, document_of, problem_of
from almanac.spiders.reading.content import Content
from almanac.spiders.selecting.links import UrlPolicy
from almanac.spiders.selecting.same_page import Shown, what_is_shown
from almanac.spiders.selecting.urls import with_parameter

_INDEX = re.compile(r"index\.\w+$")
_MOST_PLACES = 20  # of a host that are asked
_MOST_DOUBTFUL = 100  # pages that wait
_MANY = 4  # doubtful pages for each other one: more, and the host has a page for whatever it is asked for
Arrived = tuple[Response, Waiting]


@dataclass(slots=True)
class _Host:
    """What is known of a host, or of a place on it.

    Attributes:
        url: the made-up URL.
        place: the folder, or the path and the names of a query, that the URL stands for; empty for the host.
        is_answered: whether pages need to wait no longer.
        shown: hash of what the made-up URL shows; empty if it is no page, or not known.
        lands: the URL that the made-up one redirects to; itself if it does not.
        right: the canonical URL that its page declares.
        waiting: pages that arrived before the answer.
        doubtful: pages that show the same but for their URL.
        others: number of pages that show something else, those known from before included.
        has_all: whether the host has a page for whatever it is asked for; None until that is decided.
    """

    url: str
    place: str = ""
    is_answered: bool = False
    shown: str = ""
    lands: str = ""
    right: str | None = None
    waiting: list[Arrived] = field(default_factory=list)
    doubtful: list[Arrived] = field(default_factory=list)
    others: int = 0
    has_all: bool | None = None
    report: UnknownUrl | None = None


class UnknownUrls:
    """What the hosts of a crawl answer to made-up URLs. `known` is `shown` of the last crawl."""

    def __init__(self, policy: UrlPolicy, known: Mapping[str, str], *, spares_starts: bool = True) -> None:
        self._policy = policy
        self._known = known
        self._spares_starts = spares_starts
        self._hosts: dict[str, _Host] = {}  # by name; of a place, host and place
        self._others: Counter[str] = Counter()  # pages known from before, by host
        self._starts: dict[str, tuple[str, Shown]] = {}  # host → its first start page, and what it shows

    @property
    def shown(self) -> dict[str, str]:
        """Name of a host or place → hash of what it shows for a made-up URL, if anything; empty where it has a page for
        whatever it is asked for.
        """
        return {
            name: "" if host.has_all else host.shown for name, host in self._hosts.items() if host.shown or host.has_all
        }

    @property
    def reports(self) -> list[UnknownUrl]:
        """The made-up URLs that were answered with a page."""
        return [host.report for host in self._hosts.values() if host.report is not None]

    def ask_before(self, response: Response, waiting: Waiting) -> list[scrapy.Request] | None:
        """Holds a page until its host and its place have answered, and returns the request for that, once; None if the
        page need not wait.

        Start URLs, the home page, pages that yield no item, and pages known from before need not.
        """
        names = self._names(response, waiting)
        if not self._may_be_none(response, waiting):
            for name, _ in names:
                self._others[name] += _is_known(response) and self._is_item(response, waiting)
            return None
        for name, place in names:
            host = self._hosts.get(name)
            if host is None:
                if place and sum(key.startswith(f"{names[0][0]} ") for key in self._hosts) >= _MOST_PLACES:
                    return None
                made_up = (
                    self._made_up_in(self._asked_url(response, waiting))
                    if place
                    else self._made_up(self._policy.canonical(response.url))
                )
                is_asked = made_up is None or any(other_host.url == made_up for other_host in self._hosts.values())
                host = self._hosts[name] = _Host(made_up or "", place, is_answered=is_asked)
                if not is_asked:
                    host.waiting.append((response, waiting))
                    return [scrapy.Request(host.url, cb_kwargs={"made_up": name}, meta={"dont_retry": True})]
            if not host.is_answered:
                host.waiting.append((response, waiting))
                return []
            if host.shown:
                return None
        return None

    def note_start(self, content: Content) -> None:
        """Notes a start page, to tell whether it is what its host shows for whatever it does not know."""
        if _host(content.url) not in self._starts:
            self._starts[_host(content.url)] = (content.url, what_is_shown(content, self._policy.source))

    def take(self, name: str, response: Response | None) -> Iterator[Arrived]:
        """Notes the answer of a host, None if it gave none, and yields the pages that waited for it."""
        host = self._hosts[name]
        host.is_answered = True
        host.has_all = True if self._known.get(name) == "" else None
        if response is None or response.status >= 500 or response.status in (408, 429):
            host.shown, host.lands = self._known.get(name, ""), host.url
        elif problem_of(response) is None:
            url = self._policy.canonical(response.url)
            content = Content(
                Page(url, response.body, content_type=content_type_of(response, ()) or "", requested_url=host.url)
            )
            host.shown = what_is_shown(content, self._policy.source).bare
            host.lands, host.right = url, self._policy.stated_address(content)
            start, shows = self._starts.get(name, ("", Shown()))
            host.report = UnknownUrl(url=host.url, shows=start if host.shown and host.shown in shows.ways else None)
        waited, host.waiting = host.waiting, []
        yield from waited

    @property
    def doubtful(self) -> int:
        """Number of pages that wait until it is decided what they are."""
        return sum(len(host.doubtful) for host in self._hosts.values())

    def waits(self, response: Response, waiting: Waiting) -> bool:
        """Whether the page is doubtful, and waits from now on."""
        host, likeness = self._likeness(response, waiting)
        if host is None or likeness != "doubtful" or host.has_all is not None:
            return False
        host.doubtful.append((response, waiting))
        return True

    def decided(self, *, at_once: bool) -> list[Arrived]:
        """The pages that need to wait no longer, since it is decided what their host's doubtful pages are: `at_once` or
        when enough of them wait.
        """
        decided = []
        for name, host in self._hosts.items():
            if host.doubtful and (at_once or len(host.doubtful) >= _MOST_DOUBTFUL):
                host.has_all = len(host.doubtful) > _MANY * (host.others + self._others[name])
                decided += host.doubtful
                host.doubtful = []
        return decided

    def problem_of(self, response: Response, waiting: Waiting) -> tuple[str, str] | None:
        """(reason, detail) of a page that shows what its host shows for a made-up URL; None of any other, which
        counts.
        """
        host, likeness = self._likeness(response, waiting)
        if host is None:
            return None
        if likeness == "none" or (likeness == "doubtful" and host.has_all):
            host.others += likeness == "none"
            return None
        if host.report is not None:
            host.report.pages += 1
        return "gone", f"it shows what the site shows for {host.url}, which is made up"

    def _likeness(
        self, response: Response, waiting: Waiting
    ) -> tuple[_Host | None, Literal["none", "doubtful", "same"]]:
        """How much the page is like what its host shows for a made-up URL. The host is None where the page is not
        compared.
        """
        hosts = (self._hosts.get(name) for name, _ in self._names(response, waiting))
        host = next((host for host in hosts if host is not None and host.shown), None)
        if host is None or not self._may_be_none(response, waiting):
            return None, "none"
        url = self._policy.canonical(response.url)
        if url in (host.lands, host.right) or _is_index(url, host.place):  # the page itself that unknown URLs are given
            return None, "none"
        content = Content(
            Page(url, response.body, content_type=self._content_type(response), requested_url=waiting.url)
        )
        shown = what_is_shown(content, self._policy.source)
        if host.shown not in shown.ways:
            return host, "none"
        if "?" in host.place:  # for values that it does not know a page may show what it shows for its default
            return host, "same" if shown.says_gone else "none"
        return host, "same" if shown.says_gone or shown.plain == host.shown else "doubtful"

    def _may_be_none(self, response: Response, waiting: Waiting) -> bool:
        return not _is_known(response) and self._is_item(response, waiting)

    def _content_type(self, response: Response) -> str:
        return content_type_of(response, self._policy.source.documents) or ""

    def _is_item(self, response: Response, waiting: Waiting) -> bool:
        """Whether items may be taken from a page that is neither a start page nor the home page, and no document."""
        url = self._policy.canonical(response.url)
        is_start = self._spares_starts and (self._policy.is_start(url) or self._policy.is_start(waiting.url))
        is_home = urlsplit(url).path == "/" and not urlsplit(url).query
        return (
            not (is_start or is_home)
            and document_of(response) is None
            and self._policy.yields_items(url, in_chain=waiting.chain is not None)
        )

    def _asked_url(self, response: Response, waiting: Waiting) -> str:
        """The URL that was asked for; where a redirect led to another host, the one there."""
        return waiting.url if _host(waiting.url) == _host(response.url) else self._policy.canonical(response.url)

    def _names(self, response: Response, waiting: Waiting) -> list[tuple[str, str]]:
        """(name, place) under which the answers are kept that a page is compared with: those of its host and of its
        place.

        A page of a pagination has no place, and the folder in which the host was asked is none.
        """
        host, place = (
            _host(response.url),
            self._place(self._asked_url(response, waiting)) if waiting.chain is None else "",
        )
        known_host = self._hosts.get(host)
        if known_host is not None and place == _folder(urlsplit(known_host.url).path):
            place = ""
        return [(host, ""), (f"{host} {place}", place)] if place else [(host, "")]

    def _place(self, url: str) -> str:
        """The folder of a URL, or its path and the names of its query; empty where made-up values may be pages, as of a
        pagination.
        """
        parts = urlsplit(url)
        if not parts.query:
            return _folder(parts.path)
        names = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
        return (
            f"{parts.path}?{'&'.join(names)}" if names and self._policy.source.pagination.parameter not in names else ""
        )

    def _made_up_in(self, url: str) -> str | None:
        """A URL in the place of another that no page has and the policy lets through; None if there is none."""
        word, number = made_up_names(_host(url))
        pairs = parse_qsl(urlsplit(url).query, keep_blank_values=True)
        if pairs:  # the last number, which may be an id, or else the last value
            name, value = next((pair for pair in reversed(pairs) if pair[1].isdigit()), pairs[-1])
            made_up = self._policy.canonical(with_parameter(url, name, number if value.isdigit() else word))
        else:
            made_up = _make_up_sibling(url)
        return made_up if self._policy.may_follow(made_up, "sitemap") and not self._policy.is_start(made_up) else None

    def _made_up(self, url: str) -> str | None:
        """A URL on the page's host that no page has and the policy lets through; None if there is none.

        It lies beside the start URL or, where only some pages yield items, beside one of those. It is the same in each
        crawl.
        """
        neighbours = [start for start in self._policy.source.start_urls if _host(start) == _host(url)][:1]
        neighbours = (
            [*neighbours, url]
            if self._policy.source.match is None and self._policy.source.listing is None
            else [url, *neighbours]
        )
        tried = [*map(_make_up_sibling, neighbours), _make_up_sibling(urlunsplit((*urlsplit(url)[:2], "/", "", "")))]
        allowed = [url for url in tried if self._policy.may_follow(url, "sitemap") and not self._policy.is_start(url)]
        return next((url for url in allowed if self._policy.may_be_item(url)), next(iter(allowed), None))


def _is_known(response: Response) -> bool:
    """Whether the page was judged by an earlier crawl: it comes from disk, or has not changed since."""
    stored = response.meta.get("stored")
    return bool(response.meta.get("from_disk")) or (stored is not None and stored.unchanged)


def _folder(path: str) -> str:
    """The folder in whose place `_make_up_sibling` makes up a URL."""
    return _split(path)[0] + "/"


def _is_index(url: str, folder: str) -> bool:
    """Whether a URL is the page of a folder itself."""
    path = urlsplit(url).path
    return _INDEX.sub("", path).rstrip("/") == folder.rstrip("/")


def _split(path: str) -> tuple[str, str, str]:
    """Folder, name and ending of a path: `/a/b/index.html` is the page `b` of the folder `/a`."""
    index, ending = _INDEX.search(path), ""
    if index is not None or (path.endswith("/") and path.count("/") > 2):
        path, ending = _INDEX.sub("", path).rstrip("/"), f"/{index[0] if index is not None else ''}"
    folder, _, name = path.rpartition("/")
    return folder, name, ending


def _host(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def made_up_names(host: str) -> tuple[str, str]:
    """The word and the number that stand in made-up URLs of a host (`https://x.test`)."""
    digest = sha256(host)
    return f"no-such-page-{digest[:12]}", str(100_000_000 + int(digest[:8], 16) % 899_999_999)


def _make_up_sibling(url: str) -> str:
    """A made-up URL in the place of another: a number where that has one, else a word, with the same suffix."""
    parts = urlsplit(url)
    folder, name, ending = _split(parts.path)
    suffix = re.search(r"\.\w{1,5}$", name)
    word, number = made_up_names(_host(url))
    word = number if name.isdigit() else word
    return urlunsplit((*parts[:2], f"{folder}/{word}{suffix[0] if suffix else ''}{ending}", "", ""))
