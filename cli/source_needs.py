"""What declared sources need of this machine: packages, drivers and programs, looked at without fetching anything."""

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

from almanac.core.extras import Extra, how_to_install, missing_package
from almanac.schemas.declaration.row_sources import CommandSource, RowsSource, SqlSource
from almanac.schemas.declaration.source import FilesSource, Source


def unmet_needs(source: Source, folder: Path) -> Iterator[tuple[str, str]]:
    """Yields what is missing for a source, and what brings it. `folder` is the declaration's."""
    match source:
        case FilesSource(git=git) if git is not None and shutil.which("git") is None:
            yield "git is not on PATH", "install git 2.31 or later"
        case FilesSource(glob=glob) if glob.startswith("s3:"):
            yield from _lacking("s3")
        case FilesSource(glob=glob) if glob.startswith("sftp:"):
            yield from _lacking("sftp")
        case SqlSource():
            yield from _driver_of(source)
        case RowsSource():
            yield from _module_of(source, folder)
        case CommandSource(command=[program, *_]):
            path = f"{folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
            if shutil.which(str(folder / program) if "/" in program else program, path=path) is None:
                yield f"{program} cannot be run", "name a program of PATH, or a path from the declaration's folder"


def _lacking(extra: Extra) -> Iterator[tuple[str, str]]:
    if (missing := missing_package(extra)) is not None:
        yield missing, how_to_install(extra)


def _driver_of(source: SqlSource) -> Iterator[tuple[str, str]]:
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    try:
        make_url(source.url.get_secret_value()).get_dialect().import_dbapi()
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        yield str(error).split("\n")[0], f"{how_to_install('postgres')}; for others, SQLAlchemy's driver"
    except ArgumentError:  # its variable is not set here
        return


def _module_of(source: RowsSource, folder: Path) -> Iterator[tuple[str, str]]:
    """Of a module, only whether it is there, and whether its text asks for dlt: importing it could do anything."""
    module, has_function, _ = source.from_.partition(":")
    if not has_function:
        return
    own, first = folder.joinpath(*module.split(".")).with_suffix(".py"), module.partition(".")[0]
    if own.is_file():
        words = own.read_text("utf-8", "replace").split()
        imported = (word for before, word in pairwise(words) if before in ("import", "from"))
        if any(word.partition(".")[0] == "dlt" for word in imported):
            yield from _lacking("dlt")
    elif not (folder / first).is_dir() and find_spec(first) is None:
        yield f"from: {source.from_} is not there", f"write it beside the declaration, in {folder}, or install it"
