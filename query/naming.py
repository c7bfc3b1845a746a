"""Which declared knowledge base a name means, and which one is asked where a request names none."""

from collections.abc import Sequence

from almanac.core.load import load_declaration
from almanac.core.logs import get_logger
from almanac.core.overlays import overlays_of
from almanac.core.settings import DataDir, Project, environment, index_name
from almanac.core.store.readers import live_in_store
from almanac.index.versions.version_store import current_version
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import AlmanacError, NothingPublished, UsageError

SHOWN = 80  # maximum characters of an unknown name in an error message
_log = get_logger("almanac.query")


def find_named(wanted: str, declared: Sequence[Declaration]) -> Declaration | None:
    """The declaration of a name, handle, file or, where no other matches, collection; None unless it is one."""
    by_name = [
        declaration
        for declaration in declared
        if wanted in (declaration.name, declaration.handle, declaration.path.stem, str(declaration.path))
    ]
    by_collection = [declaration for declaration in declared if wanted == declaration.collection]
    if len(by_name) == 1 or (not by_name and len(by_collection) == 1):
        return (by_name or by_collection)[0]
    return next((declaration for declaration in by_name if declaration.name == wanted), None)


def choose_default(wanted: str | None, declared: Sequence[Declaration], published: Sequence[str]) -> Declaration:
    """The knowledge base for requests that name none: `wanted`, else the only published one.

    `wanted` is a name as `find_named` takes it, `published` are the names of the declared ones that have a live
    version. Raises UsageError where `wanted` is not published, or several are, with their names, and NothingPublished
    where none is.
    """
    if wanted is not None:
        declaration = find_named(wanted, declared)
        if declaration is None or declaration.name not in published:
            finding = f"no knowledge base '{wanted[:SHOWN]}' is published; it is the default"
            raise UsageError(finding, where="kb", hint=choices(published))
        return declaration
    if not published:
        raise NothingPublished("no knowledge base is published yet", where="kb", hint=choices(published))
    if len(published) != 1:
        finding = f"{len(published)} knowledge bases are published, and the request names none"
        raise UsageError(finding, where="kb", hint=choices(published))
    return next(declaration for declaration in declared if declaration.name == published[0])


def default_of_project(project: Project, data: DataDir, env: str | None = None) -> Declaration:
    """The knowledge base of a project for requests that name none: that of INDEX_NAME, else the only published one.
    Errors as `choose_default`.

    A declaration that is invalid, or whose live pointer is damaged, is no choice; the log has the reason. Raises
    NotFound where there is no such folder.
    """
    project.require()
    chosen, declared, published = environment(env)[0], [], []
    for path in project.declarations():
        try:
            declaration = load_declaration(
                str(path), chosen if chosen in overlays_of(path) else "", project, to_read=True
            )
            is_published = (
                live_in_store(data, declaration.name) if data.url else current_version(data.index(declaration.name))
            ) is not None
        except AlmanacError as error:
            _log.warning("kb_left_out", file=path.name, error=str(error))
            continue
        declared.append(declaration)
        published += [declaration.name] if is_published else []
    return choose_default(index_name(), declared, sorted(published))


def choices(names: Sequence[str]) -> str:
    """The published knowledge bases, as a hint."""
    return f"one of {', '.join(names)}" if names else "almanac run KB publishes one"
