"""Prefect's API as one command needs it: Prefect's application, without the work at its start that serves nobody
here.
"""

from collections.abc import Callable
from functools import partial
from socket import socket
from typing import Any

from almanac.core.uncollected import uncollected
from almanac.flows.server.database import is_migrated, prepare_database

# What a run asks for, in this order. FastAPI makes the routes of each router when it first looks for a path there; of
# these routers, it looks no further.
_ASKED = ("/admin", "/csrf-token", "/flows", "/flow_runs", "/artifacts", "/task_runs", "/logs", "/events")


def serve_api(listener: socket) -> None:
    """Serves Prefect's API on a socket that listens, until the process ends."""
    with uncollected():
        import uvicorn
        from prefect.logging import configuration
        from prefect.server.utilities.server import PrefectRouter

        # Prefect writes all its settings down to set up logging, once as it is imported and once more. Its warnings go
        # to this process's log as they are.
        vars(configuration)["setup_logging"] = dict
        _make_routes_late(PrefectRouter)
        from prefect.server.api import server
        from prefect.settings import (
            PREFECT_API_BLOCKS_REGISTER_ON_START,
            PREFECT_API_DATABASE_MIGRATE_ON_START,
            PREFECT_MEMOIZE_BLOCK_AUTO_REGISTRATION,
            PREFECT_SERVER_SERVICES_EVENT_PERSISTER_ENABLED,
            Settings,
            temporary_settings,
        )

        prepare_database()
        settings = {
            # `almanac server` registers the types of blocks that its pages show; a command shows none.
            PREFECT_API_BLOCKS_REGISTER_ON_START: False,
            PREFECT_MEMOIZE_BLOCK_AUTO_REGISTRATION: False,
            # Events are for automations, of which a command has none; they are three quarters of what a run would leave
            # in the database.
            PREFECT_SERVER_SERVICES_EVENT_PERSISTER_ENABLED: False,
            **({PREFECT_API_DATABASE_MIGRATE_ON_START: False} if is_migrated() else {}),
        }
    vars(server)["API_ROUTERS"] = tuple(sorted(server.API_ROUTERS, key=_turn))
    # It writes them down twice more, to tell this application from others in the process.
    setattr(Settings, "hash_key", lambda _: "")  # noqa: B010  # a method of Prefect's
    with temporary_settings(settings):
        with uncollected():
            app: Any = server.create_app(ephemeral=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


def _turn(router: Any) -> int:
    return _ASKED.index(router.prefix) if router.prefix in _ASKED else len(_ASKED)


def _make_routes_late(router: Any) -> None:
    """Has a router make its routes when FastAPI first looks for a path among them, instead of when it is imported:
    nobody asks for most of Prefect's 180.

    FastAPI looks at the version of a router's routes before it looks at them. A FastAPI that does not, makes them as
    ever.
    """
    if not hasattr(router, "_get_routes_version"):
        return
    make, version = router.add_api_route, router._get_routes_version
    waiting: dict[int, list[Callable[[], None]]] = {}

    def make_later(self: Any, *arguments: Any, **options: Any) -> None:
        waiting.setdefault(id(self), []).append(partial(make, self, *arguments, **options))

    def version_of_all(self: Any, seen: set[int] | None = None) -> int:
        for one in waiting.pop(id(self), ()):
            one()
        return int(version(self, seen))

    router.add_api_route, router._get_routes_version = make_later, version_of_all
