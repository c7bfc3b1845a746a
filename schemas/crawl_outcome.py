"""What became of the pages and texts of a source, as runs report it."""

from typing import Literal, get_args

from pydantic import BaseModel, Field

from almanac.schemas.left_out import LeftOut

TEXTS_REPORTED = 20  # of a source
FOLDERS_REPORTED = 20  # of a limit
Limit = Literal["pages", "bytes", "seconds", "depth"]
LIMITS: tuple[Limit, ...] = get_args(Limit)
BY_ELEMENT = "it has "  # how the detail of a page begins that is gone by a declared element
DECLARE_BODY = "say where the text of these pages is: body: {css: …}; almanac test-url KB URL shows what a page gives"


class PageCounts(BaseModel):
    """Outcome of the pages of a run."""

    fetched: int = 0  # received now, or earlier in a crawl that was interrupted
    unchanged: int = 0  # not sent again by the server (304)
    failed: int = 0  # carried over from the previous crawl
    gone: int = 0  # answered 404 or 410, or with what the site shows for a made-up URL
    vanished: int = 0  # in the last run's crawl, but not reachable by any link any more
    refused: int = 0  # excluded by the declaration, a limit or the page itself, with the reason among the failures

    @property
    def present(self) -> int:
        """Number of pages available: fetched or unchanged."""
        return self.fetched + self.unchanged

    def __add__(self, other: "PageCounts") -> "PageCounts":
        return PageCounts(**{name: getattr(self, name) + getattr(other, name) for name in PageCounts.model_fields})


class FailedPage(BaseModel):
    """A page or sitemap that could not be fetched, or a page whose links could not be read.

    `reason` is one of gone, server_error, timeout, unreachable, not_drawn (by the browser), not_json (where rules read
    JSON) and error, or, for a page excluded by the declaration or a limit, refused_by_robots, denied, off_site,
    private_address, forgotten, too_large or not_text; of files, "unsupported format .xyz", outside_root, broken_link,
    link_loop, not_a_file or same_name. A page that arrived and yields no item, while its links are followed, is noindex
    (it asks not to be indexed), forwards (it sends its visitors on at once), feed or sitemap (a list of links).
    """

    url: str
    reason: str
    status: int | None = None
    detail: str = ""


class SharedText(BaseModel):
    """A main text that different pages have in common: how many pages, and the URLs of the first two. Each is kept,
    with the text that it alone has.
    """

    pages: int
    urls: list[str]


class SourceTexts(BaseModel):
    """What extraction made of a source's pages. Lists are bounded to the first TEXTS_REPORTED; `shared_texts` begins
    with the most frequent.
    """

    without_text: int = 0  # pages without any text, where no `match` declares that they are items
    shared_texts: list[SharedText] = []
    pages_sharing_text: int = 0  # pages of all shared texts
    pages_with_little_kept: int = 0  # pages of which extraction kept less than a tenth of what is no navigation
    little_kept: list[str] = []  # their URLs
    characters: int = 0  # of the texts of its items
    # text that its pages have beside these, by the reason for which it was left out
    left_out: LeftOut = Field(default_factory=LeftOut)


class UnknownUrl(BaseModel):
    """A made-up URL that a site answers with a page, as if it had it. `pages` were dropped as gone because they show
    the same.

    `shows` is the start page that it is a copy of, which stays; None if it shows something else.
    """

    url: str
    shows: str | None = None
    pages: int = 0


class NotFetched(BaseModel):
    """Documents of one type that pages or sitemaps of a site lead to and that were not fetched: how many, the first
    two, and why or what to declare.
    """

    type: str
    documents: int
    urls: list[str]
    remedy: str


class LimitReached(BaseModel):
    """A limit of a source that kept a crawl from pages: how many known URLs were not fetched, and how many of them by
    folder (`core.url_folders`).

    Known are the URLs that links and sitemaps named, and those of the last crawl that this one did not come to. `depth`
    is among them only where the source does not declare it: a declared depth is what somebody wants of a crawl, and no
    accident.
    """

    source: str
    limit: Limit
    known_urls_not_fetched: int
    folders: dict[str, int] = {}


class CrawlOutcome(SourceTexts):
    """Outcome of the acquisition of one source, and what became of the texts of its pages.

    `finish` is `finished`; the limit that ended the crawl (`pages`, `bytes`, `seconds`); `partial` where only given
    URLs were requested; or `reused` where the pages of a previous crawl were used without any request. The declared
    depth does not end a crawl: links beyond it are counted in `beyond_depth`.
    """

    source: str
    crawl: str = ""  # id of the crawl whose pages the run reads: its own, or a previous one where nothing was requested
    finish: str = "finished"
    limits_reached: list[LimitReached] = []
    pages: PageCounts = PageCounts()
    counted: str = "pages"  # what `pages` counts: pages, files or rows
    kept: int = 0  # pages carried over from the previous crawl although this crawl did not get them
    vanished: list[str] = []  # URLs of pages dropped because no link leads to them any more
    failures: list[FailedPage] = []
    unknown_urls: list[UnknownUrl] = []  # at most one of each host and of its first places
    nofollow: int = 0  # pages whose plain links were not followed because they ask for that
    bytes: int = 0  # of the pages available
    beyond_depth: int = 0
    # pages that start pages link to, and that were not asked for because a listing or pagination is declared without
    # `follow.allow`
    unfollowed: int = 0
    not_fetched: list[NotFetched] = []  # documents, by type; the most frequent first
    unqueued: int = 0  # links dropped because the queue already had far more pages than the limit allows
