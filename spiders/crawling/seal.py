"""As whom a crawl asked, told without telling it: pages that were sent to one asker are no answer to another."""

import hashlib

from schemas.items import canonical_json
from schemas.sources import SiteSource
from spiders.crawling.middlewares import declared_headers


def seal_of(source: SiteSource) -> str:
    """The same for the same user agent, headers, cookies and authentication of a source, and for no others.

    It stands in the journal of a crawl, so it must not give a password away: scrypt (RFC 7914) makes guessing one cost 50 ms and 16 MiB.
    """
    carried = canonical_json({"user_agent": source.politeness.user_agent, "headers": declared_headers(source)})
    salt = f"almanac {source.name}".encode()
    return hashlib.scrypt(carried.encode("utf-8", "surrogatepass"), salt=salt, n=1 << 14, r=8, p=1, maxmem=64 << 20, dklen=32).hex()
