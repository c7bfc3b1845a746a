"""Finds out what a host answers to a URL that it cannot have, so that a page that shows just that counts as gone: a "soft 404".

Some sites answer status 200 whatever they are asked for, with a page that says so or with their home page. Each host is asked once a crawl, when the first
page has arrived that may be such an answer; it is asked for as any page is, by the same robots.txt, pace and limits. The pages wait for what it says.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

import scrapy
from scrapy.http import Response

from almanac.schemas.hashing import sha256
from almanac.schemas.items import Page
from almanac.schemas.reports import UnknownUrl
from almanac.spiders.crawling.frontier import Waiting
from almanac.spiders.crawling.problems import header, problem_of
from almanac.spiders.reading.content import Content
from almanac.spiders.selecting.links import UrlPolicy
from almanac.spiders.selecting.same_page import what_is_shown

_INDEX = re.compile(r"index\.\w+$")
Arrived = tuple[Response, Waiting]


@dataclass(slots=True)
class _Host:
    """What is known of a host.

    Attributes:
        url: the made-up URL.
        is_answered: whether pages need to wait no longer.
        shown: hash of what the made-up URL shows; empty if it is no page, or not known.
        lands: the URL that the made-up one redirects to; itself if it does not.
        right: the canonical URL that its page declares.
        waiting: pages that arrived before the answer.
    """

    url: str
    is_answered: bool = False
    shown: str = ""
    lands: str = ""
    right: str | None = None
    waiting: list[Arrived] = field(default_factory=list)
    report: UnknownUrl | None = None


class UnknownUrls:
    """What the hosts of a crawl answer to made-up URLs. `known` are the hashes that the last crawl found, by host: used where a host gives no answer."""

    def __init__(self, policy: UrlPolicy, known: Mapping[str, str], *, spares_starts: bool = True) -> None:
        self._policy = policy
        self._known = known
        self._spares_starts = spares_starts
        self._hosts: dict[str, _Host] = {}
        self._starts: dict[str, tuple[str, list[str]]] = {}  # host → its first start page, and what it shows

    @property
    def shown(self) -> dict[str, str]:
        """Host → hash of what it shows for a made-up URL, of the hosts that show anything."""
        return {name: host.shown for name, host in self._hosts.items() if host.shown}

    @property
    def reports(self) -> list[UnknownUrl]:
        """The made-up URLs that were answered with a page."""
        return [host.report for host in self._hosts.values() if host.report is not None]

    def ask_before(self, response: Response, waiting: Waiting) -> list[scrapy.Request] | None:
        """Holds a page until its host has answered, and returns the request for that, once; None if the page need not wait.

        Start URLs, the home page, pages that yield no item, and pages known from before need not.
        """
        if not self._may_be_none(response, waiting):
            return None
        name = _host(response.url)
        host = self._hosts.get(name)
        if host is None:
            made_up = self._made_up(self._policy.canonical(response.url))
            host = self._hosts[name] = _Host(made_up or "", is_answered=made_up is None)
        elif not host.is_answered:
            host.waiting.append((response, waiting))
            return []
        if host.is_answered:
            return None
        host.waiting.append((response, waiting))
        return [scrapy.Request(host.url, cb_kwargs={"made_up": name}, meta={"dont_retry": True})]

    def note_start(self, content: Content) -> None:
        """Notes a start page, to tell whether it is what its host shows for whatever it does not know."""
        if _host(content.url) not in self._starts:
            self._starts[_host(content.url)] = (content.url, what_is_shown(content, self._policy.source))

    def take(self, name: str, response: Response | None) -> Iterator[Arrived]:
        """Notes the answer of a host, None if it gave none, and yields the pages that waited for it."""
        host = self._hosts[name]
        host.is_answered = True
        if response is None or response.status >= 500 or response.status in (408, 429):
            host.shown, host.lands = self._known.get(name, ""), host.url
        elif problem_of(response) is None:
            url = self._policy.canonical(response.url)
            content = Content(Page(url, response.body, content_type=header(response, "Content-Type") or "", requested_url=host.url))
            host.shown = next(iter(what_is_shown(content, self._policy.source)), "")
            host.lands, host.right = url, self._policy.stated_address(content)
            start, shows = self._starts.get(name, ("", []))
            host.report = UnknownUrl(url=host.url, shows=start if host.shown and host.shown in shows else None)
        waited, host.waiting = host.waiting, []
        yield from waited

    def problem_of(self, response: Response, waiting: Waiting) -> tuple[str, str] | None:
        """(reason, detail) of a page that shows what its host shows for a made-up URL; None of any other."""
        host = self._hosts.get(_host(response.url))
        if host is None or not host.shown or not self._may_be_none(response, waiting):
            return None
        url = self._policy.canonical(response.url)
        if url in (host.lands, host.right):  # the page itself that unknown URLs are given
            return None
        content = Content(Page(url, response.body, content_type=header(response, "Content-Type") or "", requested_url=waiting.url))
        if host.shown not in what_is_shown(content, self._policy.source):
            return None
        if host.report is not None:
            host.report.pages += 1
        return "gone", f"it shows what the site shows for {host.url}, which is made up"

    def _may_be_none(self, response: Response, waiting: Waiting) -> bool:
        stored = response.meta.get("stored")
        if response.meta.get("from_disk") or (stored is not None and stored.unchanged):
            return False
        url = self._policy.canonical(response.url)
        is_start = self._spares_starts and (self._policy.is_start(url) or self._policy.is_start(waiting.url))
        is_home = urlsplit(url).path == "/" and not urlsplit(url).query
        return not (is_start or is_home) and self._policy.yields_items(url, in_chain=waiting.chain is not None)

    def _made_up(self, url: str) -> str | None:
        """A URL on the page's host that no page has and the policy lets through; None if there is none.

        It lies beside the start URL or, where only some pages yield items, beside one of those. It is the same in each crawl.
        """
        beside = [start for start in self._policy.source.start_urls if _host(start) == _host(url)][:1]
        beside = [*beside, url] if self._policy.source.match is None and self._policy.source.listing is None else [url, *beside]
        tried = [*map(_beside, beside), _beside(urlunsplit((*urlsplit(url)[:2], "/", "", "")))]
        allowed = [one for one in tried if self._policy.may_follow(one, "sitemap") and not self._policy.is_start(one)]
        return next((one for one in allowed if self._policy.may_be_item(one)), next(iter(allowed), None))


def _host(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def made_up_names(host: str) -> tuple[str, str]:
    """The word and the number that stand in made-up URLs of a host (`https://x.test`)."""
    digest = sha256(host)
    return f"no-such-page-{digest[:12]}", str(100_000_000 + int(digest[:8], 16) % 899_999_999)


def _beside(url: str) -> str:
    """A made-up URL in the place of another: a number where that has one, else a word, with the same suffix."""
    parts = urlsplit(url)
    path, index = parts.path, _INDEX.search(parts.path)
    ending = ""
    if index is not None or (path.endswith("/") and path.count("/") > 2):
        path, ending = _INDEX.sub("", path).rstrip("/"), f"/{index[0] if index is not None else ''}"
    folder, _, name = path.rpartition("/")
    suffix = re.search(r"\.\w{1,5}$", name)
    word, number = made_up_names(_host(url))
    word = number if name.isdigit() else word
    return urlunsplit((*parts[:2], f"{folder}/{word}{suffix[0] if suffix else ''}{ending}", "", ""))
