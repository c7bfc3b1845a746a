"""Prefect's API as one command needs it: Prefect's application, without the work at its start that serves nobody here."""

from socket import socket
from typing import Any

from almanac.core.uncollected import uncollected
from almanac.flows.server.database import is_migrated, prepare_database

# What a run asks for. FastAPI makes the routes of each router when it first looks for a path there; of these routers, it looks no further.
_ASKED = frozenset({"/flows", "/flow_runs", "/task_runs", "/artifacts", "/logs", "/events", "/csrf-token", "/admin"})


def serve_api(listener: socket) -> None:
    """Serves Prefect's API on a socket that listens, until the process ends."""
    with uncollected():
        import uvicorn
        from prefect.server.api import server
        from prefect.settings import (
            PREFECT_API_BLOCKS_REGISTER_ON_START,
            PREFECT_API_DATABASE_MIGRATE_ON_START,
            PREFECT_MEMOIZE_BLOCK_AUTO_REGISTRATION,
            temporary_settings,
        )

        prepare_database()
        settings = {
            # `almanac server` registers the types of blocks that its pages show; a command shows none.
            PREFECT_API_BLOCKS_REGISTER_ON_START: False,
            PREFECT_MEMOIZE_BLOCK_AUTO_REGISTRATION: False,
            **({PREFECT_API_DATABASE_MIGRATE_ON_START: False} if is_migrated() else {}),
        }
    vars(server)["API_ROUTERS"] = tuple(sorted(server.API_ROUTERS, key=lambda router: router.prefix not in _ASKED))
    with temporary_settings(settings):
        with uncollected():
            app: Any = server.create_app(ephemeral=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
