"""Settings of the HTTP API, from the environment and the options of `almanac serve`; docs/reference/api.md has them."""

from typing import Annotated, Any, Self

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from almanac.core.settings import document
from almanac.schemas.errors import UsageError

_Count = Annotated[int, Field(ge=1)]
_Seconds = Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)]


class Settings(BaseSettings):
    """Address, keys, defaults and limits of a server. The limits prevent one caller from blocking the others."""

    model_config = SettingsConfigDict(
        env_ignore_empty=True, extra="ignore", frozen=True, populate_by_name=True, hide_input_in_errors=True
    )

    host: str = Field(
        "127.0.0.1",
        min_length=1,
        validation_alias="ALMANAC_HOST",
        description="address to listen at; another than loopback needs keys",
    )
    port: int = Field(8080, ge=0, le=65535, validation_alias="PORT", description="port; 0 takes a free one")
    api_keys: SecretStr = Field(
        SecretStr(""),
        validation_alias="ALMANAC_API_KEYS",
        description="keys, separated by commas; `KEY:WORKSPACE` restricts a key to one workspace",
    )
    push_keys: SecretStr = Field(
        SecretStr(""),
        validation_alias="ALMANAC_PUSH_KEYS",
        description="keys that push documents, and may nothing else; `KEY:KB` restricts a key to one knowledge base",
    )
    retrieval_k: int | None = Field(
        None,
        ge=1,
        le=1000,
        validation_alias="RETRIEVAL_K",
        description="default k of chat requests; unset: as declared",
    )
    temperature: float | None = Field(
        None,
        ge=0,
        le=2,
        allow_inf_nan=False,
        validation_alias="TEMPERATURE",
        description="default temperature of chat requests; unset: as declared",
    )
    max_input_chars: _Count = Field(
        12_000, validation_alias="MAX_INPUT_CHARS", description="characters of a question, and of its whole history"
    )
    max_request_bytes: _Count = Field(
        512 * 1024, validation_alias="ALMANAC_MAX_REQUEST_BYTES", description="bytes of a request's body"
    )
    body_timeout_s: _Seconds = Field(
        10.0,
        validation_alias="ALMANAC_BODY_TIMEOUT_S",
        description="seconds within which the body of a request has to arrive",
    )
    max_k: int = Field(
        100, ge=1, le=1000, validation_alias="ALMANAC_MAX_K", description="hits that a request may ask for"
    )
    max_filter_depth: _Count = Field(
        8, validation_alias="ALMANAC_MAX_FILTER_DEPTH", description="nested levels of a filter"
    )
    max_filter_size: _Count = Field(
        200, validation_alias="ALMANAC_MAX_FILTER_SIZE", description="names and values in a filter"
    )
    deadline_s: _Seconds = Field(
        60.0, validation_alias="ALMANAC_DEADLINE_S", description="seconds within which a request is answered"
    )
    workers: int = Field(
        1,
        ge=1,
        le=64,
        validation_alias="ALMANAC_WORKERS",
        description="processes that answer, each with a model of its own",
    )
    max_concurrent: int = Field(
        8,
        ge=1,
        le=256,
        validation_alias="ALMANAC_MAX_CONCURRENT",
        description="requests that each worker processes at the same time",
    )
    max_waiting: int = Field(
        32,
        ge=0,
        validation_alias="ALMANAC_MAX_WAITING",
        description="requests that may wait for a free place, in each worker",
    )
    rate_per_minute: int | None = Field(
        None,
        ge=1,
        validation_alias="ALMANAC_RATE_PER_MINUTE",
        description="requests of one key per minute; unset: 600, and no limit without keys",
    )
    shutdown_s: _Seconds = Field(
        30.0, validation_alias="ALMANAC_SHUTDOWN_S", description="seconds that a shutdown waits for requests in flight"
    )

    @classmethod
    def read(cls, **options: Any) -> Self:
        """Reads the settings from the environment; options that are not None take precedence. Raises UsageError that
        names each invalid variable.
        """
        try:
            return cls(**{name: value for name, value in options.items() if value is not None})
        except ValidationError as error:
            findings = "; ".join(
                f"{'.'.join(map(str, finding['loc']))}: {finding['msg'].lower()}" for finding in error.errors()
            )
            raise UsageError(
                findings,
                where="environment",
                hint=f"{document('reference/api.md')} lists every variable",
            ) from None
