"""`almanac mcp`: published knowledge bases as tools of an agent, over stdio or HTTP."""

import sys
from contextlib import redirect_stdout
from importlib.metadata import version
from typing import Annotated

import typer

from almanac.cli.options import Data, Env, Workspace
from almanac.cli.output import say
from almanac.cli.serve import served


def mcp(
    kb: Annotated[
        list[str] | None,
        typer.Option("--kb", metavar="KB", help="only this one; may be given again", show_default=False),
    ] = None,
    http: Annotated[
        bool, typer.Option("--http", help="over streamable HTTP, at /mcp; without it over stdin and stdout")
    ] = False,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help="with --http; default: 127.0.0.1; another one needs ALMANAC_API_KEYS",
            show_default=False,
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, metavar="N", help="with --http; 0: a free one")
    ] = 8090,
    workspace: Workspace = None,
    env: Env = None,
    data: Data = None,
) -> None:
    """Offer search, answers and passages to agents, by the Model Context Protocol, from every knowledge base that has a
    published version.
    """
    with redirect_stdout(sys.stderr):  # what an engine prints while it is imported is no message of the protocol
        import anyio

        from almanac.core.settings import DataDir, Project
        from almanac.schemas.errors import UsageError
        from almanac.serve.catalog import Catalog
        from almanac.serve.mcp_server import KnowledgeServer, http_app, serve_stdio
        from almanac.serve.server_settings import Settings

        if http and workspace is not None:
            raise UsageError(
                "over HTTP a caller's key says which workspace it sees",
                where="--workspace",
                hint="ALMANAC_API_KEYS='KEY:WORKSPACE'",
            )
        settings = Settings.read(host=host, port=port)
        project = Project.locate()
        catalog = Catalog(DataDir.locate(data, project), kb, env, project=project)
        for line in served(catalog):
            sys.stderr.write(f"{line}\n")
        server = KnowledgeServer(catalog, settings, version=version("almanac"), workspace=workspace, is_ahead=http)
    if http:
        from almanac.serve.http_server import run_app

        run_app(
            http_app(server, settings),
            settings,
            lambda address: say(f"Almanac answers agents at {address}mcp"),
            server.end_listening,
        )
    else:
        anyio.run(serve_stdio, server)
    catalog.close()
