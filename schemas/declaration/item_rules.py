"""How what a source has becomes items: keys that all sources have."""

import codecs
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, PrivateAttr, Tag, model_validator

from almanac.schemas.declaration.crawling import FieldName
from almanac.schemas.declaration.expressions import finds_elements
from almanac.schemas.declaration.field_rules import FieldRule, Selector
from almanac.schemas.declaration.model import DeclaredModel, Finding, refuse
from almanac.schemas.declaration.template import Known, Template, template_names, unknown_field, unknown_name


def _body_kind(value: Any) -> str:
    return "selector" if isinstance(value, dict | Selector) else "word" if value in ("main", "all") else "template"


Body = Annotated[
    Annotated[Literal["main", "all"], Tag("word")]
    | Annotated[Selector, Tag("selector")]
    | Annotated[Template, Tag("template")],
    Discriminator(_body_kind),
]


def _title_kind(value: Any) -> str:
    return "selector" if isinstance(value, dict | Selector) else "template"


Title = Annotated[
    Annotated[Selector, Tag("selector")] | Annotated[Template, Tag("template")], Discriminator(_title_kind)
]


def _css_of(value: Any) -> Any:
    return {"css": value} if isinstance(value, str) else value


def _on_markup(selector: Selector) -> Selector:
    if selector.json_ is not None or selector.attr is not None or not finds_elements(selector.css, selector.xpath):
        raise ValueError("takes css or xpath, which find elements")
    return selector


# a CSS selector alone, or with its key
MarkupSelector = Annotated[
    Selector, BeforeValidator(_css_of, json_schema_input_type=Selector | str), AfterValidator(_on_markup)
]


def _text_encoding(name: str) -> str:
    """Python's name of a charset, as others write it: of one in which ASCII is itself, or of UTF-16 or UTF-32."""
    ascii_alone = b"a\\u0041+AGE-"
    try:
        codec = codecs.lookup(name.strip()).name
        b"\xff".decode(codec, "replace")
        is_charset = codec.startswith(("utf-16", "utf-32")) or ascii_alone.decode(codec) == ascii_alone.decode("ascii")
    except (LookupError, UnicodeError):
        is_charset = False
    if not is_charset:
        raise ValueError("no encoding of texts: cp1250, iso8859-2, cp850, koi8-r and others are")
    return codec


OF_DOCUMENTS = frozenset({"filename", "length"})  # names in `metadata` that no field needs to have


class ItemRules(DeclaredModel):
    """Keys that all sources have: how pages, files and rows become records or documents."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$", description="unique within the knowledge base")
    yields: Literal["records", "documents"] = Field(
        "documents", description="records: declared fields, embedded whole; documents: free text, chunked"
    )
    encoding: Annotated[str, AfterValidator(_text_encoding)] | None = Field(
        None,
        description=(
            "charset, where texts and pages or their server do not say it, or wrongly, such as `cp1250`; "
            "only a byte order mark counts more"
        ),
    )
    drop: list[MarkupSelector] = Field(
        [],
        description=(
            "elements of HTML and XML that nothing is read of, as CSS or `{xpath: …}`: related products, "
            "what a style sheet hides. Their links are followed"
        ),
    )
    each: Selector | None = Field(None, description="one match is one item, when a page holds several")
    id: Template = Field(
        "url",
        description=(
            '`url`, or a template such as "{tour_code}". "{price.amount}" takes a part of a price or of '
            "nested fields; `{{` and `}}` are braces"
        ),
    )
    title: Title | None = Field(
        None,
        description=(
            "a template over fields, or a selector such as {css: h2.name}. Without it: front matter, the "
            "heading that `<title>` names, first-level heading, `<title>`, a file's name"
        ),
    )
    fields: dict[FieldName, FieldRule] = Field({}, description="name → rule")
    text: Template | None = Field(
        None, description="records: what is embedded, as a template; without it, the title and every text field"
    )
    metadata: list[str] | None = Field(
        None,
        description=(
            "fields kept with every chunk, for filters and hits; default: all. Leave out a field that is "
            "the body of a long document. Of documents also `filename` and `length` (characters), where no "
            "field is called so"
        ),
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
        for key, template in {
            "id": self._id_over_fields,
            "title": self.title,
            "text": self.text,
            "body": self.body,
        }.items():
            for name in template_names(template) if isinstance(template, str) else ():
                if (finding := unknown_name(name, known)) is not None:
                    yield Finding((key,), finding, template)
        for number, name in enumerate(self.metadata or ()):
            if name not in known and not (self.yields == "documents" and name in OF_DOCUMENTS):
                yield Finding(("metadata", number), unknown_field(name, known), name)

    @property
    def _id_over_fields(self) -> str:
        return self.id

    def declared_fields(self) -> dict[str, FieldRule]:
        """Returns the declared fields of this source's items, in order. Fields that a file defines itself, such as
        columns, are not among them.
        """
        return dict(self.fields)

    @property
    def document_facts(self) -> set[str]:
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
