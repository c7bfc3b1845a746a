"""Sources of a declaration: sites crawled by Scrapy, and local files."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Discriminator, Field, PrivateAttr, Tag, model_validator

from almanac.schemas.declaration.addresses import private_host, refusal
from almanac.schemas.declaration.crawling import FieldName, Follow, Limits, Listing, Pagination, Politeness
from almanac.schemas.declaration.expressions import Regex
from almanac.schemas.declaration.fields import FieldRule, Selector
from almanac.schemas.declaration.globs import Glob
from almanac.schemas.declaration.model import DeclaredModel, Finding, refuse
from almanac.schemas.declaration.reading import ReadingLimits
from almanac.schemas.declaration.render import Render, read_render
from almanac.schemas.declaration.secret_parameters import SecretParameters
from almanac.schemas.declaration.sizes import Bytes
from almanac.schemas.declaration.template import Known, Template, template_names, unknown_field, unknown_name
from almanac.schemas.declaration.urls import Domain, HttpUrl, domain_of

_ROW_FORMATS = frozenset({"csv", "tsv", "json", "jsonl", "ndjson"})
Fetched = Literal["html", "pdf", "docx", "pptx", "xlsx", "epub", "eml"]
FileFormat = Literal[
    "auto", "csv", "json", "jsonl", "markdown", "text", "html", "pdf", "docx", "pptx", "xlsx", "epub", "eml", "faq"
]


def _body_kind(value: Any) -> str:
    return "selector" if isinstance(value, dict | Selector) else "word" if value in ("main", "all") else "template"


Body = Annotated[
    Annotated[Literal["main", "all"], Tag("word")]
    | Annotated[Selector, Tag("selector")]
    | Annotated[Template, Tag("template")],
    Discriminator(_body_kind),
]


OF_DOCUMENTS = frozenset({"filename", "length"})  # names in `metadata` that no field needs to have


class _Source(DeclaredModel):
    """Common keys of sites and files: how pages and files become records or documents."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$", description="unique within the knowledge base")
    yields: Literal["records", "documents"] = Field(
        "documents", description="records: declared fields, embedded whole; documents: free text, chunked"
    )
    each: Selector | None = Field(None, description="one match is one item, when a page holds several")
    id: Template = Field(
        "url",
        description='"url", or a template over fields such as "{tour_code}". "{price.amount}" takes a part of a price '
        "or "
        "of nested fields, in a list that of "
        "each entry; `{{` and `}}` are braces",
    )
    title: Template | None = Field(
        None,
        description="template over fields; without it, the page's own title: front matter, the heading that `<title>` "
        "names, first-level heading, `<title>`; "
        "else a file's name",
    )
    fields: dict[FieldName, FieldRule] = Field({}, description="name → rule")
    text: Template | None = Field(
        None, description="records: what is embedded, as a template; without it, the title and every text field"
    )
    metadata: list[str] | None = Field(
        None,
        description="fields kept for filters and hits; default: all of them. Every chunk carries them: leave out a "
        "field "
        "that is the body of a long document. "
        "Of documents also `filename`, the last part of the URL, and `length`, the characters of the whole "
        "text, where no field is called so",
    )
    body: Body = Field(
        "main", description='documents: main (boilerplate removed), all, a selector, or a "{field}" template'
    )

    _workspace: str | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _names_exist(self) -> Self:
        findings = [] if self.takes_own_fields else list(self._unknown_names())
        if not template_names(self.id) and self.id != "url":
            findings.append(Finding(("id",), 'must be "url" or a template such as "{code}"', self.id))
        if isinstance(self.body, str) and self.body not in ("main", "all") and not template_names(self.body):
            findings.append(
                Finding(
                    ("body",), 'must be main, all, a selector such as {css: "main"}, or a "{field}" template', self.body
                )
            )
        refuse(type(self), findings)
        if self.yields == "records" and not self.declared_fields() and not self.takes_own_fields:
            raise ValueError("yields: records needs fields")
        return self

    def _unknown_names(self) -> Iterator[Finding]:
        """Yields names in templates and metadata that no declared field has."""
        known: Known = {**dict.fromkeys(("url", "title")), **self.declared_fields()}
        for key, template in {"id": self.id, "title": self.title, "text": self.text, "body": self.body}.items():
            for name in template_names(template) if isinstance(template, str) else ():
                if (finding := unknown_name(name, known)) is not None:
                    yield Finding((key,), finding, template)
        for number, name in enumerate(self.metadata or ()):
            if name not in known and not (self.yields == "documents" and name in OF_DOCUMENTS):
                yield Finding(("metadata", number), unknown_field(name, known), name)

    def declared_fields(self) -> dict[str, FieldRule]:
        """Returns the declared fields of this source's items, in order. Fields that a file defines itself, such as
        columns, are not among them.
        """
        return dict(self.fields)

    @property
    def told_of_documents(self) -> set[str]:
        """Those of `OF_DOCUMENTS` that the metadata name, and no field has."""
        return (
            set(OF_DOCUMENTS & set(self.metadata or ()) - self.declared_fields().keys())
            if self.yields == "documents"
            else set()
        )

    @property
    def workspace(self) -> str | None:
        """The field that keeps workspaces apart, which is read as it is written; None where the knowledge base keeps
        none.
        """
        return self._workspace

    def keep_apart(self, workspace: str | None) -> None:
        """Sets `workspace`, which the knowledge base declares."""
        self._workspace = workspace

    @property
    def takes_own_fields(self) -> bool:
        """Whether an item's fields come from the file itself, such as the columns of a table."""
        return False


class SiteSource(_Source):
    """A website, crawled by Scrapy."""

    kind: Literal["site"]
    start_urls: list[HttpUrl] = Field(
        [],
        description=(
            "where the crawl starts; may be left out where there are sitemaps. What `${NAME}` fills in a query is "
            "a secret, `${NAME:-default}` is not"
        ),
    )
    sitemaps: list[HttpUrl] = Field(
        [],
        description="sitemaps, indexes of sitemaps (gzipped, too), lists of URLs and feeds: what they name is fetched "
        "where `follow` allows it; "
        "without start_urls, other links are followed only with `follow.allow`",
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
            "regular expression on the URL: pages that yield items; default: every page, or with `listing` those "
            "that its cards lead to"
        ),
    )
    limits: Limits = Field(Limits(), description="where a crawl stops by itself, and what reading a document may take")
    fetch: list[Fetched] = Field(
        ["html"],
        description="what is fetched: html, every page that is text, and documents that pages or sitemaps lead to, by "
        "the "
        "same rules as pages; a document is "
        "one item, all of its text. Documents of other types are left out and counted by type",
    )
    gone: list[Annotated[int, Field(ge=400, lt=500)]] = Field(
        [],
        description="statuses besides 404 and 410 by which a page is gone: `[401, 403]` where a site withdraws pages "
        "or "
        "puts them behind a login. Its item "
        "goes, as far as `gate.max_lost` allows; undeclared, such a page has failed and keeps its place",
    )
    vanish_after: int = Field(
        1,
        gt=0,
        description=(
            "complete crawls in a row without a link to a page, before it counts as vanished; pages that failed "
            "are kept"
        ),
    )
    politeness: Politeness = Field(Politeness(), description="how a crawl behaves towards a host")
    render: Annotated[Render | None, BeforeValidator(read_render)] = Field(
        None,
        description=(
            "pages are drawn by the machine's Chromium before they are stored: for sites whose content scripts "
            "put in. `true` for the defaults"
        ),
    )

    _language: str = PrivateAttr("en")
    _secret_parameters: SecretParameters = PrivateAttr(SecretParameters())

    @model_validator(mode="after")
    def _starts_somewhere(self) -> Self:
        if not self.start_urls and not self.sitemaps:
            raise ValueError("start_urls: is required where there are no sitemaps")
        return self

    @model_validator(mode="after")
    def _gone_for_good(self) -> Self:
        passing = [
            Finding(("gone", number), "tells a crawl to come back later", status)
            for number, status in enumerate(self.gone)
            if status in (408, 429)
        ]
        refuse(type(self), passing)
        return self

    @model_validator(mode="after")
    def _documents_can_be_items(self) -> Self:
        """Refuses what a document can never satisfy, instead of on each of them."""
        findings = []
        if "html" not in self.fetch:
            suffixes = "|".join(sorted(self.documents)) or "pdf"
            finding = (
                "html is missing, and pages lead to the documents; if documents alone are items, add match: "
                f"'\\.({suffixes})$'"
            )
            findings.append(Finding(("fetch",), finding, self.fetch))
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
        """The types of documents that are fetched."""
        return frozenset(self.fetch) - {"html"}

    @property
    def private_start(self) -> str | None:
        """A message about the first start URL or sitemap at a private address that is not allowed, with the remedy;
        None where there is none.

        Only names are examined: what a public name resolves to is checked on connection.
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
        return self.allowed_domains or sorted({domain_of(url) for url in [*self.start_urls, *self.sitemaps]})


class FileLimits(ReadingLimits):
    """Limits on the files that are read, and on reading them."""

    bytes_per_file: Bytes = Field(256 << 20, gt=0, description="a larger file is refused; a number or `256MiB`")


class FilesSource(_Source):
    """Local files. Without `fields`, the fields come from the file itself: columns, keys, front matter, or question and
    answer.
    """

    kind: Literal["files"]
    glob: Glob = Field(
        description=(
            "relative to the declaration: `*`, `?`, `[abc]`, `[!abc]`, and `**/` for folders; braces are not expanded"
        )
    )
    follow_links: bool = Field(
        False,
        description="also read what symbolic links lead to outside of the folder that the glob's fixed part names; "
        "else "
        "each such link is left out, with "
        "the reason. Inside it links are followed, and a file is read once, however many names it has",
    )
    format: FileFormat = Field(
        "auto",
        description="auto goes by the file's content and its name; faq takes question and answer pairs from Markdown, "
        "HTML, DOCX, PPTX, EPUB or EML. "
        "RTF, ODT, DOC, PPT, XLS and MSG are not read: save them as DOCX, PPTX, XLSX, PDF or EML",
    )
    limits: FileLimits = Field(FileLimits(), description="which files are too large, or take too much to read")

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


Source = Annotated[SiteSource | FilesSource, Field(discriminator="kind")]
