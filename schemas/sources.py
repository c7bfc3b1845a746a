"""Declared sources: a site that Scrapy crawls, or files beside the declaration."""

import re
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from schemas.addresses import private_host, refusal
from schemas.credentials import Auth, Secret, Token, check_cookies, check_headers
from schemas.expressions import JmesPath, Regex
from schemas.fields import FieldRule, Selector
from schemas.model import Declared

_ROW_FORMATS = frozenset({"csv", "tsv", "json", "jsonl", "ndjson"})
_UNITS = {"b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "kb": 10**3, "mb": 10**6, "gb": 10**9}


def _parse_bytes(value: Any) -> Any:
    if isinstance(value, str) and (match := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*", value)):
        unit = _UNITS.get(match[2].lower())
        if unit is None:
            raise ValueError(f"unknown unit {match[2]!r}; use one of KiB, MiB, GiB, kB, MB, GB")
        return int(float(match[1]) * unit)
    return value


def http_url(value: str) -> str:
    """A URL that can be fetched; ValueError says why not."""
    if "@" in re.split(r"[/?#\\]", value.partition("://")[2], maxsplit=1)[0]:
        raise PydanticCustomError("secret", "must not have a user or password in it; declare politeness: {auth: {user: …, password: …}}")
    parts = urlsplit(value)  # ValueError for brackets without an address
    if parts.scheme not in ("http", "https") or not parts.hostname or any(c.isspace() for c in parts.netloc):
        raise ValueError("must be an http:// or https:// URL with a host")
    _ = parts.port  # ValueError for what is no port
    return value


def ascii_host(host: str) -> str:
    """A host as it is looked up: lower case, and letters of other scripts in their ASCII form. ValueError where it is none."""
    if ":" in host:
        return f"[{host.lower()}]"
    try:
        return host.encode("idna").decode("ascii").lower()
    except UnicodeError as error:
        # Underscores and long labels are no host names by IDNA, yet DNS serves some of them.
        if host.isascii():
            return host.lower()
        raise ValueError(f"not a host name: {host!r}") from error


def _domain(value: str) -> str:
    """The host of a domain, however it is written: `https://Shop.example/`, `*.shop.example` and `shop.example:8080` are `shop.example`."""
    if value.count(":") > 1 and "[" not in value and "://" not in value:  # an IPv6 address on its own
        value = f"[{value}]"
    host = urlsplit(value if "://" in value else f"//{value}").hostname or ""
    host = host.removeprefix("*.").strip(".")
    if not host or any(character.isspace() or character in "*/" for character in host):
        raise ValueError("must be a host, such as shop.example; its subdomains are allowed with it")
    return ascii_host(host).strip("[]")


def _template(value: str) -> str:
    if value.count("{") != value.count("}"):
        raise ValueError("unbalanced braces in the template")
    return value


Bytes = Annotated[int, BeforeValidator(_parse_bytes)]
HttpUrl = Annotated[str, AfterValidator(http_url)]
Domain = Annotated[str, AfterValidator(_domain)]
Template = Annotated[str, AfterValidator(_template)]
FileFormat = Literal["auto", "csv", "json", "jsonl", "markdown", "text", "html", "pdf", "docx", "faq"]
FieldName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


def template_names(template: str) -> list[str]:
    """The field names that a template mentions, in order."""
    return re.findall(r"\{([A-Za-z_][A-Za-z0-9_]*)\}", template)


class Follow(Declared):
    """Which links a crawl follows; deny wins."""

    allow: list[Regex] = Field([], description="follow only URLs that match one of these; empty: every link")
    deny: list[Regex] = Field([], description="never follow URLs that match one of these")


class Pagination(Declared):
    """How a listing goes on: one of `next`, `parameter` and `json`. Numbers end where a page adds nothing, links after three such pages."""

    next: Selector | None = Field(None, description="the link to the next page: where pages have one, the way to declare it")
    parameter: str | None = Field(
        None, min_length=1, description="query parameter that numbers the pages, where no link leads on; beside `json`: the parameter that its value goes into"
    )
    first: int = Field(1, description="number of the first page, which the start URL or listing is when it does not have the parameter")
    step: int = Field(1, gt=0, description="what the number grows by: 1 for pages; for offsets, the items of a page")
    json_: JmesPath | None = Field(
        None, alias="json", description="JMESPath over a JSON body to what comes next: a URL, a page number, a cursor, or true for the page after this one"
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.next is not None and (self.parameter is not None or self.json_ is not None):
            raise ValueError("takes one of next, parameter and json (json may name the parameter that its value goes into)")
        if {"first", "step"} & self.model_fields_set and self.parameter is None:
            raise ValueError("'first' and 'step' go with 'parameter'")
        return self

    @property
    def is_declared(self) -> bool:
        return self.next is not None or self.parameter is not None or self.json_ is not None

    @property
    def is_guessed(self) -> bool:
        """Whether nothing on a page says that there is another one: the next number is tried."""
        return self.parameter is not None and self.json_ is None


class Listing(Declared):
    """Pages with cards that lead to detail pages and carry fields along."""

    match: Regex = Field(description="regular expression on the URL of listing pages")
    each: Selector = Field(description="one match is one card")
    link: Selector = Field(description="inside a card: the link to the detail page")
    fields: dict[FieldName, FieldRule] = Field({}, description="fields read from the card and carried to the detail page's item")


class Limits(Declared):
    """Where a crawl stops by itself."""

    pages: int = Field(10_000, gt=0, description="pages of a crawl at most, those that are unchanged included")
    depth: int = Field(
        20, ge=0, description="links followed from a start URL at most; the pages of one pagination are equally deep. Links beyond are counted, not followed"
    )
    bytes: Bytes | None = Field(None, gt=0, description="no more pages are asked for once a crawl's pages are so large together; a number or `2GiB`")
    bytes_per_page: Bytes = Field(16 << 20, gt=0, description="a larger page is refused; a number or `16MiB`")
    seconds: int = Field(3600, gt=0, description="a crawl that takes longer is stopped")


class Politeness(Declared):
    """How a crawl behaves towards a host. What a secret is, no report, log or manifest shows."""

    robots: bool = Field(True, description="obey robots.txt")
    delay_s: float = Field(
        0.5, ge=0, allow_inf_nan=False, description="pause between requests to a host, in seconds; none on loopback. A longer Crawl-delay of robots.txt is kept"
    )
    per_domain: int | None = Field(None, gt=0, description="requests to one host at a time; default: 8, and 16 on loopback, where there is nobody to spare")
    user_agent: str = Field("almanac", min_length=1, description="sent with every request; add an address that reaches you")
    allow_private: bool = Field(
        False, description="fetch from private and loopback addresses too, and through the proxy that the environment names; else neither"
    )
    headers: dict[Token, Secret] = Field({}, description="sent to the source's own hosts only, as cookies and auth are")
    cookies: dict[Token, Secret] = Field({}, description="sent with every request; what a site sets is not kept")
    auth: Auth | None = Field(None, description="user and password, for HTTP basic authentication")

    @field_validator("user_agent")
    @classmethod
    def _one_line(cls, value: str) -> str:
        if not value.isprintable():
            raise ValueError("must be one line of printable characters")
        return value

    @model_validator(mode="after")
    def _can_be_sent(self) -> Self:
        check_headers(self.headers, has_auth=self.auth is not None)
        check_cookies(self.cookies)
        return self

    def without_credentials(self) -> "Politeness":
        """The same towards a host that is not the source's own."""
        return self.model_copy(update={"headers": {}, "cookies": {}, "auth": None})


class _Source(Declared):
    """What sites and files have in common: how what was read becomes records or documents."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$", description="unique within the knowledge base")
    yields: Literal["records", "documents"] = Field("documents", description="records: declared fields, embedded whole; documents: free text, chunked")
    each: Selector | None = Field(None, description="one match is one item, when a page holds several")
    id: Template = Field("url", description='template over fields such as "{tour_code}", or "url"')
    title: Template | None = Field(None, description="template over fields; without it, the page's own title")
    fields: dict[FieldName, FieldRule] = Field({}, description="name → rule")
    text: Template | None = Field(None, description="records: what is embedded, as a template; without it, the title and every text field")
    metadata: list[str] | None = Field(None, description="fields kept for filters and hits; default: all of them")
    body: Literal["main", "all"] | Selector | Template = Field(
        "main", description='documents: main (boilerplate removed), all, a selector, or a "{field}" template'
    )

    @model_validator(mode="after")
    def _names_exist(self) -> Self:
        known = {*self.declared_fields(), "url", "title"}
        templates = {"id": self.id, "title": self.title, "text": self.text, "body": self.body}
        for key, template in templates.items():
            for name in template_names(template) if isinstance(template, str) else ():
                if name not in known and not self.takes_own_fields:
                    raise ValueError(f"{key}: no field '{name}'; declared: {', '.join(sorted(known))}")
        if "{" not in self.id and self.id != "url":
            raise ValueError('id: must be "url" or a template such as "{code}"')
        if isinstance(self.body, str) and self.body not in ("main", "all") and "{" not in self.body:
            raise ValueError('body: must be main, all, a selector such as {css: "main"}, or a "{field}" template')
        for name in self.metadata or ():
            if name not in known and not self.takes_own_fields:
                raise ValueError(f"metadata: no field '{name}'; declared: {', '.join(sorted(known))}")
        if self.yields == "records" and not self.declared_fields() and not self.takes_own_fields:
            raise ValueError("yields: records needs fields")
        return self

    def declared_fields(self) -> dict[str, FieldRule]:
        """Every field an item of this source may have, in declared order; what a file says of itself stands in no declaration."""
        return dict(self.fields)

    @property
    def takes_own_fields(self) -> bool:
        """Whether an item's fields are those that it names itself, such as the columns of a table."""
        return False


class SiteSource(_Source):
    """A site, crawled by Scrapy."""

    kind: Literal["site"]
    start_urls: list[HttpUrl] = Field([], description="where the crawl starts; may be left out where there are sitemaps")
    sitemaps: list[HttpUrl] = Field(
        [],
        description="sitemaps, indexes of sitemaps (gzipped, too), lists of URLs and feeds: what they name is fetched where `follow` allows it; "
        "without start_urls, other links are followed only with `follow.allow`",
    )
    allowed_domains: list[Domain] = Field([], description="default: the hosts of start_urls and sitemaps")
    follow: Follow = Field(Follow(), description="which links are followed")
    ignore_parameters: list[str] = Field([], description="query parameters dropped from URLs, `utm_*` style: one page, one URL")
    pagination: Pagination = Field(Pagination(), description="how a listing goes on")
    listing: Listing | None = Field(None, description="cards that lead to detail pages")
    match: Regex | None = Field(
        None, description="regular expression on the URL: pages that yield items; default: every page, or with `listing` those that its cards lead to"
    )
    limits: Limits = Field(Limits(), description="where a crawl stops by itself")
    politeness: Politeness = Field(Politeness(), description="how a crawl behaves towards a host")

    @model_validator(mode="after")
    def _starts_somewhere(self) -> Self:
        if not self.start_urls and not self.sitemaps:
            raise ValueError("start_urls: is required where there are no sitemaps")
        return self

    @property
    def private_start(self) -> str | None:
        """The first start URL or sitemap at a private address that is not allowed, with the way out; None where there is none.

        By the name alone: where a public name leads is looked at when it is connected to.
        """
        for key in ("start_urls", "sitemaps") if not self.politeness.allow_private else ():
            for number, url in enumerate(getattr(self, key)):
                finding = private_host(urlsplit(url).hostname or "")
                if finding is not None:
                    return f"{key}[{number}]: {refusal(finding)}"
        return None

    def declared_fields(self) -> dict[str, FieldRule]:
        carried = self.listing.fields if self.listing else {}
        return {**carried, **self.fields}

    @property
    def domains(self) -> list[str]:
        """The hosts that a crawl may fetch from."""
        return self.allowed_domains or sorted({_domain(url) for url in [*self.start_urls, *self.sitemaps]})


class FileLimits(Declared):
    """What is read of a folder of files."""

    bytes_per_file: Bytes = Field(256 << 20, gt=0, description="a larger file is refused; a number or `256MiB`")


class FilesSource(_Source):
    """Files on this machine. Without `fields`, what a file says becomes the fields: columns, keys, front matter, question and answer."""

    kind: Literal["files"]
    glob: str = Field(min_length=1, description="relative to the declaration; `**` for folders")
    format: FileFormat = Field(
        "auto", description="auto goes by the file's name and its first bytes; faq takes question and answer pairs from Markdown, HTML or DOCX"
    )
    limits: FileLimits = Field(FileLimits(), description="which files are too large")

    @model_validator(mode="after")
    def _rows_say_what_their_text_is(self) -> Self:
        suffix = self.glob.lower().rpartition(".")[2] if self.format == "auto" else self.format
        if suffix in _ROW_FORMATS and self.yields == "documents" and self.body in ("main", "all"):
            raise ValueError(f'body: {self.body} is for HTML and text, and rows have fields; say which one: body: "{{text}}", or declare yields: records')
        return self

    @property
    def takes_own_fields(self) -> bool:
        return not self.fields


Source = Annotated[SiteSource | FilesSource, Field(discriminator="kind")]
