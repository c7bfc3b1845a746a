"""What Prefect's clients trust is read once in a process."""

import ssl
from typing import Any

import pytest
from prefect.client.orchestration import PrefectClient, SyncPrefectClient
from prefect.settings import PREFECT_API_TLS_INSECURE_SKIP_VERIFY, temporary_settings

from almanac.flows.certificates import share_certificates

_API = "https://prefect.test/api"


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What clients hand to httpx to verify servers with."""
    from prefect.client import base

    found: list[Any] = []
    for name in ("PrefectHttpxAsyncClient", "PrefectHttpxSyncClient"):
        begin = getattr(base, name).__init__

        def noting(client: Any, *arguments: Any, _begin: Any = begin, **options: Any) -> None:
            found.append(options.get("verify"))
            _begin(client, *arguments, **options)

        monkeypatch.setattr(getattr(base, name), "__init__", noting)
    share_certificates()
    share_certificates()  # no further layer
    return found


def test_clients_share_what_they_trust(given: list[Any]) -> None:
    for client in (SyncPrefectClient, PrefectClient, SyncPrefectClient):
        client(_API)
    assert len(given) == 3 and len(set(map(id, given))) == 1
    assert (
        isinstance(given[0], ssl.SSLContext)
        and given[0].verify_mode is ssl.CERT_REQUIRED
        and given[0].check_hostname
        and given[0].get_ca_certs()
    )


def test_a_client_that_is_told_whom_to_trust_does(given: list[Any]) -> None:
    own = ssl.create_default_context()
    SyncPrefectClient(_API, httpx_settings={"verify": own})
    with temporary_settings({PREFECT_API_TLS_INSECURE_SKIP_VERIFY: True}):
        SyncPrefectClient(_API)
    SyncPrefectClient(_API)
    assert given[0] is own
    assert given[1].verify_mode is ssl.CERT_NONE
    assert given[2].verify_mode is ssl.CERT_REQUIRED
