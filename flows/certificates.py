"""Prefect's clients of a process share what they trust: each would read all certificates anew, which takes as long as
thirty requests.
"""

import ssl
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import certifi
from prefect.client.orchestration import PrefectClient, SyncPrefectClient
from prefect.settings import PREFECT_API_SSL_CERT_FILE, PREFECT_API_TLS_INSECURE_SKIP_VERIFY


def share_certificates() -> None:
    """From now on, clients of this process that are not told whom to trust trust whom Prefect's settings say, by one
    TLS context for all.
    """
    for client in (PrefectClient, SyncPrefectClient):
        if not hasattr(client.__init__, "__wrapped__"):
            setattr(client, "__init__", _sharing(client.__init__))  # noqa: B010  # a method of Prefect's


def _sharing(begin: Callable[..., None]) -> Callable[..., None]:
    @wraps(begin)
    def sharing(client: Any, *arguments: Any, httpx_settings: dict[str, Any] | None = None, **options: Any) -> None:
        if not PREFECT_API_TLS_INSECURE_SKIP_VERIFY.value():
            httpx_settings = {
                "verify": _trust(PREFECT_API_SSL_CERT_FILE.value() or certifi.where()),
                **(httpx_settings or {}),
            }
        begin(client, *arguments, httpx_settings=httpx_settings, **options)

    return sharing


@cache
def _trust(certificates: str) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificates)
