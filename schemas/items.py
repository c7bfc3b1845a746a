"""What travels down the road: page → draft → item → chunk, and rejects beside it."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from almanac.schemas.hashing import canonical_json, sha256

Kind = Literal["record", "document"]
Markup = Literal["html", "markdown", "plain"]


@dataclass(frozen=True, slots=True)
class Page:
    """What was fetched, as it was. `url` is where the content came from, after redirects; `canonical` the right address of the page as
    it states it itself; `aliases` are further URLs that redirect to it."""

    url: str
    body: bytes
    status: int = 200
    content_type: str = ""
    fetched_at: str = ""
    requested_url: str = ""
    etag: str | None = None
    last_modified: str | None = None
    canonical: str | None = None
    aliases: tuple[str, ...] = ()

    @property
    def sha256(self) -> str:
        return sha256(self.body)


@dataclass(frozen=True, slots=True)
class Draft:
    """An item as mapped from a page, before cleaning. `body` is a document's text, None for records; `markup` is the body's, for records the page's.

    `language` is the primary BCP 47 tag that was detected; None where the declaration names the language.
    """

    source: str
    kind: Kind
    document_id: str
    url: str
    title: str
    fields: dict[str, Any]
    body: str | None
    markup: Markup
    raw_sha256: str
    fetched_at: str
    language: str | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """A record or a document, cleaned. `text` is what is embedded (records) or cut into chunks (documents).

    A `language` that was detected is part of the metadata, so that filters know it.
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

    @property
    def content_sha256(self) -> str:
        """Hash of everything a reader can see of it but the time; two runs that find the same content agree on it."""
        return sha256(canonical_json([self.source, self.kind, self.document_id, self.url, self.title, self.text, self.fields, self.metadata]))


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """A row of the index: a span of a document (`document.text[start:end] == text`), or a whole record (no span)."""

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

    @property
    def text_sha256(self) -> str:
        """Hash of the embedded text: the vector's key, together with the embedder's fingerprint."""
        return sha256(self.embedded_text)

    @property
    def chunk_id(self) -> str:
        """Content-addressed: any visible difference gives another id, so a stored row is never rewritten."""
        place = [self.source, self.document_id, self.url, self.title, self.kind, self.ordinal, self.start, self.end]
        return sha256(canonical_json([*place, self.text, self.text_sha256, self.metadata]))[:32]


@dataclass(frozen=True, slots=True)
class Reject:
    """An item that was quarantined, and why."""

    source: str
    url: str
    document_id: str | None
    stage: str
    reason: str
    field: str | None = None
    value: Any = None
    rule: str | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(slots=True)
class Extraction:
    """What a page yields. `matched` counts, per field, the items in which its rule found something; not `whole` where stored bytes were damaged."""

    drafts: list[Draft] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    matched: dict[str, int] = field(default_factory=dict)
    whole: bool = True
