"""Documents that are pushed: put into the table of their source, from which the next run publishes them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from almanac.core.row_table import ROWS, RowTable
from almanac.core.templates import fill, render
from almanac.schemas.declaration.row_sources import PushedSource
from almanac.schemas.hashing import canonical_json
from almanac.serve.api_keys import Caller
from almanac.serve.catalog import Catalog
from almanac.serve.messages import Pushed
from almanac.serve.problem_details import ProblemDetails


def push_documents(
    catalog: Catalog, caller: Caller, kb: str, source: str | None, documents: Sequence[dict[str, Any]]
) -> Pushed:
    """Takes documents, all or none: the same ones once more change nothing.

    Raises ProblemDetails 403 for the key of another knowledge base, 404 where there is no such source, 422 for a
    document without an id or beyond a limit.
    """
    with _table(catalog, caller, kb, source) as (table, declared, done):
        for number, document in enumerate(documents):
            key, line = fill(declared.id, document), canonical_json(document).encode("utf-8", "surrogatepass")
            if not key or len(line) > declared.limits.bytes_per_row:
                finding = f"has no {declared.id}" if not key else f"has more than {declared.limits.bytes_per_row} bytes"
                raise _invalid(f"document {number} {finding}", f"documents.{number}")
            change = table.put(key, line)
            setattr(done, change, getattr(done, change) + 1)
        if len(table) > declared.limits.rows:
            raise _invalid(f"the source would have more than {declared.limits.rows} documents", "documents")
        done.documents = len(table)
    return done


def remove_documents(catalog: Catalog, caller: Caller, kb: str, source: str | None, ids: Sequence[str | int]) -> Pushed:
    """Removes documents; what is not there is removed already. Raises as `push_documents`."""
    with _table(catalog, caller, kb, source) as (table, _, done):
        done.removed = sum(table.drop(render(document_id)) for document_id in ids)
        done.documents = len(table)
    return done


@contextmanager
def _table(
    catalog: Catalog, caller: Caller, kb: str, name: str | None
) -> Iterator[tuple[RowTable, PushedSource, Pushed]]:
    declaration = catalog.find(kb)
    if caller.pushes_to not in (None, declaration.name if declaration is not None else kb):
        raise ProblemDetails(403, "this key pushes to another knowledge base", where="kb")
    sources = (
        [] if declaration is None else [source for source in declaration.sources if isinstance(source, PushedSource)]
    )
    matching_sources = [source for source in sources if name in (None, source.name)]
    if declaration is None or len(matching_sources) != 1:
        there = ", ".join(source.name for source in sources) or "none"
        raise ProblemDetails(
            404,
            f"no one source of pushed documents '{name or ''}' in '{kb}'",
            where="source",
            hint=f"there are: {there}",
        )
    if catalog.data.url:
        raise ProblemDetails(
            409,
            "this server reads from an object store, where no run would find what is pushed here",
            hint="push to a server that has the runs' data directory",
        )
    [source] = matching_sources
    path = catalog.data.raw(declaration.name, source.name) / ROWS
    with RowTable(path) as table, table.changing():
        yield table, source, Pushed(kb=declaration.name, source=source.name, documents=0)


def _invalid(finding: str, where: str) -> ProblemDetails:
    return ProblemDetails(422, finding, kind="invalid-request", where=where)
