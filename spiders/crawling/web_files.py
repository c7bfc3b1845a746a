"""Files of a web server that lists its folders, as Apache, nginx and Caddy do: https://host/docs/**/*.pdf.

A folder's page is asked for, and its links to what lies in it are files, or folders where a slash ends them. A HEAD
tells a file's ETag, or its time and size. Redirects are followed on the same host alone.
"""

import base64
import ssl
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from parsel import Selector

from almanac.schemas.declaration.source import FilesSource
from almanac.schemas.errors import AlmanacError, CredentialRefused, OperationalError, Unreachable
from almanac.spiders.crawling.fetched_ahead import AT_ONCE, RemoteFile, fetched_ahead
from almanac.spiders.crawling.find_files import NotRead
from almanac.spiders.crawling.glob_pattern import GlobPattern, Rest, fixed_part
from almanac.spiders.selecting.urls import joined

_PATIENCE_S = 30
_FOLDER_BYTES = 64 << 20
_TRIES = 3


class WebFiles:
    """The files of a web server that a source's glob names.

    Raises from `find` CredentialRefused and OperationalError where its first folder may not be read or is not there,
    Unreachable where the server does not answer.
    """

    start = "the folder"

    def __init__(self, source: FilesSource) -> None:
        self._name, self.shown, self._limit = source.name, source.glob, source.limits.bytes_per_file
        parts = urlsplit(source.glob.replace("?", "%3F").replace("#", "%23"))
        fixed, self._moving = fixed_part(Path("/"), unquote(parts.path))
        folder = fixed.as_posix().rstrip("/")
        self._top = f"{parts.scheme}://{parts.netloc}{quote(folder)}/"
        self._pattern = GlobPattern(self._moving)
        self._headers = {"User-Agent": "almanac", "Accept-Encoding": "identity"}
        if source.auth is not None:
            pair = f"{source.auth.user.get_secret_value()}:{source.auth.password.get_secret_value()}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        self._opener = build_opener(_OnSameHost(), HTTPSHandler(context=ssl.create_default_context()))

    def find(self, _known: Collection[str], is_wanted: Callable[[RemoteFile], bool]) -> Iterator[RemoteFile | NotRead]:
        """Yields the files that match, and fetches the next wanted ones meanwhile."""
        return fetched_ahead(self._listed(), is_wanted, self._limit + 1)

    def _listed(self) -> Iterator[RemoteFile | NotRead]:
        pool = ThreadPoolExecutor(AT_ONCE)
        try:
            if not any(sign in self._moving for sign in "*?["):
                yield self._looked_at(self._moving)
                return
            waiting: list[tuple[str, Rest]] = [("", self._pattern.start)]
            while waiting:
                folder, rest = waiting.pop()
                try:
                    names = self._names(folder)
                except OSError as error:  # which the server gives for this one
                    if not folder:
                        raise self._refusal(error) from error
                    yield NotRead(folder, "error", _describe_error(error), is_folder=True)
                    continue
                below = ((f"{folder}{name}", self._pattern.below(rest, name[:-1])) for name in names if name[-1] == "/")
                waiting += [(path, left) for path, left in below if left]
                yield from pool.map(
                    self._looked_at, [f"{folder}{name}" for name in names if self._pattern.names(rest, name)]
                )
        finally:
            pool.shutdown(cancel_futures=True)

    def _names(self, folder: str) -> list[str]:
        """The names in a folder; those of folders end with a slash."""
        with self._open("GET", self._top + quote(folder)) as answer:
            page, url = _body(answer, _FOLDER_BYTES).decode("utf-8", "replace"), answer.url
        links = (joined(url, href) for href in Selector(page or "<p>").xpath("//a/@href").getall())
        targets = (link.partition("#")[0] for link in links if link is not None)
        here = unquote(url.partition("?")[0])
        paths = (unquote(target.partition("?")[0]) for target in targets)
        names = (path.removeprefix(here) for path in paths if path.startswith(here))
        return list(dict.fromkeys(name for name in names if name.strip("./") and "/" not in name[:-1]))

    def _looked_at(self, name: str) -> RemoteFile | NotRead:
        url, headers = self._top + quote(name), HTTPMessage()
        try:
            with self._open("HEAD", url) as answer:
                headers = answer.headers
        except HTTPError as error:
            if error.code in (404, 410):
                return NotRead(name, "gone", "its folder lists it, and it is not there")
            if error.code not in (405, 501):  # it may be read all the same
                return NotRead(name, "error", _describe_error(error))
        except OSError as error:
            return NotRead(name, "error", _describe_error(error))
        length, changed = headers.get("Content-Length", ""), headers.get("Last-Modified", "")
        etag = headers.get("ETag") or (f"{changed} {length}" if changed else "")
        return RemoteFile(name, etag, int(length) if length.isdecimal() else None, partial(self._read, url))

    def _read(self, url: str, size: int) -> bytes:
        try:
            with self._open("GET", url) as answer:
                return _body(answer, size)
        except HTTPError as error:
            if error.code in (404, 410):
                raise FileNotFoundError(url) from error
            raise

    def _open(self, method: str, url: str) -> Any:
        """The answer; HTTPError where it is a refusal, OSError where it leads to no URL, Unreachable where there is
        none. The first and the last may pass, and are tried again.
        """
        for left in reversed(range(_TRIES)):
            try:
                return self._opener.open(Request(url, method=method, headers=self._headers), timeout=_PATIENCE_S)
            except HTTPError as error:
                if not left or error.code < 500:
                    raise
            except (OSError, HTTPException) as error:
                if not left:
                    raise self._refusal(error) from error
            except ValueError as error:
                raise OSError(f"it leads to no URL: {error}") from error
        raise AssertionError

    def _refusal(self, error: Exception) -> AlmanacError:
        code = error.code if isinstance(error, HTTPError) else None
        kind: type[AlmanacError] = Unreachable if code is None or code >= 500 else OperationalError
        hint = f"curl -I {self._top}"
        if code in (401, 403):
            kind, hint = CredentialRefused, 'auth: {user: "${USER}", password: "${PASSWORD}"}, and may they list it?'
        return kind(f"{self._top} cannot be listed: {_describe_error(error)}", where=f"source {self._name}", hint=hint)


class _OnSameHost(HTTPRedirectHandler):
    """Follows no redirect to another host, or away from https: declared credentials go along."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        if urlsplit(newurl)[:2] != urlsplit(req.full_url)[:2]:
            return None
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        if following is not None:
            following.method = req.get_method()
        return following


def _body(answer: Any, size: int) -> bytes:
    """At most `size` bytes of an answer; OSError where it is cut short."""
    try:
        body: bytes = answer.read(size)
    except HTTPException as error:
        raise OSError("its content breaks off") from error
    if len(body) < size and answer.length:
        raise OSError("its content breaks off")
    return body


def _describe_error(error: Exception) -> str:
    if isinstance(error, HTTPError):
        where = error.headers.get("Location") if 300 < error.code < 400 else None
        return f"the server answers {error.code}{f', and leads to {where}' if where else ''}"
    reason = getattr(error, "reason", error)
    return str(getattr(reason, "strerror", None) or reason or type(error).__name__)
