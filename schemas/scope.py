"""Scope of a run, given by the options --source, --url and --full, and validated against the declaration before the run
starts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.declaration.url_types import http_url
from almanac.schemas.errors import UsageError


@dataclass(frozen=True, slots=True)
class Scope:
    """What a run covers: the given sources (all if empty) and of these the given URLs (all if empty). `full` requests
    and maps every page again.
    """

    sources: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    full: bool = False

    @classmethod
    def from_options(
        cls,
        declaration: Declaration,
        sources: Sequence[str] | None = None,
        urls: Sequence[str] | None = None,
        *,
        full: bool = False,
    ) -> "Scope":
        """Returns a validated scope without duplicates.

        Raises UsageError for a source that is not declared, for URLs without exactly one site as source, and for an
        invalid URL.
        """
        known = [source.name for source in declaration.sources]
        for name in sources or ():
            if name not in known:
                raise UsageError(
                    f"no source '{name}' in {declaration.name}", where="--source", hint=f"there are: {', '.join(known)}"
                )
        scope = cls(tuple(dict.fromkeys(sources or ())), tuple(dict.fromkeys(urls or ())), full)
        if scope.urls:
            _require_pages(declaration, scope)
        return scope

    def covers(self, source: str) -> bool:
        return not self.sources or source in self.sources


def _require_pages(declaration: Declaration, scope: Scope) -> None:
    sites = [source.name for source in declaration.sources if isinstance(source, SiteSource)]
    if len(scope.sources) != 1 or scope.sources[0] not in sites:
        hint = f"sites: {', '.join(sites) or 'none'}"
        raise UsageError("needs exactly one --source, the site that the page belongs to", where="--url", hint=hint)
    for url in scope.urls:
        try:
            http_url(url)
        except ValueError as error:
            raise UsageError(str(error), where=url, hint="copy the address of a page from the browser") from error
