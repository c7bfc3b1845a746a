"""Fetches one page, or reads one file, and reports what it yields, and which rule gave each field: the result of
`almanac test-url`.
"""

import tempfile
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from almanac.schemas.crawl_outcome import NotFetched
from almanac.schemas.declaration.private_hosts import private_host, refusal
from almanac.schemas.declaration.secret_parameters import SecretParameters
from almanac.schemas.declaration.source import FilesSource, RowSource, SiteSource, Source
from almanac.schemas.errors import NoRecords, UsageError
from almanac.schemas.items import Draft, Page, Reject
from almanac.schemas.left_out import LeftOut
from almanac.spiders.crawling.crawl import fetch_site, require_pages
from almanac.spiders.crawling.file_places import ReadableFile
from almanac.spiders.crawling.middlewares import may_see_credentials
from almanac.spiders.crawling.read_files import read_file
from almanac.spiders.mapping.fields import FieldReading
from almanac.spiders.mapping.item_mapping import Card, map_page
from almanac.spiders.mapping.pages import read_cards
from almanac.spiders.reading.content import Content
from almanac.spiders.selecting.linked_documents import not_fetched_by_type
from almanac.spiders.selecting.links import UrlPolicy
from almanac.spiders.selecting.urls import url_matcher
from almanac.spiders.selecting.withheld import leave_out_page, withheld
from almanac.spiders.store.raw import RawStore

_SHOWN_LINKS = 10


class FieldReport(BaseModel):
    """A field's value and the rule that gave it; `matched` is False if the rule found nothing, `note` says why where it
    can be told.

    `thing` is the thing of the page's JSON-LD or microdata that the value is from.
    """

    value: Any = None
    rule: str
    matched: bool = False
    thing: str | None = None
    note: str | None = None

    @model_serializer(mode="wrap")
    def _without_what_is_not_told(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = write(self)
        return {key: value for key, value in written.items() if value is not None or key not in ("thing", "note")}


class ItemReport(BaseModel):
    """One item of the page. `draft` is the item as mapped, for callers that clean it further; it is not part of the
    JSON.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)
    draft: Draft | None = Field(None, exclude=True)
    text: str | None = None
    document_id: str | None
    title: str | None
    fields: dict[str, FieldReport]


class LinksReport(BaseModel):
    """The links that a crawl would follow from the page, how many other pages it links to that are left because of a
    declared listing or pagination, and the documents that it links to and that are not fetched.
    """

    count: int
    first: list[str]
    unfollowed: int = 0
    not_fetched: list[NotFetched] = []


class PageReport(BaseModel):
    """What `almanac test-url` prints: the response, the page's role, its links, items and rejects.

    `withheld` says why a run takes no item from it; `left_out` tallies the text that no item has on purpose, as a run
    does, once items are cleaned.
    """

    url: str
    final_url: str
    status: int
    content_type: str
    role: Literal["listing", "item", "other"]
    withheld: str | None = None
    links: LinksReport
    items: list[ItemReport]
    rejects: list[dict[str, Any]]
    characters: int = 0  # of the items' texts
    left_out: LeftOut = Field(default_factory=LeftOut)


def inspect_url(source: SiteSource, url: str, language: str) -> PageReport:
    """Fetches one page as a crawl would and maps it; stores nothing.

    Raises the errors of `fetch_site` and `require_pages`, and UsageError for a private address.
    """
    url = source.secret_parameters.without(url)
    return report_page(fetch_page(source, url), source, url, language)


def fetch_page(source: SiteSource, url: str) -> Page:
    """One page, as a crawl would fetch it; stores nothing. Raises as `inspect_url` does."""
    with tempfile.TemporaryDirectory(prefix="almanac-") as folder:
        raw = RawStore(Path(folder))
        only = _narrow_source(source, url)
        policy = UrlPolicy(source)
        outcome = fetch_site(only, raw, "inspect", spares_starts=policy.is_start(policy.canonical(url)))
        page = next(raw.pages("inspect"), None)
    if page is None:
        require_pages(only, outcome)
        raise NoRecords(
            "the page was fetched and could not be read back", where=url, hint="is there space in the temporary folder?"
        )
    return page


def inspect_file(source: FilesSource, file: ReadableFile, language: str) -> PageReport:
    """Reads one file as a run would and maps it; stores nothing. A file that yields nothing is a reject with its
    reason.
    """
    read, url = read_file(source, file), file.url
    if not isinstance(read, Page):
        reject = Reject(source.name, url, None, "read", f"{read.reason}: {read.detail}" if read.detail else read.reason)
        nothing = LinksReport(count=0, first=[])
        return PageReport(
            url=url,
            final_url=url,
            status=200,
            content_type="",
            role="item",
            links=nothing,
            items=[],
            rejects=[reject.as_json()],
        )
    return _report_items(read, source, language)


def inspect_rows(source: RowSource, page: Page, language: str) -> PageReport:
    """Maps a page of rows; stores nothing."""
    return _report_items(page, source, language)


def _report_items(page: Page, source: FilesSource | RowSource, language: str) -> PageReport:
    content = Content.from_page(page, source, language)
    items, rejects = _mapped(content, source, language, {})
    return PageReport(
        url=page.url,
        final_url=page.url,
        status=200,
        content_type=page.content_type,
        role="item",
        links=LinksReport(count=0, first=[]),
        items=items,
        rejects=rejects,
        left_out=content.left_out,
    )


def report_page(page: Page, source: SiteSource, url: str, language: str) -> PageReport:
    """The report of a page that was fetched from `url`."""
    content, policy = Content.from_page(page, source, language), UrlPolicy(source)
    crawled = Content(page)  # with what mapping drops
    role = _role(page, source, policy)
    links = [link.url for link in policy.links(crawled)]
    unfollowed = policy.unfollowed(crawled) - {policy.key(known) for known in [page.url, policy.canonical(url), *links]}
    why = withheld(content, source) if policy.yields_items(page.url) else None
    if why is not None:
        leave_out_page(content, why[0])
    items, rejects = _items(content, source, policy, language, role) if why is None else ([], [])
    return PageReport(
        url=url,
        final_url=page.url,
        status=page.status,
        content_type=page.content_type,
        role=role,
        withheld=None if why is None else ": ".join(why),
        links=LinksReport(
            count=len(links),
            first=links[:_SHOWN_LINKS],
            unfollowed=len(unfollowed),
            not_fetched=not_fetched_by_type(source, policy.documents_left_out(crawled)),
        ),
        items=items,
        rejects=rejects,
        left_out=content.left_out,
    )


def _narrow_source(source: SiteSource, url: str) -> SiteSource:
    manners, render, host = source.politeness, source.render, urlsplit(url).hostname or ""
    if not manners.allow_private and (finding := private_host(host)):
        raise UsageError(refusal(finding), where=url)
    if not may_see_credentials(source, url):
        manners = manners.without_credentials()
        render = render and render.model_copy(update={"storage_state": None})
    limits = source.limits.model_copy(update={"pages": 1, "depth": 0})
    only = {
        "start_urls": [url],
        "sitemaps": [],
        "allowed_domains": [*source.domains, host],
        "limits": limits,
        "politeness": manners,
        "login": source.login if manners is source.politeness else None,
        "render": render,
        "request": source.request if UrlPolicy(source).is_posted(url) else None,
    }
    narrowed = source.model_copy(update=only)
    if manners is not source.politeness:
        narrowed.keep_secret(SecretParameters())
    return narrowed


def _role(page: Page, source: SiteSource, policy: UrlPolicy) -> Literal["listing", "item", "other"]:
    if source.match is not None and url_matcher(source.match)(page.url):
        return "item"
    if policy.is_listing(page.url):
        return "listing"
    # Without `match`, any page may be the target of a card, but those that a crawl begins with.
    is_start = policy.is_start(policy.canonical(page.requested_url or page.url))
    return "other" if source.match is not None or (source.listing is not None and is_start) else "item"


def _items(
    content: Content, source: SiteSource, policy: UrlPolicy, language: str, role: str
) -> tuple[list[ItemReport], list[dict[str, Any]]]:
    if role == "listing":
        return [
            ItemReport(document_id=url, title=None, fields=_fields(card))
            for url, card in read_cards(content, policy, source, language)
        ], []
    if role == "other":
        return [], []
    # The card is on another page, so fields that only a card gives are reported as not matched rather than missing.
    carried = source.listing.fields if source.listing else {}
    unknown: Card = {name: FieldReading(rule.default, rule, field=name) for name, rule in carried.items()}
    return _mapped(content, source, language, unknown)


def _mapped(
    content: Content, source: Source, language: str, card: Card
) -> tuple[list[ItemReport], list[dict[str, Any]]]:
    page_items = map_page(content, source, language, card)
    reports = [
        ItemReport(
            document_id=item.draft.document_id if item.draft else item.reject.document_id if item.reject else None,
            title=item.draft.title if item.draft else None,
            fields=_fields(item.readings),
            draft=item.draft,
        )
        for item in page_items.items
    ]
    return reports, [
        reject.as_json() for reject in [*page_items.rejects, *(item.reject for item in page_items.items if item.reject)]
    ]


def _fields(readings: dict[str, FieldReading]) -> dict[str, FieldReport]:
    return {
        name: FieldReport(
            value=reading.value, rule=reading.rule.rule, matched=reading.matched, thing=reading.thing, note=reading.note
        )
        for name, reading in readings.items()
    }
