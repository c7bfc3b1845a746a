"""Prefect's API as one command needs it: Prefect's application, without the work at its start that serves nobody here."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from socket import socket
from typing import Any

from almanac.core.uncollected import uncollected

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


def is_migrated() -> bool:
    """Whether the database has Prefect's newest migration. To find that out, Prefect imports all of them, which takes .4 s."""
    import prefect.server.database._migrations as migrations
    from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL
    from sqlalchemy.engine import make_url

    url = make_url(PREFECT_API_DATABASE_CONNECTION_URL.value())
    if url.get_backend_name() != "sqlite" or not url.database or not Path(url.database).is_file():
        return False
    names = (path.name for folder in migrations.__path__ for path in Path(folder, "versions", "sqlite").glob("*.py"))
    newest = re.fullmatch(r"[\d_]+_([0-9a-f]{12})_.*", max(names, default=""))
    try:
        with closing(sqlite3.connect(f"{Path(url.database).absolute().as_uri()}?mode=ro", uri=True)) as database:
            applied = database.execute("SELECT version_num FROM alembic_version").fetchall()
    except sqlite3.Error:
        return False
    return newest is not None and applied == [(newest[1],)]
