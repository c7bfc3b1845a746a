"""The client libraries of the providers: Mistral's own, and OpenAI's for every server that speaks its protocol."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from almanac.core.extras import Extra
from almanac.index.api.api_client import Refusal, Sdk
from almanac.schemas.declaration.api_section import OPENAI_URL

if TYPE_CHECKING:
    import httpx2


class MistralSdk:
    """mistralai. It neither logs headers (MISTRAL_DEBUG) nor sends telemetry (MISTRAL_SDK_TELEMETRY)."""

    extra: Extra = "mistral"
    address, protocol, path_hint = "server_url", "Mistral", "without /v1"

    def client(self, server: str, key: Callable[[], str], http: "httpx2.Client", timeout_s: float) -> Any:
        import httpx2
        from mistralai.client import Mistral
        from mistralai.client.utils.logger import NoOpLogger

        os.environ.pop("MISTRAL_SDK_TELEMETRY", None)  # asked for by the SDK with the first request
        return Mistral(
            api_key=key,
            server_url=server,
            client=http,
            # never opened; the SDK's default one would start an event loop when it is disposed of
            async_client=httpx2.AsyncClient(verify=httpx2.create_ssl_context()),
            timeout_ms=round(1000 * timeout_s),
            debug_logger=NoOpLogger(),
        )

    def refusal(self, error: Exception) -> Refusal | None:
        from mistralai.client import errors

        if not isinstance(error, errors.MistralError):
            return None
        return Refusal(error.status_code, error.body, error.headers)

    def cause(self, error: Exception) -> Exception:
        import httpx2
        from mistralai.client import errors

        return httpx2.HTTPError("no answer") if isinstance(error, errors.NoResponseError) else error


class OpenAISdk:
    """openai, for OpenAI itself, Azure, Gemini, Ollama, vLLM, LM Studio, llama.cpp and others that speak its protocol.

    OPENAI_ORG_ID and OPENAI_PROJECT_ID are sent to OpenAI alone.
    """

    extra: Extra = "openai"
    address, protocol, path_hint = "base_url", "OpenAI", "most end with /v1"

    def client(self, server: str, key: Callable[[], str], http: "httpx2.Client", timeout_s: float) -> Any:
        from openai import Omit, OpenAI

        headers: Any = {} if server == OPENAI_URL else {"OpenAI-Organization": Omit(), "OpenAI-Project": Omit()}
        if not key():  # the library insists on one
            http.event_hooks = {**http.event_hooks, "request": [_without_key]}
        return OpenAI(
            api_key=key if key() else "none",
            base_url=server,
            max_retries=0,
            timeout=timeout_s,
            http_client=http,
            default_headers=headers,
        )

    def refusal(self, error: Exception) -> Refusal | None:
        from openai import APIStatusError

        if not isinstance(error, APIStatusError):
            return None
        return Refusal(error.status_code, error.response.text, error.response.headers)

    def cause(self, error: Exception) -> Exception:
        from openai import APIConnectionError

        is_one = isinstance(error, APIConnectionError) and isinstance(error.__cause__, Exception)
        return error.__cause__ if is_one else error  # type: ignore[return-value]


def _without_key(request: "httpx2.Request") -> None:
    del request.headers["Authorization"]


SDKS: dict[str, Sdk] = {"mistral": MistralSdk(), "openai": OpenAISdk()}
