"""Takes the Mistral key from Prefect's Secret block `mistral-api-key` into MISTRAL_API_KEY of this process.

`prefect.yaml` cannot do this safely: it would resolve a reference to the block at deployment, and store the key
readable for everybody.
"""

import os
from typing import Any

from almanac.core.logs import get_logger
from almanac.core.settings import mistral_api_key
from almanac.flows.availability import tell_prefect
from almanac.schemas.declaration import Declaration

BLOCK = "mistral-api-key"
_log = get_logger("almanac.secrets")


def take_key_from_prefect(declaration: Declaration) -> None:
    """Loads the key if the declaration embeds with Mistral and the environment has no key. Without the block, the
    embedder raises the error later.
    """
    if declaration.embed.provider != "mistral" or mistral_api_key():
        return
    if key := tell_prefect(f"secret {BLOCK}", _key):
        os.environ["MISTRAL_API_KEY"] = key
        _log.info("the key is taken from Prefect's secret", block=BLOCK)


def _key() -> str | None:
    from prefect.blocks.system import Secret

    try:
        secret: Any = Secret.load(BLOCK)
    except ValueError:  # there is none
        return None
    return str(secret.get())
