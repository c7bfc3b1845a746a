"""The section `retrieve` of a declaration: defaults of a search."""

from typing import Literal, Self

from pydantic import Field, model_validator

from almanac.schemas.declaration.model import DeclaredModel, Share
from almanac.schemas.declaration.template import Template
from almanac.schemas.declaration.workspace import FieldOrWorkspace


class Tags(DeclaredModel):
    """How tags contribute to the score: the tags named in the question, and the clusters formed by tags that occur on
    the same pages.
    """

    field: str = Field("tags", min_length=1, description="metadata field that lists a chunk's tags")
    weight: Share = Field(0.25, description="share of the score for the named tags that a chunk has")
    cluster_weight: Share = Field(
        0.15,
        description=(
            "share of the score for how many of its tags lie in the clusters of those; the rest is the search's own"
        ),
    )
    floor: float | None = Field(
        None,
        ge=-1,
        le=1,
        description=(
            "where no tag's words are in the question: least cosine of the question to a tag's name; null: "
            "one that stands out"
        ),
    )

    @model_validator(mode="after")
    def _leaves_room(self) -> Self:
        if self.weight + self.cluster_weight >= 1:
            raise ValueError(
                "weight and cluster_weight leave nothing for the search itself: their sum must be less than 1"
            )
        return self


class Rerank(DeclaredModel):
    """A cross-encoder that reranks the best candidates by reading question and text together."""

    provider: Literal["local"] = Field(
        "local", description="local: a cross-encoder of sentence-transformers on this machine"
    )
    model: str = Field(min_length=1, description="its folder, with a slash (`./model`), relative to this file")
    candidates: int = Field(
        20,
        gt=0,
        le=200,
        description=("how many of the best are read; of a text too long for the model, its beginning"),
    )


class Retrieve(DeclaredModel):
    """Defaults of a search."""

    k: int = Field(4, gt=0, le=1000, description="hits returned")
    mode: Literal["dense", "lexical", "hybrid"] = Field(
        "hybrid", description="dense: nearest vectors; lexical: words, by BM25; hybrid: both, in one score"
    )
    floor: float | None = Field(
        None,
        ge=-1,
        le=1,
        description="hits of a smaller dense cosine are not answered from; null: the embedder's calibrated one",
    )
    confident: float | None = Field(
        None,
        ge=-1,
        le=1,
        description=(
            "dense cosine from which kb-llm uses the hits; null: a relevance of .7 or, where that is "
            "unknown, the embedder's calibrated cosine"
        ),
    )
    dense_weight: Share = Field(
        0.5,
        description=(
            "weight of vectors in a hybrid score, where words match the whole question; more where they "
            "match less of it"
        ),
    )
    candidates: int = Field(50, gt=0, le=1000, description="candidates of each retriever, of which k stay")
    query: Template | None = Field(
        None,
        min_length=1,
        description=(
            "what is searched for, as a template over `question` and the parts that a caller names, such as "
            "`{product} {question}`"
        ),
    )
    expand: int = Field(
        0,
        ge=0,
        le=5,
        description=(
            "other wordings of the question that the declared model writes, each searched for, too; where "
            "it does not answer, the question alone is"
        ),
    )
    least_k: int = Field(1, ge=0, description="with `share`: hits that are returned whatever their score")
    share: Share | None = Field(
        None,
        description="hits whose score is less than this share of the best one's are left out; null: k hits, always",
    )
    one_per_document: bool = Field(False, description="of each document the best chunk alone")
    diversity: Share = Field(0.0, description="0: the best hits; towards 1: hits that are unlike each other")
    neighbours: int = Field(0, ge=0, le=10, description="chunks before and after each hit that are returned with it")
    tags: Tags | None = Field(None, description="tags in the score; null: they play no part")
    rerank: Rerank | None = Field(None, description="a second look at the best candidates; null: none")
    workspace: FieldOrWorkspace | None = Field(
        None,
        description=(
            "metadata field that keeps workspaces apart, whatever the filter: its name, or `{field: team, "
            "required: true}`"
        ),
    )
