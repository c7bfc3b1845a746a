"""Fingerprint of the fetching rules: two crawls with the same one request the same pages in the same way."""

from almanac.schemas.declaration.reading_limits import ReadingLimits
from almanac.schemas.declaration.row_sources import SqlSource
from almanac.schemas.declaration.source import RowSource, SiteSource, Source
from almanac.schemas.hashing import short_hash

_READING = set(ReadingLimits.model_fields)  # of `limits`: what reading may take decides nothing about fetching
_FETCHED_BY = ("start_urls", "sitemaps", "allowed_domains", "follow", "ignore_parameters", "pagination", "limits")

_ROWS = ("kind", "id", "gone", "from", "with", "complete", "query", "cursor", "command")


def fetching_of(source: Source) -> str:
    """Hash of the declared rules that decide which pages a source has and how they are requested; mapping rules are
    left out.

    Headers, cookies and credentials are not part of it, since it must contain no secret; `requester_fingerprint` covers
    them.
    """
    declared = source.model_dump(by_alias=True, mode="json", exclude={"limits": _READING})
    if isinstance(source, RowSource):
        where = {"at": _without_user(source.url.get_secret_value())} if isinstance(source, SqlSource) else {}
        return short_hash({**where, **{key: declared[key] for key in _ROWS if key in declared}})
    if not isinstance(source, SiteSource):
        links = {"follow_links": True} if source.follow_links else {}
        git = {"git": [source.git.address, source.git.ref]} if source.git else {}
        return short_hash({**links, **git, **{key: declared[key] for key in ("glob", "format", "limits")}})
    listing = {key: value for key, value in (declared["listing"] or {}).items() if key != "fields"}
    # A pagination ends where a page adds nothing (see `chain.marks_of`), which depends on `each` or `match` unless
    # there is a listing.
    adds = ("each",) if source.each is not None else ("match",)
    ends = {key: declared[key] for key in adds} if source.pagination.is_declared and source.listing is None else {}
    manners = {key: declared["politeness"][key] for key in ("robots", "allow_private", "noindex")}
    documents = {"fetch": sorted(source.documents), "match": declared["match"]} if source.documents else {}
    drawn = {"render": declared["render"]} if source.render is not None else {}
    posted = {"request": declared["request"]} if source.request is not None else {}
    gone = {"gone": sorted(map(str, source.gone))} if source.gone else {}
    rules = {"listing": listing, "ends": ends, "politeness": manners, **{key: declared[key] for key in _FETCHED_BY}}
    rules["language"] = source.accept_language
    return short_hash({**documents, **drawn, **posted, **gone, **rules})


def _without_user(url: str) -> str:
    """The address of a database without user and password."""
    scheme, mark, rest = url.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"
