"""The section `embed` of a declaration: the embedder."""

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from almanac.schemas.declaration.api_section import EMBEDDERS, ApiSection, provided
from almanac.schemas.declaration.model import DeclaredModel
from almanac.schemas.declaration.url_types import BaseUrl

# lengths of the vectors of models that providers serve
DIMENSIONS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
    "mistral-embed": 1024,
    "mistral-embed-2312": 1024,
    "codestral-embed": 1536,
    "codestral-embed-2505": 1536,
}

_USUAL = {"mistral": "mistral-embed", "openai": "text-embedding-3-small"}  # models, where none is declared


class Prompts(DeclaredModel):
    """Prompts prepended to texts for embedding, for models trained with them, such as E5: `query: `, `passage: `. They
    count as tokens and are not stored.
    """

    query: str | None = Field(
        None,
        description=(
            "before each question; null: as the model's folder says, `''`: nothing. A new one embeds "
            "questions alone anew"
        ),
    )
    document: str | None = Field(
        None, description="before each text; null and `''` as above. A new one embeds every text anew"
    )


class Embed(ApiSection):
    """The embedder that converts texts to vectors."""

    of_api: ClassVar[tuple[str, ...]] = (
        *ApiSection.of_api, "same_as", "dimension", "dimensions", "price_per_million", "max_cost", "tokens_per_minute",
    )  # fmt: skip

    provider: str = Field(
        "local",
        description=(
            "local: on this machine; mistral: Mistral's API; openai: OpenAI's, or a server of its protocol; "
            "or the name of an installed package's (docs/models.md)"
        ),
    )
    model: str = Field(
        "all-MiniLM-L6-v2",
        min_length=1,
        description=(
            "local: `all-MiniLM-L6-v2` (English) or `multilingual-e5-small-q4` (a hundred languages), or a "
            "sentence-transformers folder, `./model`, relative to this file; APIs: the server's name, "
            "`mistral-embed` or `text-embedding-3-small` by default"
        ),
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto",
        description=(
            "local: how texts are embedded. auto: in bfloat16, which is faster, where the processor has it "
            "when the knowledge base is first built. Another one embeds every text anew"
        ),
    )
    reuse: Literal["exact", "tolerant"] = Field(
        "exact",
        description=(
            "local: what a machine without bfloat16 does with vectors made in it. exact: runs end with an "
            "error; tolerant: new texts are embedded in float32 (cosine of the two: .9999)"
        ),
    )
    prompts: Prompts = Field(
        Prompts(),
        description=("what is put before questions and texts, where the model was trained with it"),
    )
    same_as: BaseUrl | None = Field(
        None,
        description=(
            "APIs: the server whose vectors these are, where another serves the same model; null: a new "
            "address embeds anew"
        ),
    )
    dimension: int | None = Field(
        None,
        gt=0,
        le=65_536,
        description="APIs: length of the vectors; known for models of Mistral and OpenAI, required for others",
    )
    dimensions: int | None = Field(
        None,
        gt=0,
        le=65_536,
        description="openai: length of the vectors that the server is asked for, where its model has several",
    )
    price_per_million: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="APIs: price of a million tokens, in any currency; plans and reports then tell costs",
    )
    max_cost: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="APIs: a run whose estimated cost of embedding is higher is refused before it embeds",
    )
    tokens_per_minute: float | None = Field(
        None,
        ge=100,
        allow_inf_nan=False,
        description="APIs: limit of tokens that all processes of a data directory keep together, by estimate",
    )

    @field_validator("provider")
    @classmethod
    def _is_installed(cls, value: str) -> str:
        if value not in ("local", *_USUAL):
            provided(EMBEDDERS, value)
        return value

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_its_provider(cls, data: Any) -> Any:
        provider = data.get("provider") if isinstance(data, dict) else None
        if not isinstance(provider, str) or provider not in _USUAL:
            return data
        model = data.get("model", _USUAL[provider])
        known = data.get("dimensions") or (DIMENSIONS.get(model) if isinstance(model, str) else None)
        return {**data, "model": model, "dimension": known if data.get("dimension") is None else data["dimension"]}

    @model_validator(mode="after")
    def _fits_its_provider(self) -> Self:
        if self.provider == "local":
            return self
        if other := "precision" if self.precision != "auto" else "reuse" if self.reuse != "exact" else None:
            raise ValueError(f"{other} belongs to provider: local, and the provider is {self.provider}")
        if self.dimensions is not None and self.provider != "openai":
            raise ValueError(f"dimensions belongs to provider: openai, and the provider is {self.provider}")
        if self.dimension is None and self.provider in _USUAL:
            raise ValueError(f"dimension is required: that of '{self.model}' is not known")
        if self.dimensions not in (None, self.dimension):
            raise ValueError(f"dimension is {self.dimension}, and dimensions asks for {self.dimensions}")
        if self.max_cost is not None and self.price_per_million is None:
            raise ValueError("max_cost needs price_per_million")
        return self

    def cost(self, tokens: int | None) -> float | None:
        """Returns the price of `tokens` tokens, in the currency of `price_per_million`; None where no price is declared
        or `tokens` is None.
        """
        return (
            None
            if self.price_per_million is None or tokens is None
            else round(tokens * self.price_per_million / 1e6, 6)
        )
