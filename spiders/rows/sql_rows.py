"""The rows of a query, by SQLAlchemy: read only, and streamed."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, time
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from almanac.core.extras import how_to_install
from almanac.schemas.declaration.near_words import did_you_mean
from almanac.schemas.declaration.row_sources import SqlSource
from almanac.schemas.declaration.template import template_names
from almanac.schemas.errors import (
    AlmanacError,
    CredentialRefused,
    DeclarationError,
    OperationalError,
    Unreachable,
    UsageError,
)

_AT_ONCE = 1000  # rows in memory, and ids in a line
_READ_ONLY = {
    "sqlite": "pragma query_only = on",
    "mysql": "set transaction read only",
    "mariadb": "set transaction read only",
}
_NO_RIGHT = ("authentication failed", "no password supplied", "Access denied")
_PASSING = ("08", "40", "53", "57P")  # SQLSTATE: connection, rollback, resources, shutdown
# how a cursor's value, which was printed as JSON, becomes again what the database compares with
_READ = {datetime: datetime.fromisoformat, date: date.fromisoformat, time: time.fromisoformat, Decimal: Decimal}


def sql_rows(source: SqlSource, since: Any) -> Iterator[Any]:
    """Yields the columns as `["columns", names]`, then each row as a dict: all of them, or those whose cursor is not
    before `since`. Then, after `since`, the ids of all rows as `["there", ids]`, unless the source declares `gone`.

    Raises DeclarationError for a column that the query does not give, CredentialRefused for a wrong password,
    Unreachable where there is no connection or it is lost, OperationalError where the database refuses the query.
    """
    with _as_errors(source), _connected(source) as connection:
        reading = _Reading(source, connection.execution_options(stream_results=True, max_row_buffer=_AT_ONCE))
        yield ["columns", reading.columns]
        yield from reading.rows(since)
        if since is not None and source.gone is None:
            yield from reading.ids()


class _Reading:
    """A transaction that reads the query's rows."""

    def __init__(self, source: SqlSource, connection: sa.Connection) -> None:
        self._source, self._connection = source, connection
        if connection.dialect.name == "postgresql":
            connection.execution_options(postgresql_readonly=True)
        elif (statement := _READ_ONLY.get(connection.dialect.name)) is not None:
            connection.exec_driver_sql(statement)
        with connection.execute(self._query("select * from ({}) almanac_rows where 1 = 0")) as result:
            self.columns = list(result.keys())
        self._require_columns()

    def rows(self, since: Any) -> Iterator[Any]:
        if since is None:
            result = self._connection.execute(self._query("{}"))
        else:
            cursor = self._quoted(self._source.cursor or "")
            rows = f"select * from ({{}}) almanac_rows where {cursor} >= :since or {cursor} is null"
            result = self._connection.execute(self._query(rows), {"since": self._typed(since, cursor)})
        last = None
        with result:
            for row in result.mappings():
                yield dict(row)
                if self._source.cursor and (value := row[self._source.cursor]) is not None:
                    last = value if last is None else max(last, value)
        yield ["cursor", last]

    def ids(self) -> Iterator[list[Any]]:
        names = ", ".join(map(self._quoted, _columns_of(self._source.id)))
        with self._connection.execute(self._query(f"select {names} from ({{}}) almanac_rows")) as result:
            rows = (dict(row) for row in result.mappings())
            while some := list(islice(rows, _AT_ONCE)):
                yield ["there", some]

    def _query(self, around: str) -> sa.TextClause:
        """A statement around the declared query, in which no colon stands for a parameter."""
        query = self._source.query.strip().rstrip(";").replace(":", "\\:")
        return sa.text(around.replace("{}", f"\n{query}\n"))  # a comment may end the query

    def _quoted(self, name: str) -> str:
        return self._connection.dialect.identifier_preparer.quote(name)

    def _typed(self, since: Any, cursor: str) -> Any:
        """The cursor's last value in the type that the database gives for it."""
        template = f"select {cursor} from ({{}}) almanac_rows where {cursor} is not null"
        with self._connection.execute(self._query(template)) as result:
            row = result.first()
        read = _READ.get(type(row[0])) if row is not None else None
        return since if read is None else read(str(since))

    def _require_columns(self) -> None:
        twice = next((name for name in self.columns if self.columns.count(name) > 1), None)
        if twice is not None:
            raise DeclarationError(
                f"query: gives the column '{twice}' twice", where="query", hint=f"name one of them: … AS other_{twice}"
            )
        source = self._source
        named = {"id": _columns_of(source.id), "cursor": [source.cursor or ""], "gone": [source.gone or ""]}
        for key, names in named.items():
            for name in filter(None, names):
                if name not in self.columns:
                    near = did_you_mean(name, self.columns)
                    raise DeclarationError(
                        f"{key}: the query gives no column '{name}'{near}",
                        where=key,
                        hint=f"it gives {', '.join(self.columns)}",
                    )


def _columns_of(template: str) -> list[str]:
    return list(dict.fromkeys(name.partition(".")[0] for name in template_names(template)))


def _engine(source: SqlSource) -> sa.Engine:
    try:
        url = sa.make_url(source.url.get_secret_value())
        path = url.database if url.get_backend_name() == "sqlite" else None
        if path and not path.startswith((":memory:", "file:")) and not Path(path).exists():  # SQLite would make it
            raise OperationalError(f"there is no file {path}", where=path, hint="url: is relative to the declaration")
        return sa.create_engine(url, hide_parameters=True)
    except ArgumentError as error:
        raise DeclarationError(
            "url: is not the address of a database (its value is not shown)",
            where="url",
            hint="such as postgresql+psycopg://user@host/name or sqlite:///shop.db",
        ) from error
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        hint = f"{how_to_install('postgres')}, and postgresql+psycopg://…; for others, install SQLAlchemy's driver"
        raise UsageError(
            f"url: what speaks to this database is not installed: {error}", where="url", hint=hint
        ) from error


def _connected(source: SqlSource) -> sa.Connection:
    """A connection. What refuses one may take it a moment later: a server that starts, or has too many of them."""
    engine = _engine(source)
    try:
        return engine.connect()
    except DBAPIError as error:
        message = _describe_error(error, source)
        if any(phrase in message for phrase in _NO_RIGHT):
            hint = "url: has the user and the password; try them with the database's own client"
            raise _failed(CredentialRefused, f"the database lets nobody in: {message}", source, hint) from error
        hint = "is it running, and are host, port and name in url right?"
        raise _failed(Unreachable, f"the database takes no connection: {message}", source, hint) from error


@contextmanager
def _as_errors(source: SqlSource) -> Iterator[None]:
    """What the database says, without the password that the URL may have."""
    try:
        yield
    except SQLAlchemyError as error:
        message = _describe_error(error, source)
        if isinstance(error, DBAPIError) and (error.connection_invalidated or _is_passing(error.orig)):
            finding = f"the database has broken off: {message}"
            raise _failed(Unreachable, finding, source, "no row of this reading is taken; run again") from error
        hint = "try the query with the database's own client"
        raise _failed(OperationalError, f"the database refuses: {message}", source, hint) from error


def _is_passing(error: BaseException | None) -> bool:
    """Whether the same query may succeed later: a lock, a shutdown, a standby that has to go on."""
    code = getattr(error, "sqlite_errorcode", None)
    return code == sqlite3.SQLITE_BUSY or str(getattr(error, "sqlstate", None)).startswith(_PASSING)


def _describe_error(error: SQLAlchemyError, source: SqlSource) -> str:
    message = str(error.orig if isinstance(error, DBAPIError) else error).strip().split("\n")[0]
    password = sa.make_url(source.url.get_secret_value()).password
    return message.replace(password, "…") if password else message


def _failed(kind: type[AlmanacError], finding: str, source: SqlSource, hint: str) -> AlmanacError:
    return kind(finding, where=f"source {source.name}", hint=hint)
