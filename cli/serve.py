"""`almanac serve`: the HTTP API and the chat page."""

import faulthandler
import os
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from almanac.cli.log_lines import configure_logs
from almanac.cli.options import Data, Env
from almanac.cli.output import say

if TYPE_CHECKING:
    from almanac.core.settings import DataDir, Project
    from almanac.serve.catalog import Catalog


def serve(
    kb: Annotated[
        list[str] | None,
        typer.Option("--kb", metavar="KB", help="only this one; may be given again", show_default=False),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help="default: 127.0.0.1; another one needs ALMANAC_API_KEYS",
            show_default=False,
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=0, max=65535, metavar="N", help="default: PORT, else 8080; 0: a free one", show_default=False
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            min=1,
            max=64,
            metavar="N",
            help="default: ALMANAC_WORKERS, else 1; processes that answer, one for each core",
            show_default=False,
        ),
    ] = None,
    env: Env = None,
    data: Data = None,
) -> None:
    """Answer over HTTP, with a chat page at /, from every knowledge base that has a published version."""
    from almanac.core.settings import DataDir, Project
    from almanac.serve.http_server import serve as run
    from almanac.serve.http_server import serve_by_workers
    from almanac.serve.server_settings import Settings

    settings = Settings.read(host=host, port=port, workers=workers)
    project = Project.locate()
    make_catalog = partial(_make_catalog, DataDir.locate(data, project), kb, env, project)
    _show_crashes()
    # A question is embedded on one core: two answers beside each other take less than one after the other on two.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    catalog = make_catalog()

    def tell(address: str) -> None:
        say(f"Almanac answers at {address}")
        for line in served(catalog):
            say(line)

    if settings.workers > 1:
        serve_by_workers(make_catalog, settings, _prepare_worker, tell)
        catalog.close()
        return
    cut_off = run(catalog, settings, tell)
    if cut_off:  # the interpreter would wait for their threads
        os._exit(0)


def _make_catalog(data: "DataDir", names: list[str] | None, env: str | None, project: "Project") -> "Catalog":
    from almanac.serve.catalog import Catalog

    return Catalog(data, names, env, project=project)


def _prepare_worker() -> None:
    configure_logs()
    _show_crashes()


def _show_crashes() -> None:
    """A file that shrinks under its reader ends the process at once: the log says where."""
    faulthandler.enable(2)


def served(catalog: "Catalog") -> Iterator[str]:
    """What can be asked, and what is published and cannot be asked because nothing declares it."""
    broken = catalog.unreadable()
    names = [name for name in catalog.names() if name not in broken]
    waiting = [path.stem for path in catalog.paths() if path.stem not in (*names, *broken)] if not names else []
    if names:
        yield f"It answers from {', '.join(names)}"
    elif waiting:
        yield (
            f"Nothing can be asked yet: {', '.join(waiting)} have no version in {catalog.data.place}. almanac run "
            f"{waiting[0]} makes one"
        )
    elif not broken:
        yield (
            f"Nothing can be asked yet: nothing is declared in {catalog.project.knowledge}. almanac init NAME "
            "writes a commented declaration"
        )
    for name, reason in broken.items():
        yield f"{name} cannot be asked: {reason}"
    if undeclared := catalog.undeclared():
        versions = ", ".join(f"{name} {version}" for name, version in undeclared.items())
        yield (
            f"Published in {catalog.data.root}, and not declared in {catalog.project.knowledge}: {versions}. "
            "Serve them from their own project with --project DIR, or by --kb PATH of their declarations"
        )
