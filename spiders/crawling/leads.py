"""What a page that arrived leads to: its links, the pagination that it belongs to, its canonical address, and what it
asks of crawlers.
"""

from dataclasses import dataclass, field

from almanac.spiders.crawling.chain import Chain, marks_of
from almanac.spiders.crawling.frontier import Waiting
from almanac.spiders.crawling.previous_crawls import PreviousPages
from almanac.spiders.reading.content import Content
from almanac.spiders.selecting.json_bodies import error_in, problem_of_json, reads_json, turned_from_json
from almanac.spiders.selecting.links import Link, UrlPolicy
from almanac.spiders.selecting.withheld import rules_for


@dataclass(slots=True)
class Leads:
    """What a page leads to.

    Attributes:
        chain: the pagination that the page belongs to; None if none.
        canonical: the canonical URL that the page declares.
        adds: whether the page has anything new to its pagination.
        noindex: as in `Page`.
        nofollow: whether its plain links are left because it asks for that.
        problem: why its links could not be read; empty if they could.
        unfollowed: of a start page, the keys of pages that it links to and the policy does not lead on to.
        left_out: key → type of the documents that it links to and that are not fetched.
        link_texts: keys of the URLs that it links to, with the links' texts; only where documents are fetched.
    """

    links: list[Link]
    chain: Chain | None
    canonical: str | None = None
    adds: bool = True
    noindex: str = ""
    nofollow: bool = False
    problem: str = ""
    unfollowed: set[str] = field(default_factory=set)
    left_out: dict[str, str] = field(default_factory=dict)
    link_texts: list[tuple[str, str]] = field(default_factory=list)


def read_leads(content: Content, waiting: Waiting, policy: UrlPolicy) -> Leads:
    """What the page leads to. Malformed markup may cost the links of a page, never the page itself."""
    try:
        return _leads_of(content, waiting, policy)
    except Exception as error:
        return Leads([], waiting.chain, problem=f"its links could not be read: {error!r}")


def _leads_of(content: Content, waiting: Waiting, policy: UrlPolicy) -> Leads:
    source = policy.source
    leads = Leads(
        policy.links(content, in_chain=waiting.chain is not None),
        waiting.chain,
        policy.stated_address(content),
        noindex=rules_for(content, source).noindex,
        nofollow=policy.asks_nofollow(content),
    )
    if content.is_document:
        return leads
    if waiting.depth < source.limits.depth and policy.is_start(waiting.url):
        leads.unfollowed = policy.unfollowed(content)
    leads.left_out = policy.documents_left_out(content)
    leads.link_texts = [*policy.link_texts(content)] if source.documents else []
    if waiting.chain is None and not any(link.role == "next" for link in leads.links):
        return leads
    chain = leads.chain = waiting.chain or Chain()
    leads.adds = chain.adds(marks_of(content, policy))
    if not leads.adds and (source.pagination.is_guessed or not chain.may_go_on):
        leads.links = [link for link in leads.links if link.role != "next"]
    return leads


def why_unreadable(
    content: Content, waiting: Waiting, policy: UrlPolicy, previous: PreviousPages, *, is_guess: bool
) -> str | None:
    """Why a page of which JSON is read is none: one that says it is JSON, or was when it was last stored, or tells an
    error. None for any other.

    Its items and what it leads to are unknown. `is_guess`: its URL is a page number that was counted up.
    """
    source, in_chain, urls = policy.source, waiting.chain is not None, (waiting.url, content.url)
    is_listing = (
        in_chain or any(map(policy.is_listing, urls)) or (source.listing is None and policy.is_start(waiting.url))
    )
    is_item = any(policy.yields_items(url, in_chain=in_chain) for url in urls)
    is_past_the_end = is_guess and not content.page.body.strip()
    if is_past_the_end or not reads_json(source, as_listing=is_listing, as_item=is_item):
        return None
    if (why := problem_of_json(content)) is None:
        return error_in(content, source, as_listing=is_listing, as_item=is_item)
    if content.form == "json":
        return why
    stored = previous.fallback_page(urls)
    return why if stored is not None and turned_from_json(content, Content(stored)) else None
