"""`almanac serve`: the HTTP API and the chat page."""

import os
from typing import Annotated

import typer

from cli.options import Data, Env
from cli.output import say


def serve(
    kb: Annotated[list[str] | None, typer.Option("--kb", metavar="KB", help="only this one; may be given again", show_default=False)] = None,
    host: Annotated[
        str | None, typer.Option("--host", metavar="ADDRESS", help="default: 127.0.0.1; another one needs ALMANAC_API_KEYS", show_default=False)
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, metavar="N", help="default: PORT, else 8080; 0: a free one", show_default=False)
    ] = None,
    env: Env = None,
    data: Data = None,
) -> None:
    """Answer over HTTP, with a chat page at /, from every knowledge base that has a published version."""
    from schemas.settings import DataDir
    from serve.catalog import Catalog
    from serve.server import serve as run
    from serve.settings import Settings

    settings = Settings.read(host=host, port=port)
    cut_off = run(Catalog(DataDir.locate(data), kb, env), settings, lambda address: say(f"Almanac answers at {address}"))
    if cut_off:  # the interpreter would wait for their threads
        os._exit(0)
