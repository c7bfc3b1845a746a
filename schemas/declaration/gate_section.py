"""The sections `validate` and `gate` of a declaration: conditions that items and a new version must meet before
publication.
"""

from typing import Literal, Self

from pydantic import Field, model_validator

from almanac.schemas.declaration.declared_expectations import Expectation
from almanac.schemas.declaration.model import DeclaredModel, Growth, Share


class Validate(DeclaredModel):
    """Conditions that a run's items must meet."""

    min_items: int = Field(1, ge=0, description="fewer items than this are refused by the gate")
    max_rejected: Share = Field(
        0.05,
        description=(
            "share of the items that may be rejected: a number from 0 to 1, or `5%`; of few items see `gate.at_least`"
        ),
    )
    expect: list[Expectation] = Field(
        [], description="what the items must satisfy besides the rules of their fields; Great Expectations judges both"
    )


class Gate(DeclaredModel):
    """Limits beyond which a new version is not published. A share is a number from 0 to 1, or `5%`; null switches a
    check off.
    """

    complete: Literal[True, "warn"] | None = Field(
        "warn",
        description=(
            "whether crawls have to be complete. warn: one that a limit or the default depth cut is "
            "published with a warning; true: it is refused; null: neither"
        ),
    )
    at_least: int = Field(
        20,
        ge=1,
        description=(
            "of fewer items or pages than this, a share limits their number: to what it allows of this "
            "many, and to half of them. 1: a share is a share, however few there are"
        ),
    )
    max_failed: Share | None = Field(0.05, description="share of the pages that failed to be fetched")
    max_lost: Share | None = Field(0.10, description="share of the live version's items that are gone")
    max_added: Growth | None = Field(
        None, description="new items, as a share of those of the live version; null: as many as come"
    )
    max_shrunk: Share | None = Field(
        0.10,
        description=(
            "share of the items that stayed, in the live version and still there, whose text fell below half of "
            "its length"
        ),
    )
    max_changed: Share | None = Field(None, description="share of the items that stayed whose text is another")
    golden: str | None = Field(
        None,
        min_length=1,
        description="file of golden questions, JSONL, relative to this file: what the new version has to find",
    )
    min_recall: Share | None = Field(
        None, description="share of the golden questions whose answer is among the first k hits, at least"
    )
    max_recall_drop: Share | None = Field(
        None, description="what that share may fall by against the live version, at most"
    )

    @model_validator(mode="after")
    def _recall_needs_questions(self) -> Self:
        if self.golden is None and (self.min_recall is not None or self.max_recall_drop is not None):
            raise ValueError("min_recall and max_recall_drop need golden questions: golden: FILE.jsonl")
        return self
