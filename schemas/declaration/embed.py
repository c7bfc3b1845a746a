"""The section `embed` of a declaration: the embedder."""

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from almanac.schemas.declaration.model import DeclaredModel
from almanac.schemas.declaration.urls import ServerUrl

MISTRAL_DIMENSIONS = {
    "mistral-embed": 1024,
    "mistral-embed-2312": 1024,
    "codestral-embed": 1536,
    "codestral-embed-2505": 1536,
}


class Prompts(DeclaredModel):
    """Prompts prepended to texts for embedding, for models trained with them, such as E5: `query: `, `passage: `. They
    count as tokens and are not stored.
    """

    query: str | None = Field(
        None,
        description="before each question; null: what the model's folder says in config_sentence_transformers.json, "
        "`''`: "
        "nothing, whatever it says. "
        "A new one embeds questions alone anew",
    )
    document: str | None = Field(
        None, description="before each text; null and `''` as above. A new one embeds every text anew"
    )


class Embed(DeclaredModel):
    """The embedder that converts texts to vectors."""

    _of_mistral: ClassVar[tuple[str, ...]] = (
        "server_url", "same_as", "dimension", "price_per_million", "max_cost", "requests_per_second",
        "tokens_per_minute",
    )  # fmt: skip

    provider: Literal["local", "mistral"] = Field(
        "local",
        description=(
            "local: on this machine; mistral: Mistral's API or a server that speaks it, with the key in MISTRAL_API_KEY"
        ),
    )
    model: str = Field(
        "all-MiniLM-L6-v2",
        min_length=1,
        description="local: `all-MiniLM-L6-v2`, for English, or `multilingual-e5-small-q4`, for a hundred languages, "
        "which are bundled, "
        "or a sentence-transformers folder, with a slash (`./model`), relative to this file, by the extra `models`; "
        "mistral: the name that the server knows, `mistral-embed` by default",
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto",
        description="local: how texts are embedded. auto: in bfloat16, which is faster, where the processor has it "
        "when "
        "the knowledge base is first built, and "
        "so from then on; another one embeds every text anew. Questions are embedded in float32",
    )
    reuse: Literal["exact", "tolerant"] = Field(
        "exact",
        description="local: what a machine without bfloat16 does with a knowledge base that was built in it. exact: "
        "its "
        "runs end with an error; tolerant: it "
        "embeds new texts in float32 and keeps the other vectors (cosine of the two: .9999)",
    )
    prompts: Prompts = Field(
        Prompts(),
        description=(
            "what is put before questions and texts; for mistral, where a compatible server has a model that "
            "wants it: Mistral's own do not"
        ),
    )
    server_url: ServerUrl | None = Field(
        None, description="mistral: its address, without `/v1`; null: https://api.mistral.ai"
    )
    same_as: ServerUrl | None = Field(
        None,
        description=(
            "mistral: address of the server whose vectors these are, where another serves the same model; null: "
            "its own: a new address embeds anew"
        ),
    )
    dimension: int | None = Field(
        None,
        gt=0,
        le=65_536,
        description="mistral: length of the vectors; known for Mistral's own models, required for others",
    )
    price_per_million: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="mistral: price of a million tokens, in any currency; plans and reports then tell costs",
    )
    max_cost: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="mistral: a run whose estimated cost of embedding is higher is refused before it embeds",
    )
    requests_per_second: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="mistral: limit that all processes of a data directory keep together; null: none",
    )
    tokens_per_minute: float | None = Field(
        None, ge=100, allow_inf_nan=False, description="mistral: the same for tokens, by estimate"
    )
    timeout_s: float = Field(60.0, gt=0, le=3600, description="mistral: seconds for which an answer is waited for")

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_mistral(cls, data: Any) -> Any:
        if not isinstance(data, dict) or data.get("provider") != "mistral":
            return data
        model = data.get("model", "mistral-embed")
        known = MISTRAL_DIMENSIONS.get(model) if isinstance(model, str) else None
        return {**data, "model": model, "dimension": known if data.get("dimension") is None else data["dimension"]}

    @model_validator(mode="after")
    def _fits_its_provider(self) -> Self:
        if self.provider == "local":
            if others := [name for name in self._of_mistral if getattr(self, name) is not None]:
                raise ValueError(f"{others[0]} belongs to provider: mistral, and the provider is local")
            return self
        if other := "precision" if self.precision != "auto" else "reuse" if self.reuse != "exact" else None:
            raise ValueError(f"{other} belongs to provider: local, and the provider is mistral")
        if self.dimension is None:
            raise ValueError(f"dimension is required: that of '{self.model}' is not known")
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
