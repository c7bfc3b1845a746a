"""Data passed along the pipeline: page → draft → item → chunk, and rejects for quarantined items."""

import dataclasses
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from almanac.schemas.hashing import canonical_json, sha256
from almanac.schemas.left_out import LeftOut

Kind = Literal["record", "document"]
Markup = Literal["html", "markdown", "plain", "paged"]  # paged: Markdown with page breaks
Place = int | str | None  # number of a page or slide, name of a sheet

DEFECT = "a defect of Almanac, whose traceback is in the log: "  # begins the reason of a reject
PAGE_BREAK = "\f"  # begins a line `unit=name` of paged text, such as `page=4`
# among an item's fields: [start, unit, page, slide or sheet] of each page of its text, in order; no field of its own is
# called so
PLACES = "\fpage starts"


@dataclass(frozen=True, slots=True)
class Page:
    """A fetched page or file, unchanged."""

    url: str  # after redirects
    body: bytes
    status: int = 200
    content_type: str = ""
    fetched_at: str = ""  # ISO 8601
    requested_url: str = ""
    etag: str | None = None
    last_modified: str | None = None
    canonical: str | None = None  # canonical URL as stated by the page itself
    robots: str = ""  # values of X-Robots-Tag, one a line
    noindex: str = ""  # where the page asks not to be indexed, as of the crawl; empty if it does not
    file_name: str = ""  # of a document: the name under which the server sent it
    link_text: str = ""  # of a document: what links call it
    # how a browser drew the page: its name and version, and what it waited for; empty where the body is what the server
    # sent
    rendered: str = ""
    aliases: tuple[str, ...] = ()  # other URLs that redirect to this page

    @property
    def sha256(self) -> str:
        return sha256(self.body)


@dataclass(frozen=True, slots=True)
class Draft:
    """An item as mapped from a page, before cleaning."""

    source: str
    kind: Kind
    document_id: str
    url: str
    title: str
    fields: dict[str, Any]
    body: str | None  # text of a document; None for records
    markup: Markup  # of the body; for records, of the page
    raw_sha256: str  # hash of the page's body
    fetched_at: str
    language: str | None = None  # detected primary BCP 47 tag; None where the declaration sets the language


@dataclass(frozen=True, slots=True)
class Item:
    """A cleaned record or document.

    `text` is embedded as it is (records) or split into chunks (documents). `passage` is what there is to read of a
    record: its metadata as labelled lines, and what its text holds beyond them; None for documents. A detected
    `language` is also in the metadata, so that filters can use it.
    """

    source: str
    kind: Kind
    document_id: str
    url: str
    title: str
    text: str
    fields: dict[str, Any]
    metadata: dict[str, Any]
    raw_sha256: str
    fetched_at: str
    language: str | None = None
    passage: str | None = None

    @property
    def content_sha256(self) -> str:
        """Hash of everything visible to a reader except `fetched_at`: equal in two runs that find the same content."""
        place = [self.source, self.kind, self.document_id, self.url, self.title]
        return sha256(canonical_json([*place, self.text, self.passage, self.fields, self.metadata]))


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """A row of the index: a span of a document, with `document.text[start:end] == text` (characters), or a whole
    record, with `start` and `end` None.

    `passage` is what there is to read and to search of a record, None for a span of a document. It is not embedded.
    """

    document_id: str
    source: str
    url: str
    title: str
    kind: Kind
    ordinal: int
    start: int | None
    end: int | None
    text: str
    embedded_text: str
    metadata: dict[str, Any]
    fetched_at: str
    passage: str | None = None

    @property
    def text_sha256(self) -> str:
        """Hash of the embedded text; with the embedder's fingerprint, the key of its vector."""
        return sha256(self.embedded_text)

    @property
    def chunk_id(self) -> str:
        """Content-addressed id of 32 hex digits: any visible difference gives another id, so a stored row is never
        rewritten.
        """
        place = [self.source, self.document_id, self.url, self.title, self.kind, self.ordinal, self.start, self.end]
        return sha256(canonical_json([*place, self.text, self.passage, self.text_sha256, self.metadata]))[:32]


@dataclass(frozen=True, slots=True)
class Reject:
    """A quarantined item, with the reason."""

    source: str
    url: str
    document_id: str | None
    stage: str
    reason: str
    field: str | None = None
    value: Any = None
    rule: str | None = None
    # field → declared condition that it breaks, the reason's first; empty for other reasons
    breaks: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def is_defect(self) -> bool:
        """Whether the item is fine as far as anybody knows, and Almanac is not: an exception that nobody foresaw."""
        return self.reason.startswith(DEFECT)

    def as_json(self) -> dict[str, Any]:
        """The reject as it stands in rejects.jsonl."""
        return {key: value for key, value in asdict(self).items() if key != "breaks"}


@dataclass(frozen=True, slots=True)
class Duplicate:
    """An item that was dropped because of another one, `equals`, of its source ({url, document_id}).

    `reason` is `equal` (same text; of records, the same fields, too) or `canonical` (its page calls the other's URL the
    right one).
    """

    source: str
    url: str
    document_id: str
    reason: Literal["equal", "canonical"]
    equals: dict[str, str]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(slots=True)
class Extraction:
    """Result of mapping one page."""

    drafts: list[Draft] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    matched: dict[str, int] = field(default_factory=dict)  # field → number of items in which its rule matched
    # False where the stored page was damaged, or its reading interrupted: another run reads it again
    whole: bool = True
    left_out: LeftOut = field(default_factory=LeftOut)  # text of the page that no draft has on purpose
