"""Sources of a declaration: sites crawled by Scrapy, local files, and what gives rows."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    ValidationInfo,
    model_validator,
)

from almanac.schemas.declaration.crawling import Follow, Limits, Listing, Pagination, Politeness
from almanac.schemas.declaration.credentials import Auth
from almanac.schemas.declaration.expressions import Regex
from almanac.schemas.declaration.field_rules import FieldRule, Selector
from almanac.schemas.declaration.git import Git
from almanac.schemas.declaration.globs import Glob
from almanac.schemas.declaration.item_rules import ItemRules, MarkupSelector
from almanac.schemas.declaration.login import Login
from almanac.schemas.declaration.model import Finding, refuse
from almanac.schemas.declaration.private_hosts import private_host, refusal
from almanac.schemas.declaration.reading_limits import ReadingLimits
from almanac.schemas.declaration.render import Render, read_render
from almanac.schemas.declaration.request_section import Request
from almanac.schemas.declaration.row_sources import CommandSource, PushedSource, RowsSource, SqlSource
from almanac.schemas.declaration.secret_parameters import SecretParameters
from almanac.schemas.declaration.sizes import Bytes
from almanac.schemas.declaration.template import template_names
from almanac.schemas.declaration.url_types import Domain, HttpUrl, domain_of

_ROW_FORMATS = frozenset({"csv", "tsv", "json", "jsonl", "ndjson"})
Fetched = Literal["html", "pdf", "docx", "pptx", "xlsx", "epub", "eml"]
FileFormat = Literal[
    "auto", "csv", "json", "jsonl", "markdown", "text", "html", "pdf", "docx", "pptx", "xlsx", "epub", "eml", "faq"
]


def _sign_kind(value: Any) -> str:
    return "status" if isinstance(value, int) else "selector"


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _lasting(status: int) -> int:
    if status in (408, 429):
        raise ValueError("tells a crawl to come back later")
    return status


Sign = Annotated[
    Annotated[int, Field(ge=400, lt=500), AfterValidator(_lasting), Tag("status")]
    | Annotated[MarkupSelector, Tag("selector")],
    Discriminator(_sign_kind),
]


class SiteSource(ItemRules):
    """A website, crawled by Scrapy."""

    kind: Literal["site"]
    start_urls: list[HttpUrl] = Field(
        [],
        description=("where the crawl starts. What `${NAME}` fills in a query is a secret, `${NAME:-default}` is not"),
    )
    sitemaps: list[HttpUrl] = Field(
        [],
        description=(
            "sitemaps, their indexes (gzipped, too), lists of URLs, feeds. Without start_urls, other links "
            "are followed only with `follow.allow`"
        ),
    )
    allowed_domains: list[Domain] = Field([], description="default: the hosts of start_urls and sitemaps")
    follow: Follow = Field(
        Follow(),
        description="which links are followed; default: every one, unless `listing` or `pagination` is declared",
    )
    ignore_parameters: list[str] = Field(
        [], description="query parameters dropped from URLs, `utm_*` style: one page, one URL"
    )
    pagination: Pagination = Field(
        Pagination(), description="how a listing goes on; other links are then followed only with `follow.allow`"
    )
    listing: Listing | None = Field(
        None, description="cards that lead to detail pages; other links are then followed only with `follow.allow`"
    )
    match: Regex | None = Field(
        None,
        description=(
            "regular expression on the URL: pages that yield items. Default: every page, or with `listing` "
            "those that its cards lead to"
        ),
    )
    limits: Limits = Field(Limits(), description="where a crawl stops by itself, and what reading a file may take")
    fetch: list[Fetched] = Field(
        ["html"],
        description=(
            "html: every page that is text; else files that pages or sitemaps lead to, by the same "
            "rules as pages, one item each. Files of other types are counted by type"
        ),
    )
    gone: Annotated[list[Sign], BeforeValidator(_listed, json_schema_input_type=list[Sign] | Sign)] = Field(
        [],
        description=(
            "what says that a page is gone, besides 404 and 410: statuses such as `[401, 403]`, and "
            "elements such as `{css: .discontinued}` on pages that would yield items. Undeclared, a page "
            "with such a status has failed and keeps its place"
        ),
    )
    vanish_after: int = Field(
        1,
        gt=0,
        description=("complete crawls in a row without a link to a page, before it counts as vanished"),
    )
    politeness: Politeness = Field(Politeness(), description="how a crawl behaves towards a host")
    login: Login | None = Field(
        None,
        description="a form that is filled before the first page, and again where the session has ended",
    )
    request: Request | None = Field(
        None,
        description="an API that takes POST: what start URLs and the pages of their pagination are asked for with; "
        "others are asked for by GET",
    )
    render: Annotated[Render | None, BeforeValidator(read_render, json_schema_input_type=Render | bool | None)] = Field(
        None,
        description=("the machine's Chromium draws pages before they are stored. `true` for the defaults"),
    )

    _language: str = PrivateAttr("en")
    _secret_parameters: SecretParameters = PrivateAttr(SecretParameters())

    @model_validator(mode="after")
    def _starts_somewhere(self) -> Self:
        if not self.start_urls and not self.sitemaps:
            raise ValueError("start_urls: is required where there are no sitemaps")
        return self

    @model_validator(mode="after")
    def _logs_in_at_home(self, info: ValidationInfo) -> Self:
        if self.login is None or (info.context or {}).get("to_read"):
            return self
        host, findings = domain_of(self.login.url), []
        if not any(host == own or host.endswith(f".{own}") for own in self.domains):
            finding = f"is on none of the source's hosts: {', '.join(self.domains)}; allowed_domains takes it in"
            findings.append(Finding(("login", "url"), finding, self.login.url))
        starts = [*self.start_urls, *self.sitemaps]
        if self.login.url.startswith("http:") and any(url.startswith("https:") for url in starts):
            finding = "must be https, as other URLs of the source are: a password is sent to it"
            findings.append(Finding(("login", "url"), finding, self.login.url))
        refuse(type(self), findings)
        return self

    @model_validator(mode="after")
    def _asks_for_tokens_in_private(self) -> Self:
        oauth, findings = self.politeness.oauth, []
        is_private = any(url.startswith("https:") for url in [*self.start_urls, *self.sitemaps])
        if oauth is not None and is_private and oauth.token_url.startswith("http:"):
            finding = "must be https, as other URLs of the source are: a secret is sent to it"
            findings.append(Finding(("politeness", "oauth", "token_url"), finding, oauth.token_url))
        if oauth is not None and self.render is not None:
            findings.append(Finding(("politeness", "oauth"), "is for APIs, and pages are drawn: render", None))
        refuse(type(self), findings)
        return self

    @model_validator(mode="after")
    def _body_has_the_page(self) -> Self:
        if self.request is None:
            return self
        findings, name = [], self.pagination.parameter
        urls = "".join(self.start_urls)
        if name is not None and not self.request.has(name) and name not in urls:
            finding = f"request.json has no {name}: write it there as the first page has it, 1 or null"
            findings.append(Finding(("pagination", "parameter"), finding, name))
        if self.render is not None:
            findings.append(Finding(("render",), "a browser asks for pages by GET, and request is declared", None))
        if not self.start_urls:
            findings.append(Finding(("request",), "is for start_urls, and there are none", None))
        refuse(type(self), findings)
        return self

    @property
    def keeps_cookies(self) -> bool:
        """Whether cookies that the site sets are sent back, for its pages are those of a user who has logged in."""
        return self.login is not None or (self.render is not None and self.render.storage_state is not None)

    @property
    def gone_statuses(self) -> frozenset[int]:
        """The statuses by which a page is gone, besides 404 and 410."""
        return frozenset(sign for sign in self.gone if isinstance(sign, int))

    @property
    def gone_elements(self) -> list[Selector]:
        """The elements by which a page is gone."""
        return [sign for sign in self.gone if isinstance(sign, Selector)]

    @model_validator(mode="after")
    def _documents_can_be_items(self) -> Self:
        """Refuses what a file can never satisfy, instead of on each of them."""
        findings = []
        if "html" not in self.fetch:
            suffixes = "|".join(sorted(self.documents)) or "pdf"
            finding = (
                f"html is missing, and pages lead to the files; if files alone are items, add match: '\\.({suffixes})$'"
            )
            findings.append(Finding(("fetch",), finding, self.fetch))
        if self.each is not None and self.gone_elements:
            finding = "an element says it of a page, and `each` finds several items on one; drop: takes items out"
            findings.append(Finding(("gone",), finding, str(self.gone_elements[0])))
        if self.documents:
            findings += self._at_odds_with_documents()
        refuse(type(self), findings)
        return self

    def _at_odds_with_documents(self) -> Iterator[Finding]:
        kinds = ", ".join(sorted(self.documents))
        apart = (
            f"; fetch {kinds} in a source of its own, with yields: documents and match: "
            f"'\\.({'|'.join(sorted(self.documents))})$'"
        )
        if self.yields == "records":
            yield Finding(
                ("fetch",), f"{kinds} have text and no fields, and this source yields records{apart}", self.fetch
            )
        if self.each is not None:
            yield Finding(("each",), f"splits pages into items, and each of {kinds} is one item{apart}", None)
        for name, rule in self.fields.items():
            is_on_card = self.listing is not None and name in self.listing.fields
            if rule.required and rule.default is None and rule.url is None and rule.const is None and not is_on_card:
                yield Finding(
                    ("fields", name, "required"),
                    f"a page has it, and no {kinds} does: all of them would be rejected{apart}",
                    True,
                )
        known = {
            "url",
            "title",
            *(self.listing.fields if self.listing else ()),
            *(name for name, rule in self.fields.items() if rule.url or rule.const),
        }
        for key in ("id", "body"):
            template = getattr(self, key)
            for name in template_names(template) if isinstance(template, str) else ():
                if name.partition(".")[0] not in known:
                    yield Finding((key,), f"{{{name}}} is a field of pages, and no {kinds} has it{apart}", template)

    @property
    def language(self) -> str:
        """The language of the knowledge base."""
        return self._language

    @property
    def accept_language(self) -> str:
        """The language that pages are asked for in, as the header Accept-Language: `fr-CA,fr;q=0.9`. Empty for `auto`,
        and where `headers` declare one.
        """
        if self._language == "auto" or any(name.lower() == "accept-language" for name in self.politeness.headers):
            return ""
        subtags = self._language.split("-")
        wider = ["-".join(subtags[:length]) for length in range(len(subtags), 0, -1)]
        return ",".join(tag if not step else f"{tag};q={max(10 - step, 1) / 10}" for step, tag in enumerate(wider))

    def ask_in(self, language: str) -> None:
        """Sets `language`, which the knowledge base declares."""
        self._language = language

    @property
    def secret_parameters(self) -> SecretParameters:
        """The query parameters of its URLs whose values come from the environment; `start_urls` and `sitemaps` lack
        them.
        """
        return self._secret_parameters

    def keep_secret(self, parameters: SecretParameters) -> None:
        """Sets `secret_parameters`, which the loading of a declaration finds."""
        self._secret_parameters = parameters

    @property
    def documents(self) -> frozenset[str]:
        """The types of files that are fetched."""
        return frozenset(self.fetch) - {"html"}

    @property
    def private_start(self) -> str | None:
        """A message about the first URL at a private address that is not allowed, with the remedy; None where there
        is none.

        Only names are examined: what a public name resolves to is checked on connection.
        """
        if self.politeness.allow_private:
            return None
        places = {f"{key}[{n}]": url for key in ("start_urls", "sitemaps") for n, url in enumerate(getattr(self, key))}
        if self.login is not None:
            places["login.url"] = self.login.url
        if self.politeness.oauth is not None:
            places["politeness.oauth.token_url"] = self.politeness.oauth.token_url
        for place, url in places.items():
            finding = private_host(urlsplit(url).hostname or "")
            if finding is not None:
                return f"{place}: {refusal(finding)}"
        return None

    def declared_fields(self) -> dict[str, FieldRule]:
        carried = self.listing.fields if self.listing else {}
        return {**carried, **self.fields}

    @property
    def domains(self) -> list[str]:
        """The hosts that a crawl may fetch from."""
        return self.allowed_domains or sorted({domain_of(url) for url in [*self.start_urls, *self.sitemaps]})


class FileLimits(ReadingLimits):
    """Limits on the files that are read, and on reading them."""

    bytes_per_file: Bytes = Field(256 << 20, gt=0, description="a larger file is refused; a number or `256MiB`")


class FilesSource(ItemRules):
    """Files of this machine, a bucket, a server or a git repository. Without `fields`, the fields come from the file
    itself: columns, keys, front matter, or question and answer.
    """

    kind: Literal["files"]
    glob: Glob = Field(
        description=(
            "relative to the declaration, to the repository with `git`, or `s3://bucket/docs/**/*.pdf`, "
            "`https://host/docs/**/*.pdf`, `sftp://user@host/docs/**/*.pdf`; with `*`, `?`, `[abc]`, `[!abc]`, and "
            "`**/` for folders"
        )
    )
    git: Git | None = Field(None, description="the repository that has the files")
    auth: Auth | None = Field(None, description="who reads from an https:// or sftp:// server")
    follow_links: bool = Field(
        False,
        description=(
            "also read what symbolic links lead to outside of the glob's folder; else each is left out, "
            "with the reason. Inside it links are followed"
        ),
    )
    format: FileFormat = Field(
        "auto",
        description=(
            "auto: by the file's content and name; faq: pairs of question and answer from Markdown, HTML, "
            "DOCX, PPTX, EPUB or EML. Save RTF, ODT, DOC, PPT, XLS and MSG in one of these formats"
        ),
    )
    limits: FileLimits = Field(FileLimits(), description="which files are too large, or take too much to read")

    @property
    def is_local(self) -> bool:
        """Whether the files are those of this machine."""
        return self.git is None and "://" not in self.glob

    @model_validator(mode="after")
    def _is_one_place(self) -> Self:
        if self.git is not None and ("://" in self.glob or self.glob.startswith("/") or ".." in self.glob.split("/")):
            raise ValueError("glob: is a path inside the repository where git is declared, such as docs/**/*.md")
        if self.auth is not None and not self.glob.startswith(("https://", "sftp://")):
            raise ValueError("auth: is for a glob of https:// or sftp://, where it is sent to")
        if self.follow_links and not self.is_local:
            raise ValueError("follow_links: is for files of this machine; links in a repository are not followed")
        return self

    @model_validator(mode="after")
    def _rows_say_what_their_text_is(self) -> Self:
        suffix = self.glob.lower().rpartition(".")[2] if self.format == "auto" else self.format
        if suffix in _ROW_FORMATS and self.yields == "documents" and self.body in ("main", "all"):
            raise ValueError(
                f'body: {self.body} is for HTML and text, and rows have fields; say which one: body: "{{text}}", '
                "or declare yields: records"
            )
        return self

    @property
    def takes_own_fields(self) -> bool:
        return not self.fields


RowSource = RowsSource | SqlSource | CommandSource | PushedSource
Source = Annotated[SiteSource | FilesSource | RowSource, Field(discriminator="kind")]
