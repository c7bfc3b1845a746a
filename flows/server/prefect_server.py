"""The Prefect server with one repair: `python -m almanac.flows.server.prefect_server server start …` is `prefect server start …`.

Prefect 3.8 weighs each event against its automations in a transaction that begins by reading and then writes. On SQLite that fails at once with "database
is locked" when anything else was written in between, which is just what the end of a run is full of; after four tries the event is dropped, and with it the
alert. Such a transaction that begins by writing waits for its turn instead.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from prefect.server.database import provide_database_interface
from prefect.server.events import triggers


@asynccontextmanager
async def _session(begin_transaction: bool = False) -> AsyncGenerator[Any, None]:
    async with provide_database_interface().session_context(begin_transaction=begin_transaction, with_for_update=begin_transaction) as session:
        yield session


def main() -> None:
    """The command line of Prefect, in this process."""
    vars(triggers)["automations_session"] = _session
    from prefect.cli import app

    app()


if __name__ == "__main__":
    main()
