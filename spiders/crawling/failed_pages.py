"""What follows from a page that failed: its fallback page leads on, and so does the next number of a guessed
pagination; what redirects to it has failed, too.
"""

from collections.abc import Sequence
from contextlib import suppress

import scrapy

from almanac.schemas.crawl_outcome import FailedPage
from almanac.spiders.crawling.fallback_pages import FallbackPages
from almanac.spiders.crawling.frontier import Frontier, Waiting
from almanac.spiders.crawling.previous_crawls import PreviousPages
from almanac.spiders.crawling.seen_redirects import Led, SeenRedirects
from almanac.spiders.crawling.tally import Tally
from almanac.spiders.selecting.links import Link, UrlPolicy
from almanac.spiders.selecting.pagination import numbered_next

# Statuses with which servers answer a number beyond the last page.
_NO_SUCH_NUMBER = frozenset({400, 404, 410, 416, 422})
# Statuses with which some do; counted as failures if a later number is a page.
_MAYBE_NO_SUCH_NUMBER = frozenset({403, 405, 406, 409, 500, 501})
# Reasons for which the page is gone for good, and its links with it: no fallback page is used.
_FINAL = frozenset({"gone", "forgotten"})


class FailedPages:
    """The failed pages of a crawl.

    Attributes:
        has_unseen: whether a page failed of which there is no copy.
    """

    def __init__(
        self,
        policy: UrlPolicy,
        previous: PreviousPages,
        frontier: Frontier,
        fallback_pages: FallbackPages,
        tally: Tally,
        *,
        leads_on: bool,
    ) -> None:
        """Without `leads_on`, failed pages lead nowhere."""
        self._policy = policy
        self._previous = previous
        self._frontier = frontier
        self._fallback_pages = fallback_pages
        self._tally = tally
        self._does_lead_on = leads_on
        self._seen_redirects = SeenRedirects(policy.source)
        self._not_arrived: dict[str, FailedPage] = {}  # by key, also of the addresses that redirects led to
        self._past_the_end: list[str] = []  # guessed numbers that gave no JSON
        self.has_unseen = False

    def is_guess(self, waiting: Waiting) -> bool:
        """Whether the URL was made by counting up a page number, without a link to it."""
        return waiting.chain is not None and self._policy.source.pagination.is_guessed

    def is_beyond_the_end(self, waiting: Waiting, status: int, *, is_gone: bool) -> bool:
        """Whether the answer says that a guessed number is beyond the last page."""
        return self.is_guess(waiting) and (status in _NO_SUCH_NUMBER or is_gone)

    def fail(
        self,
        waiting: Waiting,
        reason: str,
        detail: str,
        *,
        status: int | None,
        request: scrapy.Request | None,
        may_be_past_the_end: bool = False,
    ) -> None:
        """Counts a failed page, queues the links of its fallback page, and tries the next number of a guessed
        pagination.

        `may_be_past_the_end`: its body is what a server may show for a number beyond the last page, also for one that
        was a page before.
        """
        failure = FailedPage(url=waiting.url, reason=reason, status=status, detail=detail)
        landed = self._landed(waiting, request)
        self._tally.stats.landed.update(dict.fromkeys(landed, waiting.url))
        self._not_arrived |= dict.fromkeys(map(self._policy.key_of, (waiting.url, *landed)), failure)
        is_past_the_end = may_be_past_the_end and waiting.chain is not None and waiting.chain.has_arrived
        is_doubtful = is_past_the_end or (status in _MAYBE_NO_SUCH_NUMBER and not self._previous.holds(waiting.url))
        if is_doubtful and self.is_guess(waiting) and waiting.chain is not None:
            waiting.chain.doubtful.append(failure)
            if is_past_the_end:
                self._past_the_end.append(waiting.url)
        else:
            self._tally.fail(failure)
        has_fallback = reason not in _FINAL and self._does_lead_on and self._fallback_pages.lead_on(waiting, landed)
        self.has_unseen = self.has_unseen or (reason not in _FINAL and not has_fallback)
        if self.is_guess(waiting) and waiting.chain is not None and not has_fallback and waiting.chain.may_pass_over():
            following = numbered_next(waiting.url, self._policy.source.pagination)
            self._frontier.add_links([Link(following, "next")] if following else [], waiting, waiting.chain)

    def count_doubtful(self, waiting: Waiting) -> None:
        """Counts as failed what was taken for numbers beyond the last page of a pagination, since that goes on."""
        if waiting.chain is not None:
            for failure in waiting.chain.doubtful:
                self._tally.fail(failure)
            waiting.chain.doubtful.clear()

    def ended(self) -> Sequence[str]:
        """Guessed numbers that gave no JSON, and that were not counted as failed."""
        counted = {failure.url for failure in self._tally.stats.failures}
        return [url for url in self._past_the_end if url not in counted]

    def leave_to(self, seen: str, waiting: Waiting, request: scrapy.Request) -> None:
        """Notes a page whose redirect leads to one that another request is for."""
        way = [waiting.url, *self._landed(waiting, request)]
        key = self._policy.key_of
        self._seen_redirects.note(Led(waiting, request, seen), [key(url) for url in way], key(seen))

    def settle_redirects(self) -> None:
        """Counts as failed what redirects led to, and nothing came of: pages that wait for each other, or for one that
        failed.
        """
        for led, why in self._seen_redirects.settle(self._not_arrived):
            self.fail(led.waiting, why.reason or "error", why.detail, status=why.status, request=led.request)

    def _landed(self, waiting: Waiting, request: scrapy.Request | None) -> list[str]:
        """Canonical URLs that redirects led to before the request failed."""
        landed = []
        for url in [*request.meta.get("redirect_urls", [])[1:], request.url] if request is not None else ():
            with suppress(ValueError):
                landed.append(self._policy.canonical(url))
        return [url for url in landed if url != waiting.url]
