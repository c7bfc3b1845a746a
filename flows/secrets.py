"""The one way from a secret of Prefect's to where a key is read: the Secret block `mistral-api-key` becomes MISTRAL_API_KEY of this process.

Not through `prefect.yaml`: a reference to a block is resolved there when a deployment is made, and the value stored with it for all to read.
"""

import os
from typing import Any

import structlog

from almanac.core.settings import mistral_api_key
from almanac.schemas.declaration import Declaration

BLOCK = "mistral-api-key"
_log = structlog.get_logger("almanac.secrets")


def take_key_from_prefect(declaration: Declaration) -> None:
    """Where the declaration asks for Mistral and the environment has no key. Without such a block nothing happens: who needs the key says so."""
    if declaration.embed.provider != "mistral" or mistral_api_key():
        return
    from prefect.blocks.system import Secret

    try:
        secret: Any = Secret.load(BLOCK)
    except ValueError:
        return
    os.environ["MISTRAL_API_KEY"] = str(secret.get())
    _log.info("the key is taken from Prefect's secret", block=BLOCK)
