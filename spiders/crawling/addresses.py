"""Keeps a crawl off private addresses, at the one place where a name becomes an address.

Twisted connects to the very addresses that the resolver hands out and looks nothing up again, so what is checked here is what is
connected to: no public name that points inside, no second answer of a DNS server and no odd spelling of an address gets past,
and not one packet is sent to what is refused.
"""

# ruff: noqa: N802, N803  Twisted's names
from typing import Any

from scrapy.crawler import Crawler
from scrapy.exceptions import CannotResolveHostError
from scrapy.http import Request
from scrapy.resolver import CachingHostnameResolver, HostResolution
from scrapy.utils.datatypes import LocalCache
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import IResolutionReceiver
from zope.interface import implementer  # type: ignore[import-untyped]  # ships no types

from almanac.schemas.declaration.addresses import describe, private_kind, refusal
from almanac.spiders.crawling.refusal import Refusal

_REMEMBERED_HOSTS = 10_000


class GuardedResolver(CachingHostnameResolver):
    """Looks host names up, IPv4 first, and keeps private addresses back unless `ALLOW_PRIVATE` is set.

    `refused` says why a host that has only private addresses was left without one.
    """

    def __init__(self, reactor: Any, cache_size: int, *, allow_private: bool) -> None:
        super().__init__(reactor, cache_size)
        self.allow_private = allow_private
        self.refused: LocalCache[str, str] = LocalCache(_REMEMBERED_HOSTS)

    @classmethod
    def from_crawler(cls, crawler: Crawler, reactor: Any) -> "GuardedResolver":
        settings = crawler.settings
        return cls(reactor, settings.getint("DNSCACHE_SIZE"), allow_private=settings.getbool("ALLOW_PRIVATE"))

    def resolveHostName(
        self,
        resolutionReceiver: Any,
        hostName: str,
        portNumber: int = 0,
        addressTypes: Any = None,
        transportSemantics: str = "TCP",
    ) -> Any:
        guard: Any = _Guard(resolutionReceiver, hostName, self)
        if _ascii(hostName) is None:  # getaddrinfo would raise where nobody listens, and the request would hang
            guard.resolutionBegan(HostResolution(hostName))
            guard.resolutionComplete()
            return HostResolution(hostName)
        return super().resolveHostName(guard, hostName, portNumber, addressTypes, transportSemantics)


@implementer(IResolutionReceiver)
class _Guard:
    """Passes on what may be connected to."""

    def __init__(self, receiver: Any, host: str, resolver: GuardedResolver) -> None:
        self._receiver = receiver
        self._host = host
        self._resolver = resolver
        self._addresses: list[Any] = []

    def resolutionBegan(self, resolution: Any) -> None:
        self._receiver.resolutionBegan(resolution)

    def addressResolved(self, address: Any) -> None:
        self._addresses.append(address)

    def resolutionComplete(self) -> None:
        kinds = {address: None if self._resolver.allow_private else private_kind(address.host) for address in self._addresses}
        public = [address for address, kind in kinds.items() if kind is None]
        if kinds and not public:
            address, kind = next(iter(kinds.items()))
            self._resolver.refused[_key(self._host)] = refusal(describe(self._host, address.host, str(kind)))
        # Attempts start 0.3 s apart: a site that listens on IPv4 only would pay for every connection.
        for address in sorted(public, key=lambda address: not isinstance(address, IPv4Address)):
            self._receiver.addressResolved(address)
        self._receiver.resolutionComplete()


class PrivateAddresses:
    """Tells a host that was refused from one that cannot be found, and refuses to crawl where no guard stands."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "PrivateAddresses":  # noqa: ARG003  Scrapy's signature
        return cls()

    def process_request(self, request: Request) -> None:  # noqa: ARG002  Scrapy's signature
        _guard()

    def process_exception(self, request: Request, exception: Exception) -> None:
        if isinstance(exception, CannotResolveHostError):
            finding = _guard().refused.get(_key(urlparse_cached(request).hostname or ""))
            if finding is not None:
                raise Refusal("private_address", finding) from exception


def _guard() -> GuardedResolver:
    from twisted.internet import reactor

    resolver = reactor.nameResolver
    if not isinstance(resolver, GuardedResolver):
        raise RuntimeError("no guard over private addresses is in place: TWISTED_DNS_RESOLVER must be almanac.spiders.crawling.addresses.GuardedResolver")
    return resolver


def _ascii(host: str) -> str | None:
    """The name as DNS knows it; None where it cannot have it."""
    if host.isascii():
        return host.lower() if all(len(label) < 64 for label in host.split(".")) else None
    try:
        return host.encode("idna").decode("ascii").lower()
    except UnicodeError:
        return None


def _key(host: str) -> str:
    return _ascii(host) or host
