"""The sections `index` and `retention` of a declaration."""

from typing import Literal

from pydantic import Field

from almanac.schemas.declaration.model import DeclaredModel


class Index(DeclaredModel):
    """Where versions are stored."""

    backend: Literal["local"] = Field("local", description="local: Chroma directories in the data directory")
    collection: str | None = Field(
        None,
        pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]{1,510}[a-zA-Z0-9]$",
        description="name of the Chroma collection; default: the knowledge base's name",
    )
    segment: int = Field(
        50_000,
        ge=1,
        description=(
            "chunks up to which a version is a single segment, one Chroma directory; a larger one consists of "
            "segments that versions share"
        ),
    )


class Retention(DeclaredModel):
    """How much history is kept. The live version, the three newest and those open in a reader always stay, with
    everything that they need.
    """

    versions: int = Field(20, ge=3, description="newest versions kept")
    crawls: int = Field(5, gt=0, description="newest crawls kept of each source, with their raw pages")
    vectors_days: int = Field(
        30, ge=1, description="days for which vectors that no kept version needs stay, in case their texts come back"
    )
