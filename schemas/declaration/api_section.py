"""What the sections `embed` and `generate` say of a provider's API: its server, its key, its limits."""

import re
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from almanac.schemas.declaration.model import DeclaredModel
from almanac.schemas.declaration.url_types import BaseUrl, ServerUrl

MISTRAL_URL, OPENAI_URL = "https://api.mistral.ai", "https://api.openai.com/v1"
# The groups of entry points by which packages bring embedders and generators; Almanac's own are among them.
EMBEDDERS, GENERATORS = "almanac.embedders", "almanac.generators"
_WITHOUT_API = frozenset({"local", "extractive"})
_NAMED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@cache  # looking through all packages takes a twentieth of a second
def provided(group: str, name: str) -> EntryPoint:
    """The entry point of a provider. Raises ValueError with those that there are, if no installed package has it."""
    providers = {entry_point.name: entry_point for entry_point in entry_points(group=group)}
    if name not in providers:
        raise ValueError(f"no installed package provides it; there are {', '.join(sorted(providers))}")
    return providers[name]


def _named(value: str) -> str:
    if not _NAMED.fullmatch(value):
        raise PydanticCustomError(
            "secret", "must name a variable of the environment, as in ${OPENAI_API_KEY} (its value is not shown)"
        )
    return value


KeyName = Annotated[str, AfterValidator(_named)]


class ApiSection(DeclaredModel):
    """Keys that a section has for a provider behind an API."""

    of_api: ClassVar[tuple[str, ...]] = ("server_url", "base_url", "key", "options", "requests_per_second")

    provider: str
    server_url: ServerUrl | None = Field(None, description=f"mistral: its address, without `/v1`; null: {MISTRAL_URL}")
    base_url: BaseUrl | None = Field(
        None,
        description=f"openai: its address, as the server's documentation gives it, most with `/v1`; null: {OPENAI_URL}",
    )
    key: KeyName | None = Field(
        None,
        description=(
            "the variable with this server's key, as `${NAME}`, sent to this server alone. null: "
            "MISTRAL_API_KEY for mistral, OPENAI_API_KEY for OpenAI itself, none for another server"
        ),
    )
    requests_per_second: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="APIs: limit that all processes of a data directory keep together; null: none",
    )
    options: dict[str, Any] | None = Field(
        None, description="of a provider that another package brings: what it wants to know, as its documentation says"
    )
    timeout_s: float = Field(60.0, gt=0, le=3600, description="APIs: seconds for which an answer is waited for")

    @model_validator(mode="after")
    def _has_the_keys_of_its_provider(self) -> Self:
        providers = {"server_url": "mistral", "base_url": "openai"}
        other = next(
            (name for name in self.of_api if getattr(self, name) is not None and self.provider != providers.get(name)),
            None,
        )
        if other in providers and self.provider in (*_WITHOUT_API, *providers.values()):
            own = next((key for key, provider in providers.items() if provider == self.provider), None)
            hint = f"; that of {self.provider} is {own}" if own else f", and the provider is {self.provider}"
            raise ValueError(f"{other} belongs to provider: {providers[other]}{hint}")
        if self.options is not None and self.provider in providers.values():
            raise ValueError(f"options belongs to providers of other packages, and the provider is {self.provider}")
        if other and self.provider in _WITHOUT_API:
            raise ValueError(f"{other} belongs to an API, and the provider is {self.provider}")
        return self

    @property
    def server(self) -> str:
        """Address of the API; an empty text where another package's provider knows it."""
        return self.server_url or self.base_url or self._own_server

    @property
    def key_variable(self) -> str | None:
        """The variable that holds the API's key; None where the server is sent none."""
        if self.key is not None:
            return self.key[2:-1]
        if self.provider == "mistral":
            return "MISTRAL_API_KEY"
        return "OPENAI_API_KEY" if self.provider == "openai" and self.server == OPENAI_URL else None

    @property
    def _own_server(self) -> str:
        return {"mistral": MISTRAL_URL, "openai": OPENAI_URL}.get(self.provider, "")
