"""One page, one URL: what two spellings of an address have in common, and which host it belongs to."""

import ipaddress
import posixpath
import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from urllib.parse import unquote_plus, urlsplit

MAX_URL_LENGTH = 2083  # what common servers and proxies still accept; longer ones are nearly always a loop of parameters

_DEFAULT_PORTS = {"http": 80, "https": 443}
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_PATH_SAFE = _UNRESERVED | frozenset("!$&'()*+,;=:@/")
_QUERY_SAFE = _PATH_SAFE | frozenset("?")
_CHARACTER = re.compile(r"%([0-9A-Fa-f]{2})|(.)", re.DOTALL)
# Browsers drop these wherever they stand in an address.
_INVISIBLE = str.maketrans("", "", "\t\r\n")


def canonical_url(url: str, ignore_parameters: Iterable[str] = ()) -> str:
    """The one spelling of an http(s) URL (RFC 3986, 6.2); canonical URLs stay as they are.

    Fragments, default ports and parameters that match `ignore_parameters` (`utm_*` style) go; other parameters keep
    their order, and trailing slashes are kept, because servers tell such URLs apart. Raises ValueError where there is no host.
    """
    parts = urlsplit(url.translate(_INVISIBLE).strip())
    scheme = parts.scheme.lower()
    if scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise ValueError(f"not an http(s) URL with a host: {url[:200]!r}")
    host = _ascii_host(parts.hostname)
    port = "" if parts.port in (None, _DEFAULT_PORTS[scheme]) else f":{parts.port}"
    user = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
    path = _without_dot_segments(_normal_escapes(parts.path, _PATH_SAFE)) or "/"
    query = _normal_escapes(_without_parameters(parts.query, list(ignore_parameters)), _QUERY_SAFE)
    return f"{scheme}://{user}{host}{port}{path}" + (f"?{query}" if query else "")


def is_on_domains(url: str, domains: Iterable[str]) -> bool:
    """Whether the URL's host is one of `domains` or below one of them."""
    host = urlsplit(url).hostname or ""
    return any(host == domain.lower() or host.endswith(f".{domain.lower()}") for domain in domains)


def is_loopback(host: str) -> bool:
    """Whether `host` is this machine, by its name alone: nothing is looked up."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _ascii_host(host: str) -> str:
    if ":" in host:
        return f"[{host.lower()}]"
    try:
        return host.encode("idna").decode("ascii").lower()
    except UnicodeError as error:
        # Underscores and long labels are no host names by IDNA, yet DNS serves some of them.
        if host.isascii():
            return host.lower()
        raise ValueError(f"not a host name: {host!r}") from error


def _normal_escapes(text: str, safe: frozenset[str]) -> str:
    """Escapes in upper case; unreserved characters unescaped; everything that is not in `safe` escaped."""

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
    kept: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


def _without_parameters(query: str, patterns: list[str]) -> str:
    if not patterns:
        return query
    return "&".join(pair for pair in query.split("&") if not any(fnmatchcase(unquote_plus(pair.partition("=")[0]), pattern) for pattern in patterns))


def url_matcher(pattern: str | None) -> Callable[[str], bool]:
    """A test whether a declared regular expression is found anywhere in a URL; without one, nothing matches."""
    if pattern is None:
        return lambda _: False
    found = re.compile(pattern).search
    return lambda url: found(url) is not None


def file_stem(url: str) -> str:
    """The last part of the path without its suffix: `a/faq.md` → `faq`."""
    return posixpath.splitext(posixpath.basename(urlsplit(url).path))[0]
