"""Limits how many runs use an embedding API at the same time: Prefect's global concurrency limit `embedding-api`.

Operators change the number on the Concurrency page of the UI. Prefect ignores a limit that does not exist, so it is
created before use.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import Any

from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.concurrency.sync import concurrency
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound

from almanac.core.logs import get_logger
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import PrefectGone

EMBEDDING_API = "embedding-api"
_AT_ONCE = 2
_log = get_logger("almanac.embed")


def ensure_embedding_limit() -> None:
    """Creates the limit unless it exists."""
    with get_client(sync_client=True) as client:
        try:
            client.read_global_concurrency_limit_by_name(EMBEDDING_API)
        except ObjectNotFound:
            with suppress(ObjectAlreadyExists):  # another run was quicker
                client.create_global_concurrency_limit(
                    GlobalConcurrencyLimitCreate(name=EMBEDDING_API, limit=_AT_ONCE, active=True)
                )


def embedding_slot(declaration: Declaration) -> Any:
    """A context manager that waits for a slot if the embedder is an API. A killed run frees its slot when its lease
    ends, after five minutes.
    """
    return _slot() if declaration.embed.provider == "mistral" else nullcontext()


@contextmanager
def _slot() -> Iterator[None]:
    held = ExitStack()
    try:
        ensure_embedding_limit()
        # Work that is done is not thrown away because the server does not answer for a moment.
        held.enter_context(concurrency(EMBEDDING_API, occupy=1, strict=True, raise_on_lease_renewal_failure=False))
    except PrefectGone:
        _log.warning(
            "Prefect does not answer, so nothing counts the runs that use the embedding API", limit=EMBEDDING_API
        )
    try:
        yield
    finally:
        with suppress(PrefectGone):
            held.close()
