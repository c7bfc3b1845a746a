"""The section `chunk` of a declaration: how documents are split into chunks."""

from typing import Literal, NamedTuple, Self

from pydantic import Field, model_validator

from almanac.schemas.declaration.model import DeclaredModel
from almanac.schemas.declaration.template import Template


class ChunkLimits(NamedTuple):
    """Parameters of a chunker, all in `unit`. `max_size` and `whole_below` apply to `sentences` only."""

    unit: Literal["characters", "words", "tokens"]
    size: int
    overlap: int
    max_size: int = 0
    whole_below: int = 0


class Chunk(DeclaredModel):
    """How documents are split into chunks. Records are never split."""

    by: Literal["words", "paragraphs", "sentences", "recursive", "sections", "semantic", "none"] = Field(
        "paragraphs",
        description=(
            "where cuts are preferred. words: windows of so many; paragraphs; sentences: none is cut; "
            "recursive: paragraphs, lines, sentences, words; sections: under headings; semantic: where the "
            "topic shifts; none: documents stay whole. A heading stays with what follows it"
        ),
    )
    size: int | None = Field(
        None,
        gt=0,
        description=(
            "units of a chunk, at most (sentences: about); null: words 400, sentences 2000, others 600. The "
            "header of a table is repeated with rows that are cut off from it, and counts"
        ),
    )
    overlap: int | None = Field(
        None,
        ge=0,
        description=(
            "units that a chunk repeats of the one before, at most; null: words 50, sentences 200, semantic "
            "0, others 100"
        ),
    )
    unit: Literal["characters", "words", "tokens"] | None = Field(
        None,
        description=(
            "what size and overlap count; null: words for `by: words`, else characters. Tokens are those of "
            "the local embedder"
        ),
    )
    max_size: int | None = Field(None, gt=0, description="sentences: one that is longer is cut; null: three times size")
    whole_below: int | None = Field(
        None, ge=0, description="sentences: a document of up to so many units stays whole; null: size"
    )
    prefix: Template | None = Field(
        None,
        min_length=1,
        description=(
            "put before the text of each chunk and record when it is embedded and searched; a template over "
            "`title` and fields"
        ),
    )
    headings: bool = Field(
        False,
        description=(
            "the path of headings above a chunk is put before the text that is embedded, and is `section` in the "
            "metadata"
        ),
    )

    @property
    def limits(self) -> ChunkLimits:
        """The declared limits, completed by the chunker's defaults."""
        own = _CHUNKERS[self.by]
        size = own.size if self.size is None else self.size
        overlap = min(own.overlap, size * own.overlap // own.size) if self.overlap is None else self.overlap
        limits = ChunkLimits(self.unit or own.unit, size, overlap)
        if self.by != "sentences":
            return limits
        return limits._replace(
            max_size=self.max_size or 3 * size, whole_below=size if self.whole_below is None else self.whole_below
        )

    @model_validator(mode="after")
    def _limits_fit(self) -> Self:
        limits, own = self.limits, _CHUNKERS[self.by]
        if self.by == "none":
            return self
        if self.size is None and limits.unit != own.unit:
            raise ValueError(
                f"size: is required with unit: {limits.unit}; the default of by: {self.by}, {own.size}, is in "
                f"{own.unit}"
            )
        if limits.overlap >= limits.size:
            raise ValueError(f"overlap {limits.overlap} must be smaller than size {limits.size}")
        for name in ("max_size", "whole_below"):
            if self.by != "sentences" and getattr(self, name) is not None:
                raise ValueError(f"{name} is of by: sentences; by: {self.by} has no chunk above size {limits.size}")
        if self.by == "sentences" and limits.max_size < limits.size:
            raise ValueError(f"max_size {limits.max_size} must not be smaller than size {limits.size}")
        if self.by == "sentences" and limits.whole_below > limits.max_size:
            raise ValueError(f"whole_below {limits.whole_below} must not be larger than max_size {limits.max_size}")
        return self


_CHUNKERS = {
    "words": ChunkLimits("words", 400, 50),
    "paragraphs": ChunkLimits("characters", 600, 100),
    "sentences": ChunkLimits("characters", 2000, 200),
    "recursive": ChunkLimits("characters", 600, 100),
    "sections": ChunkLimits("characters", 600, 100),
    "semantic": ChunkLimits("characters", 600, 0),
    "none": ChunkLimits("characters", 600, 100),
}
