"""Detects addresses outside the public internet, such as loopback and private networks, which are fetched from only if
the declaration allows it.
"""

import ipaddress
import socket

_WAY_OUT = "declare politeness: {allow_private: true} to fetch from it"

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # contains an IPv4 address, to which packets are delivered
_CARRIER = ipaddress.IPv4Network("100.64.0.0/10")
_PROTOCOLS = ipaddress.IPv4Network("192.0.0.0/24")  # RFC 6890; Python 3.11 takes most of it for public
# the only ones in it that are routed
_ANYCAST = (ipaddress.IPv4Address("192.0.0.9"), ipaddress.IPv4Address("192.0.0.10"))
_SITE_LOCAL = ipaddress.IPv6Network("fec0::/10")
_DOCUMENTATION = ipaddress.IPv6Network("3fff::/20")  # RFC 9637; Python 3.11 takes it for a public one
_PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")  # all global unicast addresses that IANA has allocated so far


def private_kind(address: str) -> str | None:
    """Returns the kind of an IP address outside the public internet (`loopback`, `private`, …), else None. ValueError
    where it is not an IP address.
    """
    ip = _innermost(ipaddress.ip_address(address.partition("%")[0]))
    claims = {
        "unspecified": ip.is_unspecified,
        "loopback": ip.is_loopback,
        "link-local": ip.is_link_local,
        "multicast": ip.is_multicast,
        "carrier-grade NAT": ip in _CARRIER,
        "site-local": ip in _SITE_LOCAL,
        "private": (ip.is_private and not ip.is_reserved)
        or ip in _DOCUMENTATION
        or (ip in _PROTOCOLS and ip not in _ANYCAST),
        "reserved": ip.is_reserved or (ip.version == 6 and ip not in _PUBLIC_V6),
    }
    return next((kind for kind, holds in claims.items() if holds), None)


def private_host(host: str) -> str | None:
    """Returns a description of a host whose name alone shows that it is private; None where that depends on a DNS
    look-up.
    """
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return f"{host} is this machine"
    address = _written_address(name)
    kind = private_kind(address) if address else None
    return describe(host, address, kind) if address and kind else None


def describe(host: str, address: str, kind: str) -> str:
    """Describes a private host: `db.example is 10.0.0.7, a private address`."""
    article = "an" if kind[0] in "aeiou" else "a"
    return (
        f"{host} is {article} {kind} address" if host == address else f"{host} is {address}, {article} {kind} address"
    )


def refusal(finding: str) -> str:
    """Extends a finding of `private_host` or `describe` by how to allow the address."""
    return f"{finding}; {_WAY_OUT}"


def _written_address(host: str) -> str | None:
    """Returns the IP address that a host is written as, in any form that the system's resolver accepts: 127.1 and
    0x7f000001 are 127.0.0.1. Else None.
    """
    try:
        return str(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        pass
    try:
        return socket.inet_ntoa(socket.inet_aton(host)) if host[:1].isdigit() else None
    except OSError:
        return None


def _innermost(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    if ip in _NAT64:
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or ip
