"""Sources that give rows: a function, a database, a program. Each row is an item, known by its id."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from almanac.schemas.declaration.credentials import Secret
from almanac.schemas.declaration.item_rules import ItemRules
from almanac.schemas.declaration.model import DeclaredModel
from almanac.schemas.declaration.sizes import Bytes
from almanac.schemas.declaration.template import Template, template_names


def _template_of(value: Any) -> Any:
    """The template of an id; the bare name of a column stands for its value."""
    return f"{{{value}}}" if isinstance(value, str) and re.fullmatch(r"\w+", value) else value


class RowLimits(DeclaredModel):
    """What reading the rows of a source may take. Beyond a limit of all rows, the run ends and nothing is taken."""

    rows: int = Field(10_000_000, gt=0, description="rows at most; with more, the run ends")
    bytes_per_row: Bytes = Field(1 << 20, gt=0, description="a larger row is a reject; a number or `1MiB`")
    seconds: int = Field(3600, gt=0, description="how long all rows may take; beyond, the run ends")
    memory: Bytes = Field(4 << 30, ge=128 << 20, description="of the process that gives the rows (Linux)")


class RowSource(ItemRules):
    """Keys of all sources that give rows. Without `fields`, each column is a field."""

    yields: Literal["records", "documents"] = Field(
        "records", description="records: declared fields, embedded whole; documents: the text of `body`, chunked"
    )
    id: Annotated[Template, BeforeValidator(_template_of)] = Field(
        description="what a row is known by: a column, or a template over columns such as `{shop}-{sku}`"
    )
    gone: str | None = Field(
        None, min_length=1, description="column that says that a row is gone, where it is neither empty nor false"
    )
    limits: RowLimits = Field(RowLimits(), description="what reading the rows may take")

    @model_validator(mode="after")
    def _rows_have_names(self) -> Self:
        if not template_names(self.id):
            raise ValueError("id: must name a column, such as sku or {shop}-{sku}")
        for key in ("each", "drop", "encoding"):
            if key in self.model_fields_set:
                raise ValueError(f"{key}: is for pages and files, and a row is one item")
        if self.yields == "documents" and self.body in ("main", "all"):
            raise ValueError(
                'body: rows have columns; say which one is the text: body: "{text}", or declare yields: records'
            )
        return self

    @property
    def _id_over_fields(self) -> str:
        return ""  # it is one over columns

    @property
    def takes_own_fields(self) -> bool:
        return not self.fields

    @property
    def is_complete(self) -> bool:
        """Whether a reading gives all rows, so that one that is missing is gone."""
        return True


class RowsSource(RowSource):
    """Rows that a Python function gives: any iterable of dicts, such as a resource of dlt."""

    kind: Literal["rows"]
    from_: str = Field(
        alias="from",
        min_length=1,
        description="`package.module:function`, imported from the declaration's folder too, or the name of an entry "
        "point of the group `almanac.sources`",
    )
    with_: dict[str, Any] = Field({}, alias="with", description="arguments of the function, by name")
    complete: bool = Field(
        True,
        description=(
            "whether it gives all rows, so that one that is missing is gone; `no` where it gives what is "
            "new, and `{gone: id}` of the rest"
        ),
    )

    @property
    def is_complete(self) -> bool:
        return self.complete


class SqlSource(RowSource):
    """Rows of a query, by SQLAlchemy: read only, and streamed."""

    kind: Literal["sql"]
    url: Secret = Field(
        description="of the database, as SQLAlchemy writes it: `${DATABASE_URL}`, `postgresql+psycopg://me@host/shop` "
        "or `sqlite:///shop.db`, relative to the declaration"
    )
    query: str = Field(min_length=1, description="one SELECT; each of its rows is an item")
    cursor: str | None = Field(
        None,
        min_length=1,
        description=(
            "column that grows with each change, such as `updated_at`: a run reads rows from the last value "
            "on, and the ids of all, to tell which are gone (not with `gone`)"
        ),
    )


class CommandSource(RowSource):
    """Rows that a program prints: a JSON object a line, or `{"gone": id}`."""

    kind: Literal["command"]
    command: list[str] = Field(
        min_length=1, description="the program and its arguments; it runs in the declaration's folder, without a shell"
    )
    complete: bool = Field(
        True, description="whether it prints all rows, so that one that is missing is gone; `no`: what is new"
    )

    @property
    def is_complete(self) -> bool:
        return self.complete


class PushedSource(RowSource):
    """Documents that others push to `POST /api/documents` of `almanac serve`; the next run publishes them."""

    kind: Literal["pushed"]
    id: Annotated[Template, BeforeValidator(_template_of)] = Field(
        "{id}", description="what a document is known by: a key of it, or a template over keys"
    )

    @property
    def is_complete(self) -> bool:
        return False
