"""The section `generate` of a declaration: the generator of answers."""

from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from almanac.schemas.declaration.api_section import GENERATORS, ApiSection, provided


class Generate(ApiSection):
    """The generator that writes answers."""

    provider: str = Field(
        "extractive",
        description=(
            "extractive: sentences of the hits, each cited; mistral: Mistral's API; openai: OpenAI's, or a "
            "server of its protocol; or the name of an installed package's (docs/models.md)"
        ),
    )
    model: str | None = Field(
        None,
        min_length=1,
        description="APIs: the name that the server knows; mistral: `mistral-small-latest` by default",
    )
    temperature: float = Field(
        0.2, ge=0, le=2, description="APIs: 0 is the most likely answer, always; a model that takes none is sent none"
    )
    max_tokens: int = Field(500, gt=0, description="APIs: tokens of an answer, at most")
    passage_tokens: int = Field(
        3000,
        gt=0,
        description=(
            "APIs: tokens of passages that a prompt shows, at most, of four bytes each: fewer for a model of a small "
            "context"
        ),
    )
    links: bool = Field(
        False,
        description=(
            "APIs: whether a reply keeps links, images and HTML that none of its passages holds; else their text alone"
        ),
    )

    @field_validator("provider")
    @classmethod
    def _is_installed(cls, value: str) -> str:
        if value not in ("extractive", "mistral", "openai"):
            provided(GENERATORS, value)
        return value

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_mistral(cls, data: Any) -> Any:
        is_mistral = isinstance(data, dict) and data.get("provider") == "mistral" and data.get("model") is None
        return {**data, "model": "mistral-small-latest"} if is_mistral else data

    @model_validator(mode="after")
    def _names_a_model(self) -> Self:
        if self.provider == "extractive" and self.model is not None:
            raise ValueError("model belongs to an API, and the provider is extractive")
        if self.provider == "openai" and self.model is None:
            raise ValueError("model is required: the name that the server knows")
        return self
