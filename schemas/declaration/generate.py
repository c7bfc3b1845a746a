"""The section `generate` of a declaration: the generator of answers."""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from almanac.schemas.declaration.model import DeclaredModel
from almanac.schemas.declaration.urls import ServerUrl


class Generate(DeclaredModel):
    """The generator that writes answers."""

    provider: Literal["extractive", "mistral"] = Field(
        "extractive",
        description=(
            "extractive: sentences of the hits, each cited; mistral: Mistral's API or a server that speaks it, "
            "with the key in MISTRAL_API_KEY"
        ),
    )
    model: str | None = Field(
        None, min_length=1, description="mistral: the name that the server knows, `mistral-small-latest` by default"
    )
    server_url: ServerUrl | None = Field(
        None, description="mistral: its address, without `/v1`; null: https://api.mistral.ai"
    )
    temperature: float = Field(0.2, ge=0, le=2, description="mistral: 0 is the most likely answer, always")
    max_tokens: int = Field(500, gt=0, description="mistral: tokens of an answer, at most")
    requests_per_second: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="mistral: limit that all processes of a data directory keep together; null: none",
    )
    links: bool = Field(
        False,
        description=(
            "mistral: whether a reply keeps links, images and HTML that none of its passages holds; else their "
            "text alone, and addresses become …"
        ),
    )
    timeout_s: float = Field(60.0, gt=0, le=3600, description="mistral: seconds for which an answer is waited for")

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_mistral(cls, data: Any) -> Any:
        is_mistral = isinstance(data, dict) and data.get("provider") == "mistral" and data.get("model") is None
        return {**data, "model": "mistral-small-latest"} if is_mistral else data

    @model_validator(mode="after")
    def _fits_its_provider(self) -> Self:
        if self.provider == "extractive" and (self.model is not None or self.server_url is not None):
            raise ValueError("model and server_url belong to provider: mistral, and the provider is extractive")
        return self
