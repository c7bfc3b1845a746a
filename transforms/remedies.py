"""What to declare, or to look at, where the gate refuses a run or warns of it: the cure that fits what was found,
before anybody overrides the gate.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from urllib.parse import parse_qsl, urlsplit

from almanac.core.url_folders import by_folder, say_folders
from almanac.schemas.crawl_outcome import BY_ELEMENT, CrawlOutcome
from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.source import SiteSource, Source
from almanac.schemas.manifest import Check, Verdict

_FOLDERS = 3  # that one line names
_OVERLOADED = frozenset({"server_error", "timeout", "unreachable"})
_WHERE_LEFT_OUT = {
    "refused_by_robots": "robots.txt excludes them; politeness: {robots: false} if you may fetch them all the same",
    "noindex": "they ask not to be indexed; politeness: {noindex: false} if you may index them",
    "denied": "follow.deny matches them, or what they lead to",
    "off_site": "they lead to another host; declare it in allowed_domains if it is yours",
    "too_large": "limits: {bytes_per_page: …} is too small for them",
}
_BY_CHECK = {
    "min_items": "almanac test-url KB URL shows what a page yields; are match, each and the fields right?",
    "max_rejected": "rejects.jsonl has the reason of each; validate: {max_rejected: …} if they may be left out",
    "compared_with": (
        "almanac rollback KB and another run compare with an older version; the release that wrote the live one "
        "compares with that"
    ),
    "max_added": (
        "a calendar or a listing without end: follow: {deny: […]}; parameters that make many URLs of one page: "
        "ignore_parameters: […]"
    ),
    "max_shrunk": (
        "does one of the pages show a login, a notice or half of its text? Then wait, or send what the site "
        "wants: politeness: {cookies: …}"
    ),
    "max_changed": (
        "does one of the pages show a notice in place of its text? Then wait; if the site was rewritten, the "
        "version is right"
    ),
    "min_recall": "almanac eval KB VERSION shows which golden questions fail, and what is found instead",
    "max_recall_drop": "almanac eval KB VERSION shows which golden questions fail, and what is found instead",
}
_UNASKED = (
    "the live version cannot be asked, and nobody knows what it finds: almanac eval KB VERSION shows what the new "
    "one finds"
)


def remedies_of(
    declaration: Declaration, verdict: Verdict, outcomes: Sequence[CrawlOutcome], version: str | None = None
) -> list[str]:
    """A line for each finding behind the checks that refuse or warn, in their order. `version` is the one that was
    judged; None for the live one.
    """
    sources = {source.name: source for source in declaration.sources}
    crawls = [(sources[outcome.source], outcome) for outcome in outcomes if outcome.source in sources]
    by_source = {"complete": _where_cut, "max_failed": _where_failed, "max_lost": _where_lost}
    lines: list[str] = []
    for check in verdict.checks:
        if not check.ok or check.warns:
            tell = by_source.get(check.name)
            crawl_lines = list(chain.from_iterable(tell(source, outcome) for source, outcome in crawls)) if tell else []
            lines += crawl_lines or _of_check(check, declaration.handle, version)
    return list(dict.fromkeys(lines))


def _of_check(check: Check, handle: str, version: str | None) -> list[str]:
    is_unasked = check.name == "max_recall_drop" and isinstance(check.value, str)
    line = _UNASKED if is_unasked else _BY_CHECK.get(check.name)
    return (
        []
        if line is None
        else [line.replace(" VERSION", f" --version {version}" if version else "").replace("KB", handle)]
    )


def _where_cut(_: Source, outcome: CrawlOutcome) -> Iterator[str]:
    for limit in outcome.limits_reached:
        yield (
            f"limits.{limit.limit} cut the crawl of {limit.source}: {limit.known_urls_not_fetched:,} known URLs were "
            f"not fetched ({say_folders(limit.folders)}); "
            f"raise limits: {{{limit.limit}: …}}, or leave out what you do not want by follow: {{deny: […]}}"
        )


def _where_failed(source: Source, outcome: CrawlOutcome) -> Iterator[str]:
    if not isinstance(source, SiteSource):
        return
    failed = [page for page in outcome.failures if page.reason not in ("gone", *_WHERE_LEFT_OUT)]
    for status in sorted({page.status for page in failed if page.status in (401, 403, 407, 451)}):
        yield _where_forbidden(source, status, [page.url for page in failed if page.status == status])
    if circles := [page.url for page in failed if "in a circle" in page.detail]:
        yield (
            f"{_say_pages(source, circles)} redirect to themselves, as sites do that want a cookie: politeness: "
            f"{{cookies: …}}"
        )
    if late := [page.url for page in failed if page.reason in _OVERLOADED]:
        yield (
            f"{_say_pages(source, late)} failed by an error of the server or in time: wait and run again, or go "
            f"slower: politeness: {{delay_s: …, per_domain: 1}}"
        )


def _listed(source: SiteSource, *statuses: int) -> str:
    """What says that a page is gone, as it is declared: `[403, {css: .sold-out}]`; with more statuses."""
    signs = [*sorted({*source.gone_statuses, *statuses}), *(f"{{{element}}}" for element in source.gone_elements)]
    return f"[{', '.join(map(str, signs))}]"


def _where_forbidden(source: SiteSource, status: int, urls: list[str]) -> str:
    manners = source.politeness
    cures = [f"gone: {_listed(source, status)} if the site has withdrawn them"]
    if names := _parameters(urls):
        cures.append(f"ignore_parameters: [{', '.join(names)}] if these make other URLs of the same pages")
    cures.append("follow: {deny: […]} if they were never meant")
    has_credentials = manners.auth or manners.headers or manners.cookies
    login = (
        "politeness: auth, headers and cookies, which may have lapsed"
        if has_credentials
        else "login: may its user see them?"
        if source.login is not None
        else "login: {…}, or politeness: {cookies: …}, if they want one"
    )
    cures.insert(0 if has_credentials else len(cures), login)
    return f"{_say_pages(source, urls)} answer {status}: {'; '.join(cures)}"


def _where_lost(source: Source, outcome: CrawlOutcome) -> Iterator[str]:
    if outcome.vanished and isinstance(source, SiteSource):
        yield (
            f"no link leads to {_say_pages(source, outcome.vanished)} any more: are pagination, listing and "
            "follow.allow still right? "
            f"vanish_after: {source.vanish_after + 2} waits for more crawls"
        )
    elif outcome.vanished:
        yield (
            f"nothing is left of {_say_pages(source, outcome.vanished)}: is glob still right, and is all in its place? "
            "If they were removed, the version is right"
        )
    for reason, cure in _WHERE_LEFT_OUT.items():
        if urls := [page.url for page in outcome.failures if page.reason == reason]:
            yield f"{_say_pages(source, urls)} are left out: {cure}"
    gone = [page for page in outcome.failures if page.reason == "gone"]
    statuses = source.gone_statuses if isinstance(source, SiteSource) else frozenset()
    if isinstance(source, SiteSource) and (withdrawn := [page.url for page in gone if page.status in statuses]):
        yield (
            f"{_say_pages(source, withdrawn)} are gone by the declared gone: {_listed(source)}; if the site only turns "
            "this crawl away, wait, or go slower"
        )
    shown = [page for page in gone if page.status is not None and page.status < 400]
    by_element = [page.url for page in shown if page.detail.startswith(BY_ELEMENT)]
    if by_element:
        yield f"{_say_pages(source, by_element)} have an element that the declared gone names: look at one in a browser"
    if made_up := [page.url for page in shown if page.url not in by_element]:
        yield f"{_say_pages(source, made_up)} show what the site shows for a made-up URL: look at one in a browser"
    if dropped := [page.url for page in gone if page.status not in statuses and page not in shown]:
        yield f"{_say_pages(source, dropped)} are not there any more; if the site dropped them, the version is right"


def _say_pages(source: Source, urls: Sequence[str]) -> str:
    """`12 pages of shop (/tours/)`, `12 files of notes (2024/)`."""
    thing = "page" if isinstance(source, SiteSource) else "file"
    return (
        f"{len(urls):,} {thing}{'' if len(urls) == 1 else 's'} of {source.name} "
        f"({say_folders(by_folder(urls, _FOLDERS))})"
    )


def _parameters(urls: Sequence[str]) -> list[str]:
    """The names of the query parameters of URLs, if most have one."""
    queries = [parse_qsl(urlsplit(url).query, keep_blank_values=True) for url in urls]
    if 2 * sum(map(bool, queries)) <= len(urls):
        return []
    return sorted({name for query in queries for name, _ in query})[:_FOLDERS]
