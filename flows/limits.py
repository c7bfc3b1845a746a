"""What runs that embed by an API have of Prefect: a slot of its global concurrency limit `embedding-api`, which limits
how many use the API at the same time, and the key, from a Secret block: `mistral-api-key` for MISTRAL_API_KEY.

Operators change the number on the Concurrency page of the UI. Prefect ignores a limit that does not exist, so it is
created before use.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from typing import Any

from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.concurrency.sync import concurrency
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound

from almanac.core.logs import get_logger
from almanac.flows.availability import tell_prefect
from almanac.index.api.api_client import ApiKey
from almanac.schemas.declaration import Declaration

EMBEDDING_API = "embedding-api"
_AT_ONCE = 2
_log = get_logger("almanac.secrets")


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
    return _slot() if declaration.embed.provider != "local" else nullcontext()


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


def take_key_from_prefect(declaration: Declaration) -> None:
    """Takes the embedder's key from the Secret block named like its variable into the environment of this process, if
    it has none there. Without the block, the embedder raises the error later.

    `prefect.yaml` cannot do this safely: it would resolve a reference to the block at deployment, and store the key
    readable for everybody.
    """
    variable = declaration.embed.key_variable if declaration.embed.provider != "local" else None
    if variable is None or ApiKey(variable).value():
        return
    block = variable.lower().replace("_", "-")
    if key := tell_prefect(f"secret {block}", partial(_key, block)):
        os.environ[variable] = key
        _log.info("the key is taken from Prefect's secret", block=block)


def _key(block: str) -> str | None:
    from prefect.blocks.system import Secret

    try:
        secret: Any = Secret.load(block)
    except ValueError:  # there is none
        return None
    return str(secret.get())
