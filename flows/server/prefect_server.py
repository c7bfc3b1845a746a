"""`prefect server start …` with one repair: run `python -m almanac.flows.server.prefect_server server start …`.

Prefect 3.8 evaluates automations in a transaction that reads first and then writes. On SQLite this fails at once with
"database is locked" if another transaction has written in between, which is common at the end of a run. After four
attempts Prefect drops the event and its alert. Here the transaction takes the write lock first, and therefore waits for
its turn.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from prefect.server.database import provide_database_interface
from prefect.server.events import triggers


@asynccontextmanager
async def _session(begin_transaction: bool = False) -> AsyncGenerator[Any, None]:
    async with provide_database_interface().session_context(
        begin_transaction=begin_transaction, with_for_update=begin_transaction
    ) as session:
        yield session


def main() -> None:
    """Runs Prefect's command line in this process."""
    vars(triggers)["automations_session"] = _session
    from prefect.cli import app

    app()


if __name__ == "__main__":
    main()
