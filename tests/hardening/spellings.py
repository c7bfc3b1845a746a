"""Spellings of addresses that no crawl may reach, made from the blocks that IANA does not route and from the ways in
which an address can be written.
"""

import ipaddress
from collections.abc import Iterator
from random import Random

# Blocks of IANA's registries of special-purpose addresses that are not globally reachable, and those of private use.
# Written down here once more, not imported.
BLOCKS_V4 = (
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/29",
    "192.0.0.8/32",
    "192.0.0.11/32",
    "192.0.0.128/25",
    "192.0.2.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "255.255.255.255/32",
)
BLOCKS_V6 = (
    "::/128",
    "::1/128",
    "::ffff:0:0/104",
    "64:ff9b:1::/48",
    "100::/64",
    "100:0:0:1::/64",
    "2001::/32",
    "2001:2::/48",
    "2001:10::/28",
    "2001:db8::/32",
    "3fff::/20",
    "5f00::/16",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
)
_NAMES = ("localhost", "shop.localhost", "a.b.localhost")
_DIGITS = {
    "wide": "０１２３４５６７８９",
    "bold": "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗",
    "mono": "𝟶𝟷𝟸𝟹𝟺𝟻𝟼𝟽𝟾𝟿",
    "raised": "⁰¹²³⁴⁵⁶⁷⁸⁹",
    "ringed": "⓪①②③④⑤⑥⑦⑧⑨",
}
_DOTS = "。．｡"
_UNSEEN = "\u00ad\u200b\u2060\ufeff\u200d"


def is_private(address: str) -> bool:
    """Whether an address, or the IPv4 address within it to which its packets go, lies in one of the blocks."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv4Address):
        return any(ip in ipaddress.IPv4Network(block) for block in BLOCKS_V4)
    within = (
        ip.ipv4_mapped
        or ip.sixtofour
        or (ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in ipaddress.IPv6Network("64:ff9b::/96") else None)
    )
    return is_private(str(within)) if within else any(ip in ipaddress.IPv6Network(block) for block in BLOCKS_V6)


def addresses_v4(each: int, seed: int = 23) -> list[str]:
    """The first, the last and some random addresses of every block."""
    random, addresses = Random(seed), []
    for block in map(ipaddress.IPv4Network, BLOCKS_V4):
        addresses += [block[0], block[-1], *(block[random.randrange(block.num_addresses)] for _ in range(each))]
    return list(dict.fromkeys(map(str, addresses)))


def addresses_v6(each: int, seed: int = 29) -> list[str]:
    random, addresses = Random(seed), []
    for block in map(ipaddress.IPv6Network, BLOCKS_V6):
        addresses += [block[0], block[-1], *(block[random.randrange(block.num_addresses)] for _ in range(each))]
    return list(dict.fromkeys(map(str, addresses)))


def hosts_v4(address: str) -> Iterator[str]:
    """Ways to write an IPv4 address as the host of a URL; some are read by no resolver, and lead nowhere."""
    ip = ipaddress.IPv4Address(address)
    number, parts = int(ip), address.split(".")
    octets = [int(part) for part in parts]
    yield address
    yield f"{address}."
    yield str(number)
    yield f"{number:#x}"
    yield f"{number:#X}"
    yield f"{number:#o}".replace("0o", "0")
    yield f"0000{number:#o}".replace("0o", "0")
    yield ".".join(f"{octet:#x}" for octet in octets)
    yield ".".join(f"0{octet:o}" for octet in octets)
    yield ".".join(f"{octet:04o}" for octet in octets)
    yield ".".join(f"00{octet:o}" if place % 2 else f"{octet:#x}" for place, octet in enumerate(octets))
    yield f"{octets[0]}.{number & 0xFFFFFF}"
    yield f"{octets[0]}.{octets[1]}.{number & 0xFFFF}"
    yield f"{octets[0]:#x}.{octets[1]}.0{number & 0xFFFF:o}"
    for digits in _DIGITS.values():
        yield address.translate(str.maketrans("0123456789", digits))
    for dot in _DOTS:
        yield dot.join(parts)
        yield f"{parts[0]}{dot}{'.'.join(parts[1:])}"
    for unseen in _UNSEEN:
        yield f"{address[:2]}{unseen}{address[2:]}"
    yield address.replace(".", "%2e")
    yield f"%{ord(address[0]):02x}{address[1:]}"
    yield f"user:pass@{address}"
    yield f"8.8.8.8%40{address}"
    high, low = number >> 16, number & 0xFFFF
    for form in (
        f"::ffff:{address}",
        f"::ffff:{high:x}:{low:x}",
        f"0:0:0:0:0:FFFF:{high:X}:{low:X}",
        f"0000:0000:0000:0000:0000:ffff:{address}",
        f"::{address}",
        f"::ffff:0:{address}",
        f"64:ff9b::{address}",
        f"64:ff9b::{high:x}:{low:x}",
        f"64:ff9b:1::{address}",
        f"2002:{high:x}:{low:x}::",
        f"2002:{high:x}:{low:x}::1",
        f"2001:0:{high:x}:{low:x}::{high ^ 0xFFFF:x}:{low ^ 0xFFFF:x}",
        f"fe80::5efe:{address}",
        f"::ffff:{address}%25lo",
        f"::ffff:{address}%lo",
    ):
        yield f"[{form}]"


def hosts_v6(address: str) -> Iterator[str]:
    ip = ipaddress.IPv6Address(address)
    yield f"[{address}]"
    yield f"[{ip.exploded}]"
    yield f"[{ip.exploded.upper()}]"
    yield f"[{ip.exploded.replace(':0000', ':0')}]"
    yield f"[{address}%25lo]"
    yield f"[{address}%lo]"


def hosts_of_names() -> Iterator[str]:
    for name in _NAMES:
        yield from (
            name,
            name.upper(),
            f"{name}.",
            name.replace("l", "ｌ"),
            name.replace("o", "ⓞ"),
            name.replace("s", "ſ"),
            name.replace("lo", "lo\u00ad"),
        )
        yield from (name.replace("loc", f"loc{unseen}") for unseen in _UNSEEN)


def references(host: str, port: int, path: str) -> Iterator[str]:
    """Ways to write a link to a host; browsers and libraries differ on what they mean."""
    yield f"http://{host}:{port}{path}"
    yield f"HTTP://{host}:{port}{path}"
    yield f"//{host}:{port}{path}"
    yield f"http:\\\\{host}:{port}{path}"
    yield f"/\\{host}:{port}{path}"
    yield f"ht\ntp://{host}:{port}{path}"
    yield f"  http://{host}:{port}{path}\t"
    yield f"http:/{host}:{port}{path}"
    yield f"http:{host}:{port}{path}"
    yield f"http://s0.test@{host}:{port}{path}"
    yield f"http://s0.test:80@{host}:{port}{path}"
    yield f"http://{host}:{port}\\@s0.test{path}"
    yield f"http://{host}:{port}#@s0.test{path}"
    yield f"http://{host}:{port}?@s0.test{path}"
    yield f"http://s0.test#@{host}:{port}{path}"
    yield f"http://{host}:0{port}{path}"
