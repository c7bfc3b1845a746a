"""The sections `validate` and `gate` of a declaration: conditions that items and a new version must meet before publication."""

import re
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from almanac.schemas.declaration.model import DeclaredModel, Growth, Share


def _regular_expression(value: str) -> str:
    try:
        re.compile(value)  # Great Expectations uses `re`, unlike the other expressions of a declaration
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return value


class Expectation(DeclaredModel):
    """A condition on every value of a field; an item that violates it is quarantined."""

    field: str = Field(description="name of a declared field, `title`, `url` or `text`")
    unique: bool = Field(False, description="no two items share the value")
    not_null: bool = Field(False, description="the value is there")
    min_length: int | None = Field(None, ge=0, description="characters of a text, or entries of a list, at least")
    max_length: int | None = Field(None, ge=0, description="characters of a text, or entries of a list, at most")
    min: float | None = Field(None, allow_inf_nan=False, description="smallest number")
    max: float | None = Field(None, allow_inf_nan=False, description="largest number")
    pattern: Annotated[str, AfterValidator(_regular_expression)] | None = Field(None, description="regular expression that the text matches from its start")
    one_of: list[Any] | None = Field(None, description="allowed values")


class Validate(DeclaredModel):
    """Conditions that a run's items must meet."""

    min_items: int = Field(1, ge=0, description="fewer items than this are refused by the gate")
    max_rejected: Share = Field(0.05, description="share of the items that may be quarantined: a number from 0 to 1, or `5%`")
    expect: list[Expectation] = Field([], description="checked by Great Expectations")


class Gate(DeclaredModel):
    """Limits beyond which a new version is not published. A share is a number from 0 to 1, or `5%`; null switches a check off."""

    max_failed: Share | None = Field(0.05, description="share of the pages that failed to be fetched")
    max_lost: Share | None = Field(0.10, description="share of the live version's items that are gone")
    max_added: Growth | None = Field(None, description="new items, as a share of those of the live version; null: as many as come")
    max_shrunk: Share | None = Field(
        0.10, description="share of the items that stayed, in the live version and still there, whose text fell below half of its length"
    )
    max_changed: Share | None = Field(None, description="share of the items that stayed whose text is another")
    golden: str | None = Field(None, min_length=1, description="file of golden questions, JSONL, relative to this file: what the new version has to find")
    min_recall: Share | None = Field(None, description="share of the golden questions whose answer is among the first k hits, at least")
    max_recall_drop: Share | None = Field(None, description="what that share may fall by against the live version, at most")

    @model_validator(mode="after")
    def _recall_needs_questions(self) -> Self:
        if self.golden is None and (self.min_recall is not None or self.max_recall_drop is not None):
            raise ValueError("min_recall and max_recall_drop need golden questions: golden: FILE.jsonl")
        return self
