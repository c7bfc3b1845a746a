"""Keeps a crawl off private addresses at the point of name resolution.

Twisted connects to the very addresses that the resolver returns and does not look them up again, so the addresses
checked here are those connected to. Public names that point to private addresses, DNS rebinding and odd spellings of
addresses are all caught, and no packet is sent to a refused address.
"""

# ruff: noqa: N802, N803  Twisted's names
import asyncio
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

from almanac.schemas.declaration.private_hosts import describe, private_kind, refusal
from almanac.spiders.crawling.refusal import Refusal

_REMEMBERED_HOSTS = 10_000


class GuardedResolver(CachingHostnameResolver):
    """Resolves host names, IPv4 first, and withholds private addresses unless the setting `ALLOW_PRIVATE` is true.

    `refused` maps hosts that have only private addresses to the reason shown in reports.
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
        """Resolves a host name as Twisted asks for it; a name that DNS cannot have resolves to no address."""
        guard: Any = _Guard(resolutionReceiver, hostName, self)
        # getaddrinfo would raise in a thread without a handler, and the request would hang
        if _ascii(hostName) is None:
            guard.resolutionBegan(HostResolution(hostName))
            guard.resolutionComplete()
            return HostResolution(hostName)
        return super().resolveHostName(guard, hostName, portNumber, addressTypes, transportSemantics)


@implementer(IResolutionReceiver)
class _Guard:
    """Forwards permitted addresses to Twisted's receiver."""

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
        kinds = {
            address: None if self._resolver.allow_private else private_kind(address.host) for address in self._addresses
        }
        public = [address for address, kind in kinds.items() if kind is None]
        if kinds and not public:
            address, kind = next(iter(kinds.items()))
            self._resolver.refused[_key(self._host)] = refusal(describe(self._host, address.host, str(kind)))
        # Connection attempts start 0.3 s apart, which a site that listens on IPv4 only would cost on every connection.
        for address in sorted(public, key=lambda address: not isinstance(address, IPv4Address)):
            self._receiver.addressResolved(address)
        self._receiver.resolutionComplete()


async def permitted_addresses(host: str) -> list[str]:
    """The addresses of a host that may be connected to, IPv4 first, for connections that Scrapy does not make itself.

    Raises Refusal where all of them are private, and CannotResolveHostError where there are none.
    """
    resolver, receiver = _guard(), _Receiver()
    resolver.resolveHostName(receiver, host)
    addresses = await receiver.addresses
    if not addresses:
        if finding := resolver.refused.get(_key(host)):
            raise Refusal("private_address", finding)
        raise CannotResolveHostError(f"{host} has no address")
    return addresses


@implementer(IResolutionReceiver)
class _Receiver:
    """Collects the addresses of one resolution."""

    def __init__(self) -> None:
        self.addresses: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        self._resolved: list[str] = []

    def resolutionBegan(self, resolution: Any) -> None:
        pass

    def addressResolved(self, address: Any) -> None:
        self._resolved.append(address.host)

    def resolutionComplete(self) -> None:
        if not self.addresses.done():
            self.addresses.set_result(self._resolved)


class PrivateAddresses:
    """Downloader middleware: reports refused hosts as such, not as unresolvable, and stops a crawl whose resolver is
    not guarded.
    """

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
    """The reactor's guarded resolver. Raises RuntimeError if another resolver is installed."""
    from twisted.internet import reactor

    resolver = reactor.nameResolver
    if not isinstance(resolver, GuardedResolver):
        raise RuntimeError(
            "no guard over private addresses is in place: TWISTED_DNS_RESOLVER must be "
            "almanac.spiders.crawling.addresses.GuardedResolver"
        )
    return resolver


def _ascii(host: str) -> str | None:
    """The host name in ASCII (IDNA); None if it is not a valid name."""
    if host.isascii():
        return host.lower() if all(len(label) < 64 for label in host.split(".")) else None
    try:
        return host.encode("idna").decode("ascii").lower()
    except UnicodeError:
        return None


def _key(host: str) -> str:
    return _ascii(host) or host
