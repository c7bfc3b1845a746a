"""What a crawl asks for: two crawls of one fingerprint ask for the same pages in the same way."""

from almanac.schemas.declaration.source import SiteSource, Source
from almanac.schemas.hashing import short_hash

_FETCHED_BY = ("start_urls", "sitemaps", "allowed_domains", "follow", "ignore_parameters", "pagination", "limits")


def fetching_of(source: Source) -> str:
    """Fingerprint of what decides which pages a source has, and how they are asked for; what is read from them plays no part.

    The identity that the crawl presents is not in it: secrets stand in no fingerprint (`requester_fingerprint` has it).
    """
    declared = source.model_dump(by_alias=True, mode="json")
    if not isinstance(source, SiteSource):
        return short_hash({key: declared[key] for key in ("glob", "format", "limits")})
    listing = {key: value for key, value in (declared["listing"] or {}).items() if key != "fields"}
    # A pagination ends where a page adds nothing: cards, or else items, or else what stands on pages that may be items.
    adds = ("each",) if source.each is not None else ("match",)
    ends = {key: declared[key] for key in adds} if source.pagination.is_declared and source.listing is None else {}
    manners = {key: declared["politeness"][key] for key in ("robots", "allow_private")}
    return short_hash({"listing": listing, "ends": ends, "politeness": manners, **{key: declared[key] for key in _FETCHED_BY}})
