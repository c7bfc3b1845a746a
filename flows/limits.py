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

from almanac.flows.availability import tell_prefect
from almanac.schemas.declaration import Declaration

EMBEDDING_API = "embedding-api"
_AT_ONCE = 2


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
    ends, after five minutes. Where Prefect does not answer, nothing counts the runs.
    """
    return _slot() if declaration.embed.provider == "mistral" else nullcontext()


@contextmanager
def _slot() -> Iterator[None]:
    held = ExitStack()
    # Work that is done is not thrown away because the server does not answer for a moment.
    slot = concurrency(EMBEDDING_API, occupy=1, strict=True, raise_on_lease_renewal_failure=False)
    tell_prefect(f"limit {EMBEDDING_API}", ensure_embedding_limit)
    tell_prefect(f"slot of {EMBEDDING_API}", held.enter_context, slot)
    try:
        yield
    finally:
        with suppress(Exception):  # what ends the run is not lost over giving the slot back
            held.close()
