"""Declared sources: a site that Scrapy crawls, or files beside the declaration."""

import re
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from schemas.fields import FieldRule, Regex, Selector
from schemas.model import Declared

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
    parts = urlsplit(value)  # ValueError for brackets without an address
    if parts.scheme not in ("http", "https") or not parts.hostname or any(c.isspace() for c in parts.netloc):
        raise ValueError("must be an http:// or https:// URL with a host")
    _ = parts.port  # ValueError for what is no port
    return value


def _template(value: str) -> str:
    if value.count("{") != value.count("}"):
        raise ValueError("unbalanced braces in the template")
    return value


Bytes = Annotated[int, BeforeValidator(_parse_bytes)]
HttpUrl = Annotated[str, AfterValidator(http_url)]
Template = Annotated[str, AfterValidator(_template)]
FieldName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


def template_names(template: str) -> list[str]:
    """The field names that a template mentions, in order."""
    return re.findall(r"\{([A-Za-z_][A-Za-z0-9_]*)\}", template)


class Follow(Declared):
    """Which links a crawl follows; deny wins."""

    allow: list[Regex] = Field([], description="follow only URLs that match one of these; empty: every link")
    deny: list[Regex] = Field([], description="never follow URLs that match one of these")


class Pagination(Declared):
    """How a listing goes on."""

    planned: ClassVar[dict[str, tuple[str, ...]]] = {"parameter": (), "first": (), "json": ()}

    next: Selector | None = Field(None, description="the link to the next page")


class Listing(Declared):
    """Pages with cards that lead to detail pages and carry fields along."""

    match: Regex = Field(description="regular expression on the URL of listing pages")
    each: Selector = Field(description="one match is one card")
    link: Selector = Field(description="inside a card: the link to the detail page")
    fields: dict[FieldName, FieldRule] = Field({}, description="fields read from the card and carried to the detail page's item")


class Limits(Declared):
    """Where a crawl stops by itself."""

    pages: int = Field(10_000, gt=0, description="pages fetched at most")
    depth: int = Field(20, ge=0, description="links followed from a start URL at most")
    bytes_per_page: Bytes = Field(16 << 20, gt=0, description="a larger page is refused; a number or `16MiB`")
    seconds: int = Field(3600, gt=0, description="a crawl that takes longer is stopped")


class Politeness(Declared):
    """How a crawl behaves towards a host."""

    planned: ClassVar[dict[str, tuple[str, ...]]] = {"headers": (), "cookies": (), "auth": ()}

    robots: bool = Field(True, description="obey robots.txt")
    delay_s: float = Field(0.5, ge=0, description="pause between requests to a host, in seconds; none on loopback")
    per_domain: int = Field(8, gt=0, description="requests to one host at a time")
    user_agent: str = Field("almanac", description="sent with every request; add an address that reaches you")
    allow_private: Literal[True] = Field(True, description="fetch from private and loopback addresses; refusing them is not supported yet")


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
                if name not in known:
                    raise ValueError(f"{key}: no field '{name}'; declared: {', '.join(sorted(known))}")
        if "{" not in self.id and self.id != "url":
            raise ValueError('id: must be "url" or a template such as "{code}"')
        if isinstance(self.body, str) and self.body not in ("main", "all") and "{" not in self.body:
            raise ValueError('body: must be main, all, a selector such as {css: "main"}, or a "{field}" template')
        for name in self.metadata or ():
            if name not in known:
                raise ValueError(f"metadata: no field '{name}'; declared: {', '.join(sorted(known))}")
        if self.yields == "records" and not self.declared_fields():
            raise ValueError("yields: records needs fields")
        return self

    def declared_fields(self) -> dict[str, FieldRule]:
        """Every field an item of this source may have, in declared order."""
        return dict(self.fields)


class SiteSource(_Source):
    """A site, crawled by Scrapy."""

    planned: ClassVar[dict[str, tuple[str, ...]]] = {"sitemaps": ()}

    kind: Literal["site"]
    start_urls: list[HttpUrl] = Field(min_length=1, description="where the crawl starts")
    allowed_domains: list[str] = Field([], description="default: the hosts of start_urls")
    follow: Follow = Field(Follow(), description="which links are followed")
    ignore_parameters: list[str] = Field([], description="query parameters dropped from URLs, `utm_*` style: one page, one URL")
    pagination: Pagination = Field(Pagination(), description="how a listing goes on")
    listing: Listing | None = Field(None, description="cards that lead to detail pages")
    match: Regex | None = Field(
        None, description="regular expression on the URL: pages that yield items; default: every page, or with `listing` those that its cards lead to"
    )
    limits: Limits = Field(Limits(), description="where a crawl stops by itself")
    politeness: Politeness = Field(Politeness(), description="how a crawl behaves towards a host")

    def declared_fields(self) -> dict[str, FieldRule]:
        carried = self.listing.fields if self.listing else {}
        return {**carried, **self.fields}

    @property
    def domains(self) -> list[str]:
        """The hosts that a crawl may fetch from."""
        return self.allowed_domains or sorted({urlsplit(url).hostname or "" for url in self.start_urls})


class FilesSource(_Source):
    """Files on this machine."""

    planned: ClassVar[dict[str, tuple[str, ...]]] = {"format": ("csv", "json", "html", "pdf", "docx", "faq")}

    kind: Literal["files"]
    glob: str = Field(min_length=1, description="relative to the declaration; `**` for folders")
    format: Literal["auto", "jsonl", "markdown", "text"] = Field("auto", description="auto goes by the file's name")


Source = Annotated[SiteSource | FilesSource, Field(discriminator="kind")]
