"""Canonical URLs, host checks, query parameters, and declared URL patterns."""

import ipaddress
import re
from collections.abc import Callable, Collection, Iterable
from fnmatch import fnmatchcase
from urllib.parse import parse_qsl, quote_plus, unquote, unquote_plus, urljoin, urlsplit

from almanac.core.patterns import TooSlow, search
from almanac.schemas.declaration.url_types import ascii_host

# the longest that common servers and proxies accept; longer ones nearly always come from a loop of parameters
MAX_URL_LENGTH = 2083

_DEFAULT_PORTS = {"http": 80, "https": 443}
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_PATH_SAFE = _UNRESERVED | frozenset("!$&'()*+,;=:@/")
_QUERY_SAFE = _PATH_SAFE | frozenset("?")
_SUFFIX = re.compile(r"(?<!^)\.[A-Za-z][A-Za-z0-9]{0,8}$")
_LETTERS = re.compile(r"(?:%[89A-Fa-f][0-9A-Fa-f])+")
_CHARACTER = re.compile(r"%([0-9A-Fa-f]{2})|(.)", re.DOTALL)
# Browsers remove these anywhere in a URL.
_INVISIBLE = str.maketrans("", "", "\t\r\n")


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_AUTHORITY = re.compile(r"((?:https?:)?)//+", re.IGNORECASE)


def as_browsers_read(reference: str) -> str:
    """A link of an http(s) page, with each `\\` before its query and fragment as `/`, and more than two slashes before
    a host as two (WHATWG).

    Links of other schemes stay as they are, as in `javascript:'\\n'`.
    """
    reference = reference.translate(_INVISIBLE).strip()
    scheme = _SCHEME.match(reference)
    if scheme is not None and scheme[1].lower() not in _DEFAULT_PORTS:
        return reference
    end = min((at for mark in "?#" if (at := reference.find(mark)) >= 0), default=len(reference))
    head = reference[:end].replace("\\", "/")
    if authority := _AUTHORITY.match(head):
        head = f"{authority[1]}//{head[authority.end() :]}"
    return head + reference[end:]


def joined(base_url: str, reference: str) -> str | None:
    """Where a link leads; None where it is no URL, such as `http://[`."""
    try:
        return urljoin(base_url, reference)
    except ValueError:
        return None


def canonical_url(url: str, ignore_parameters: Iterable[str] = ()) -> str:
    """The canonical spelling of an http(s) URL (RFC 3986, 6.2); idempotent. Raises ValueError if there is no http(s)
    host.

    Removed: fragment, default port, user and password, and parameters that match `ignore_parameters` (`utm_*` style),
    in the query and in the path (`;jsessionid=…`). Parameter order and trailing slashes are kept, because servers
    distinguish such URLs.
    """
    ignored = list(ignore_parameters)
    parts = urlsplit(url.translate(_INVISIBLE).strip())
    scheme = parts.scheme.lower()
    if scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise ValueError(f"not an http(s) URL with a host: {url[:200]!r}")
    host = ascii_host(parts.hostname)
    port = "" if parts.port in (None, _DEFAULT_PORTS[scheme]) else f":{parts.port}"
    path = _without_dot_segments(_normal_escapes(_without_path_parameters(parts.path, ignored), _PATH_SAFE)) or "/"
    query = _normal_escapes(_without_parameters(parts.query, ignored), _QUERY_SAFE)
    return f"{scheme}://{host}{port}{path}" + (f"?{query}" if query else "")


def is_on_domains(url: str, domains: Collection[str]) -> bool:
    """Whether the URL's host is one of `domains`, in lower case, or a subdomain of one."""
    labels = (urlsplit(url).hostname or "").split(".")
    return any(".".join(labels[first:]) in domains for first in range(len(labels)))


def is_loopback(host: str) -> bool:
    """Whether `host` is this machine, judged by name or IP address without a DNS lookup."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _normal_escapes(text: str, safe: frozenset[str]) -> str:
    """Percent-escapes normalised: upper case, unreserved characters unescaped, everything outside `safe` escaped."""

    def normal(match: re.Match[str]) -> str:
        if match[1]:
            character = chr(int(match[1], 16))
            return character if character in _UNRESERVED else f"%{match[1].upper()}"
        if match[2] in safe:
            return match[2]
        return "".join(f"%{byte:02X}" for byte in match[2].encode("utf-8", "replace"))

    return _CHARACTER.sub(normal, text)


def _without_dot_segments(path: str) -> str:
    if "/." not in path:
        return path
    resolved: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            del resolved[-1:]
        elif segment != ".":
            resolved.append(segment)
    if segments[-1] in (".", ".."):
        resolved.append("")
    return "/" + "/".join(resolved)


def _without_parameters(query: str, patterns: list[str]) -> str:
    return "&".join(pair for pair in query.split("&") if not _is_named(pair, patterns)) if patterns else query


def _without_path_parameters(path: str, patterns: list[str]) -> str:
    if not patterns or ";" not in path:
        return path
    segments = (
        [name, *(pair for pair in rest if not _is_named(pair, patterns))]
        for name, *rest in (segment.split(";") for segment in path.split("/"))
    )
    return "/".join(";".join(segment) for segment in segments)


def _is_named(pair: str, patterns: list[str]) -> bool:
    """Whether the name in `name=value` matches one of the patterns."""
    name = unquote_plus(pair.partition("=")[0])
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def parameter_of(url: str, name: str) -> str | None:
    """The value of a query parameter, the first if it is repeated; None if it is missing."""
    return next((value for key, value in parse_qsl(urlsplit(url).query, keep_blank_values=True) if key == name), None)


def with_parameter(url: str, name: str, value: str | None) -> str:
    """The URL with a query parameter set, at its old position or at the end; with None, removed."""
    parts = urlsplit(url)
    pairs = [pair for pair in parts.query.split("&") if pair]
    at = [number for number, pair in enumerate(pairs) if unquote_plus(pair.partition("=")[0]) == name]
    new = [] if value is None else [f"{quote_plus(name)}={quote_plus(value)}"]
    other_pairs = [pair for number, pair in enumerate(pairs) if number not in at]
    place = at[0] if at else len(pairs)
    return parts._replace(query="&".join([*other_pairs[:place], *new, *other_pairs[place:]])).geturl()


def spellings(url: str) -> list[str]:
    """The URL with letters of all scripts decoded, and as it is sent where that differs; declared patterns may mean
    either.
    """
    readable = _LETTERS.sub(lambda match: _decoded(match[0]), url)
    return [readable] if readable == url else [readable, url]


def _decoded(escapes: str) -> str:
    try:
        return unquote(escapes, errors="strict")
    except UnicodeDecodeError:  # not UTF-8
        return escapes


def url_matcher(pattern: str | None, *, when_slow: bool = False) -> Callable[[str], bool]:
    """A function that tests whether a declared regular expression is found anywhere in a URL. With pattern None,
    nothing matches.

    `when_slow` is its result if the expression exceeds the time limit.
    """
    if pattern is None:
        return lambda _: False

    def matches(url: str) -> bool:
        try:
            return any(search(pattern, spelled) is not None for spelled in spellings(url))
        except TooSlow:
            return when_slow

    return matches


def file_title(url: str) -> str:
    """The name of a file without its suffix: `my notes` for `a/my notes.md`.

    `url` is the path of a file, or an http(s) URL, whose escapes are decoded.
    """
    path = unquote(urlsplit(url).path) if url.startswith(("http://", "https://")) else url
    return _SUFFIX.sub("", path.rstrip("/").rpartition("/")[2])
