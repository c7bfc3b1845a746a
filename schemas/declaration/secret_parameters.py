"""Query parameters whose values come from the environment: sent to the host whose URLs declare them, and part of no URL
that is kept or shown.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from urllib.parse import quote, quote_plus, unquote, unquote_plus, urlsplit

from pydantic import SecretStr

from almanac.schemas.declaration.url_types import ascii_host

_MASK = "*" * 10
# What may stand between a name and its value: in a URL, also escaped in HTML, JSON or another URL, or in JSON, a script
# or an attribute.
_BETWEEN = r"(?i:%3D|\\u003D|&#(?:61|x3D);|\\?[\"']?\s{0,9}[:=]\s{0,9}\\?[\"']?|[\"']\s{1,9}value\s{0,9}=\s{0,9}[\"']?)"
_END = r"(?![\w-])"
Pairs = Mapping[str, Mapping[str, SecretStr]]


@dataclass(frozen=True)
class SecretParameters:
    """The secret parameters of a source. `pairs`: host → name → `name=value` as it stands in the declared URL."""

    pairs: Pairs = field(default_factory=dict, repr=False)

    def __bool__(self) -> bool:
        return bool(self.pairs)

    def revealed(self) -> dict[str, dict[str, str]]:
        """The pairs in clear text, for the process of a crawl and for the fingerprint of who asks."""
        return {
            host: {name: pair.get_secret_value() for name, pair in of_host.items()}
            for host, of_host in self.pairs.items()
        }

    @classmethod
    def from_revealed(cls, revealed: Mapping[str, Mapping[str, str]]) -> "SecretParameters":
        """The parameters that `revealed` has written."""
        return cls(
            {host: {name: SecretStr(pair) for name, pair in of_host.items()} for host, of_host in revealed.items()}
        )

    def without(self, url: str) -> str:
        """The URL without secret parameters: those of its host by their names, those of other hosts where the value is
        the secret.
        """
        if not self.pairs or "?" not in url:
            return url
        head, _, rest = url.partition("?")
        query, at, fragment = rest.partition("#")
        own = self.pairs.get(host_of(url), {})
        public_pairs = [
            pair for pair in query.split("&") if name_of(pair) not in own and unquote_plus(pair) not in self._anywhere
        ]
        return head + (f"?{'&'.join(public_pairs)}" if public_pairs else "") + at + fragment

    def added(self, url: str) -> str:
        """The URL with the secret parameters of its host, as it is sent."""
        own = self.pairs.get(host_of(url))
        if not own:
            return url
        head, at, fragment = self.without(url).partition("#")
        return (
            head
            + ("&" if "?" in head else "?")
            + "&".join(pair.get_secret_value() for pair in own.values())
            + at
            + fragment
        )

    def masked(self, text: str) -> str:
        """The text with a mask in place of each secret value that stands beside its name."""
        return self._in_text.sub(lambda match: f"{match[match.lastindex or 0]}{_MASK}", text) if self.pairs else text

    def masked_bytes(self, body: bytes) -> bytes:
        """As `masked`, of a body in any encoding that writes ASCII as ASCII."""
        return (
            self._in_bytes.sub(lambda match: match[match.lastindex or 0] + _MASK.encode(), body) if self.pairs else body
        )

    @cached_property
    def _anywhere(self) -> frozenset[str]:
        return frozenset(unquote_plus(pair) for _, pair in self._all())

    @cached_property
    def _in_text(self) -> re.Pattern[str]:
        return re.compile("|".join(_shown_as(name, pair) for name, pair in self._all()))

    @cached_property
    def _in_bytes(self) -> re.Pattern[bytes]:
        return re.compile(self._in_text.pattern.encode("utf-8", "surrogateescape"))

    def _all(self) -> Iterator[tuple[str, str]]:
        for of_host in self.pairs.values():
            for name, pair in of_host.items():
                yield name, pair.get_secret_value()


def name_of(pair: str) -> str:
    """The name of a query parameter, decoded."""
    return unquote_plus(pair.partition("=")[0])


def _shown_as(name: str, pair: str) -> str:
    """An expression for the ways to write a parameter outside the URL that declares it; what its group matches is no
    secret.
    """
    written, has_value, value = pair.partition("=")
    if not has_value:
        return f"([?&;]){_any_of([name, written])}{_END}"
    return f"({_any_of([name, written])}{_BETWEEN}){_any_of([value, unquote_plus(value), unquote(value)])}{_END}"


def _any_of(texts: Iterable[str]) -> str:
    spelled = {
        spelling
        for text in texts
        for spelling in (
            text,
            quote(text),
            quote(text, safe=""),
            quote_plus(text),
            escape(text),
            text.replace("/", "\\/"),
        )
    }
    return f"(?:{'|'.join(map(re.escape, sorted(spelled, key=lambda spelling: (-len(spelling), spelling))))})"


def host_of(url: str) -> str:
    """The host of a URL; empty if it has none."""
    try:
        return ascii_host(urlsplit(url).hostname or "")
    except ValueError:
        return ""
