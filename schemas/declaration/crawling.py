"""Sections of a site's declaration that control the crawl: links to follow, pagination, listings, limits and
politeness.
"""

from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from almanac.schemas.declaration.credentials import Auth, OAuth, Secret, Token, check_cookies, check_headers
from almanac.schemas.declaration.expressions import JmesPath, Regex
from almanac.schemas.declaration.field_rules import FieldRule, Selector
from almanac.schemas.declaration.model import DeclaredModel
from almanac.schemas.declaration.reading_limits import ReadingLimits
from almanac.schemas.declaration.sizes import Bytes

FieldName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class Follow(DeclaredModel):
    """Which links a crawl follows. A URL that matches both lists is denied. Cards of a listing and next pages are
    followed whatever `allow` says.
    """

    allow: list[Regex] = Field(
        [],
        description=(
            "follow only links that match one of these. Empty: every link; with `listing`, `pagination` or "
            "without start_urls, none beside cards, next pages and what sitemaps name"
        ),
    )
    deny: list[Regex] = Field([], description="never follow URLs that match one of these")


class Pagination(DeclaredModel):
    """How to reach the next page of a listing: one of `next`, `parameter` and `json`. Numbers end at a page that adds
    nothing, links after three of them.
    """

    next: Selector | None = Field(
        None, description="the link to the next page: where pages have one, the way to declare it"
    )
    parameter: str | None = Field(
        None,
        min_length=1,
        description=(
            "query parameter that numbers the pages, where no link leads on; beside `json`: the parameter that "
            "its value goes into"
        ),
    )
    first: int = Field(
        1, description="number of the first page, which the start URL or listing is when it does not have the parameter"
    )
    step: int = Field(1, gt=0, description="what the number grows by: 1 for pages; for offsets, the items of a page")
    json_: JmesPath | None = Field(
        None,
        alias="json",
        description=("JMESPath over a JSON body: a URL, a page number, a cursor, or true for the page after this one"),
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.next is not None and (self.parameter is not None or self.json_ is not None):
            raise ValueError(
                "takes one of next, parameter and json (json may name the parameter that its value goes into)"
            )
        if {"first", "step"} & self.model_fields_set and self.parameter is None:
            raise ValueError("'first' and 'step' go with 'parameter'")
        return self

    @property
    def is_declared(self) -> bool:
        return self.next is not None or self.parameter is not None or self.json_ is not None

    @property
    def is_guessed(self) -> bool:
        """Whether pages do not show that there is a next one, so that the next number has to be tried."""
        return self.parameter is not None and self.json_ is None


class Listing(DeclaredModel):
    """Listing pages whose cards link to detail pages; fields read from a card are passed on to the detail page's
    item.
    """

    match: Regex = Field(description="regular expression on the URL of listing pages")
    each: Selector = Field(description="one match is one card")
    link: Selector = Field(description="inside a card: the link to the detail page")
    fields: dict[FieldName, FieldRule] = Field(
        {}, description="fields read from the card and carried to the detail page's item"
    )


class Limits(ReadingLimits):
    """Limits at which a crawl stops, and on reading the files that it fetches."""

    pages: int = Field(10_000, gt=0, description="pages of a crawl at most, those that are unchanged included")
    depth: int = Field(
        20,
        ge=0,
        description=(
            "links followed from a start URL at most; the pages of one pagination are equally deep. Links beyond "
            "are counted, not followed"
        ),
    )
    bytes: Bytes | None = Field(
        None,
        gt=0,
        description="no more pages are asked for once a crawl's pages are so large together; a number or `2GiB`",
    )
    bytes_per_page: Bytes = Field(16 << 20, gt=0, description="a larger page is refused; a number or `16MiB`")
    seconds: int = Field(3600, gt=0, description="a crawl that takes longer is stopped")


class Politeness(DeclaredModel):
    """How a crawl behaves towards a host. Secret values never appear in a report, log or manifest."""

    robots: bool = Field(True, description="obey robots.txt")
    noindex: bool = Field(
        True,
        description=(
            "obey `<meta name=robots>` and X-Robots-Tag: a page with noindex yields no item, of one with "
            "nofollow only cards, next pages and its canonical address are followed"
        ),
    )
    delay_s: float = Field(
        0.5,
        ge=0,
        allow_inf_nan=False,
        description=(
            "pause between requests to a host, in seconds; none on loopback. A longer Crawl-delay of robots.txt is kept"
        ),
    )
    per_domain: int | None = Field(
        None, gt=0, description="requests to one host at a time; default: 8, and 16 on loopback"
    )
    user_agent: str = Field(
        "almanac", min_length=1, description="sent with every request; add an address that reaches you"
    )
    allow_private: bool = Field(
        False,
        description=(
            "fetch from private and loopback addresses too, and through the proxy that the environment names; "
            "else neither"
        ),
    )
    headers: dict[Token, Secret] = Field({}, description="sent to the source's own hosts only, as cookies and auth are")
    cookies: dict[Token, Secret] = Field(
        {}, description="sent with every request; what a site sets is kept with `login` alone"
    )
    auth: Auth | None = Field(None, description="user and password, for HTTP basic authentication")
    oauth: OAuth | None = Field(
        None,
        description="a token of OAuth client credentials, for an API: fetched as the crawl begins, kept nowhere",
    )

    @field_validator("user_agent")
    @classmethod
    def _one_line(cls, value: str) -> str:
        if not value.isprintable():
            raise ValueError("must be one line of printable characters")
        return value

    @model_validator(mode="after")
    def _can_be_sent(self) -> Self:
        check_headers(self.headers, has_auth=self.auth is not None or self.oauth is not None)
        if self.auth is not None and self.oauth is not None:
            raise ValueError("oauth: auth would send another authorization; keep one of them")
        check_cookies(self.cookies)
        return self

    def without_credentials(self) -> "Politeness":
        """Returns a copy without headers, cookies, auth and oauth, for hosts that are not the source's own."""
        return self.model_copy(update={"headers": {}, "cookies": {}, "auth": None, "oauth": None})
