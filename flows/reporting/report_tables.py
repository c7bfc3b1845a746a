"""Runs, plans and verdicts as table rows, used on the terminal and in Prefect."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from almanac.core.url_folders import by_folder, say_folders
from almanac.schemas.crawl_outcome import CrawlOutcome, FailedPage, LimitReached
from almanac.schemas.hashing import canonical_json
from almanac.schemas.left_out import CURES
from almanac.schemas.manifest import Check, Verdict
from almanac.schemas.reports import DiffResult, ExpectationResult, PlanResult, Recall, RunReport

GATE_COLUMNS = ("check", "value", "limit", "result")
EXPECTATION_COLUMNS = ("source", "field", "declared", "checked", "broken", "found", "result")
LOST_COLUMNS = ("reason", "number", "in", "for example")
LIMIT_COLUMNS = ("source", "limit", "known URLs not fetched", "in")
NOT_FETCHED_COLUMNS = ("source", "type", "files", "to fetch them", "for example")
REJECT_COLUMNS = ("item", "field", "reason", "value")
DUPLICATE_COLUMNS = ("source", "dropped", "equals")
LEFT_OUT_COLUMNS = ("source", "reason", "blocks", "characters", "of its text")
TEXT_COLUMNS = ("source", "pages", "what became of their texts", "for example")
NOTHING = "–"
_PRINTED = {"quarantined": "rejected"}  # for people, by its name in JSON
_COUNTS = frozenset({"min_items", "expectations", "complete", "max_cost"})
_EXAMPLES = 3
_FOLDERS = 5  # that a table names
_VALUE = 80  # characters of a value that a table shows


def gate_rows(verdict: Verdict | Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """One row for each check: name, value, declared limit, result. A plan gives its verdict as a mapping."""
    checks = (
        verdict.checks if isinstance(verdict, Verdict) else [Check.model_validate(check) for check in verdict["checks"]]
    )
    return [
        (check.name, amount(check.name, check.value), amount(check.name, check.limit), _result(check))
        for check in checks
    ]


def amount(name: str, value: float | str | None) -> str:
    """A value or limit of the named check, formatted as a count or as a percentage; what expectations find is shown as
    it is.
    """
    if value is None:
        return NOTHING
    if isinstance(value, str):
        return value
    return f"{value:,}" if name in _COUNTS or name.startswith("expect_") else percent(value)


def percent(share: float) -> str:
    """`0.125` → `12.5 %`, with all digits that a verdict keeps, so that a value above its limit also looks so."""
    return f"{100 * share:.4f}".rstrip("0").rstrip(".") + " %"


def _result(check: Check) -> str:
    if not check.ok:
        return "REFUSED"
    if check.warns:
        return "WARNING"
    if check.value is None and check.limit is not None:
        return "not measured" if check.name == "min_recall" else "nothing to compare with"
    if check.value is None:
        return NOTHING
    return "ok" if check.limit is not None else "no limit"


def gate_title(verdict: Verdict, previous: str | None) -> str:
    """The verdict in words. For a first version, it adds that there is nothing to compare with."""
    outcome = (
        f"refused{f': {previous} serves on' if previous else ', and nothing is live'}"
        if verdict.verdict == "refused"
        else "passed"
    )
    return f"Gate {outcome}" + ("" if previous else "; a first version compares with nothing")


def expectation_rows(results: Iterable[ExpectationResult]) -> list[tuple[object, ...]]:
    """One row for each declared rule: source, field, what was declared, checked, broken, found, result."""
    return [
        (
            result.source or NOTHING,
            result.field or NOTHING,
            result.rule,
            result.checked,
            result.broken if result.value is None else None,
            result.value,
            state_of_rule(result),
        )
        for result in results
    ]


def state_of_rule(result: ExpectationResult) -> str:
    """What became of a rule, in a word or with the reason why it could not be judged."""
    if result.error is not None:
        return f"not judged: {result.error}"
    return "ok" if result.ok else {"quarantine": "rejected", "warn": "WARNING", "refuse": "REFUSED"}[result.severity]


def expectations_line(results: Sequence[ExpectationResult]) -> str:
    """The results in a sentence: `12 rules judged, 2 broken by 3 items, 1 warning`."""
    broken = [
        result for result in results if result.severity == "quarantine" and not result.ok and result.error is None
    ]
    items = sum(rule.broken for rule in broken)
    parts = [
        f"{len(results)} rules judged",
        f"{len(broken)} broken by {items} item{'' if items == 1 else 's'}" if broken else "no item breaks one",
    ]
    for count, what in (
        (sum(rule.severity == "warn" and not rule.ok for rule in results), "warned of"),
        (sum(rule.severity == "refuse" and not rule.ok for rule in results), "refused"),
        (sum(rule.error is not None for rule in results), "not judged"),
    ):
        parts += [f"{count} {what}"] if count else []
    return ", ".join(parts)


def limit_rows(limits: Iterable[LimitReached]) -> list[tuple[str, str, int, str]]:
    """One row for each limit that cut a crawl short: source, limit, number of known URLs that were not fetched, their
    folders.
    """
    return [
        (limit.source, f"limits.{limit.limit}", limit.known_urls_not_fetched, say_folders(limit.folders))
        for limit in limits
    ]


def limits_line(limits: Iterable[LimitReached]) -> str:
    """The same in a sentence: `site cut short by limits.pages, 55 known URLs not fetched`; empty where no crawl was
    cut.
    """
    return "; ".join(
        f"{limit.source} cut short by limits.{limit.limit}, {limit.known_urls_not_fetched:,} known URLs not fetched"
        for limit in limits
    )


def lost_rows(sources: Iterable[CrawlOutcome]) -> list[tuple[str, int, str, str]]:
    """Lost pages grouped by reason, the most frequent first: reason, number of pages, their folders, an example. The
    report has each.
    """
    urls: dict[str, list[str]] = {}
    for url, reason in lost_pages(sources):
        urls.setdefault(reason, []).append(url)
    rows = sorted(urls.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    return [
        (reason, len(lost_urls), say_folders(by_folder(lost_urls, _FOLDERS)), lost_urls[0])
        for reason, lost_urls in rows
    ]


def lost_title(sources: Iterable[CrawlOutcome], verb: str = "did") -> str:
    """What the rows of `lost_rows` are, by the kinds of the sources that lost some: pages, files, rows."""
    losing = [source for source in sources if source.vanished or source.failures]
    return f"{counted(losing).capitalize()} that {verb} not arrive, are gone or are left out"


def lost_pages(sources: Iterable[CrawlOutcome]) -> list[tuple[str, str]]:
    """URL and reason of each page that vanished, was gone, failed, or was refused."""
    rows: list[tuple[str, str]] = []
    for outcome in sources:
        rows += [(url, "vanished") for url in outcome.vanished]
        for page in outcome.failures:
            status = f" ({page.status})" if page.status else ""
            rows.append((page.url, page.reason.replace("_", " ") + status + _more_of(page)))
    return rows


def _more_of(page: FailedPage) -> str:
    """What a reason leaves open: the way out of a format, and what an error was, without the address that it names."""
    detail = (
        page.detail
        if page.reason.startswith("unsupported format")
        else page.detail.partition(",")[0]
        if page.reason == "error"
        else ""
    )
    return f": {detail}" if detail and "://" not in detail else ""


def not_fetched_rows(sources: Iterable[CrawlOutcome]) -> list[tuple[str, str, int, str, str]]:
    """One row for each type of files that a source's pages lead to and that were not fetched: source, type, number,
    what to declare, examples.
    """
    return [
        (source.source, left.type, left.documents, left.remedy, _some(left.urls))
        for source in sources
        for left in source.not_fetched
    ]


def _not_fetched_counters(sources: Iterable[CrawlOutcome]) -> list[tuple[str, int]]:
    counts = Counter[str]()
    for source in sources:
        counts.update({left.type: left.documents for left in source.not_fetched})
    return [(f"files not fetched: {kind}", count) for kind, count in counts.most_common()]


def left_out_rows(sources: Iterable[CrawlOutcome]) -> list[tuple[str, str, int, int, str]]:
    """One row for each reason for which text of a source is left out on purpose: source, reason, blocks, characters,
    share of what is kept and left so.
    """
    return [
        (
            source.source,
            words(reason),
            amount["blocks"],
            amount["characters"],
            f"{amount['characters'] / (source.characters + amount['characters']):.0%}",
        )
        for source in sources
        for reason, amount in source.left_out.items()
    ]


def much_left_out(sources: Iterable[CrawlOutcome]) -> list[str]:
    """A sentence for each reason for which much of a source's text is left out, with what to declare."""
    return [
        f"{source.source}: {share:.0%} of its text is left out as {words(reason)}; {CURES[reason]}"
        for source in sources
        for reason, share in source.left_out.much(source.characters).items()
    ]


def words(reason: str) -> str:
    """A reason as people read it: `page furniture`."""
    return reason.replace("_", " ")


def _limit_counters(limits: Iterable[LimitReached]) -> list[tuple[str, object]]:
    return [
        (f"known URLs not fetched: {limit.source}, limits.{limit.limit}", limit.known_urls_not_fetched)
        for limit in limits
    ]


def text_rows(sources: Iterable[CrawlOutcome]) -> list[tuple[str, int, str, str]]:
    """One row for each main text that different pages share, and for the pages of a source of which little was kept;
    empty where no text may be lost.
    """
    rows: list[tuple[str, int, str, str]] = []
    for source in sources:
        rows += [
            (
                source.source,
                text.pages,
                "the same main text; kept, each with the text that it alone has",
                _some(text.urls),
            )
            for text in source.shared_texts
        ]
        if source.pages_with_little_kept:
            rows.append(
                (
                    source.source,
                    source.pages_with_little_kept,
                    "less than a tenth of the page was kept",
                    _some(source.little_kept),
                )
            )
    return rows


def _some(urls: Sequence[str]) -> str:
    return " ".join(urls[:_EXAMPLES]) + (" …" if len(urls) > _EXAMPLES else "")


def reject_rows(rejects: Iterable[Mapping[str, Any]]) -> list[tuple[str, str | None, str, str | None]]:
    """One row for each reject: URL, with the id where the URL does not tell it; field; reason; value, shortened."""
    return [(_item_of(reject), reject["field"], reject["reason"], _shown(reject["value"])) for reject in rejects]


def _item_of(reject: Mapping[str, Any]) -> str:
    url, document_id = str(reject["url"]), reject["document_id"]
    return url if not document_id or document_id in url else f"{url} ({document_id})"


def _shown(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else canonical_json(value)
    return text if len(text) <= _VALUE else f"{text[:_VALUE]}…"


def duplicate_rows(report: RunReport) -> list[tuple[str, str, str]]:
    """One row for each duplicate that the report lists: source, its URL, and the URL of the item that it equals; with
    ids where the URLs do not differ.
    """
    return [
        (
            duplicate.source,
            _named(duplicate.url, duplicate.document_id, duplicate.equals["url"]),
            _named(duplicate.equals["url"], duplicate.equals["document_id"], duplicate.url),
        )
        for duplicate in report.duplicates
    ]


def _named(url: str, document_id: str, other: str) -> str:
    return f"{url} ({document_id})" if url == other else url


def rules_note(report: RunReport) -> str | None:
    """For a refused run under other rules than the live version's: that these may be the reason. None where mapping and
    cleaning are the same.
    """
    changed = [stage for stage in ("mapping", "cleaning") if stage in report.stages_changed]
    if not changed or report.gate is None or report.gate.verdict != "refused":
        return None
    reason = (
        f"the rules of {' and '.join(changed)} differ from those of {report.previous}, by the declaration or by "
        "another release of Almanac"
    )
    return f"{reason}; that alone can shorten texts, change them and lose items"


def counted(sources: Iterable[CrawlOutcome]) -> str:
    """What the pages of sources are: `pages`, `files`, `rows`, or several of these, such as `files and rows`."""
    return " and ".join(sorted({source.counted for source in sources})) or "pages"


def summary_rows(report: RunReport) -> list[tuple[str, object]]:
    """The counters of a run, one in each row."""
    return [
        ("outcome", report.outcome.replace("_", " ")),
        ("version", report.version),
        ("previous", report.previous),
        *_counters(counted(report.sources), report.pages.model_dump()),
        *_limit_counters(report.limits_reached),
        *_not_fetched_counters(report.sources),
        *_counters("items", report.items.model_dump(by_alias=True)),
        *_counters("chunks", report.chunks.model_dump()),
        *((f"seconds {name}", round(seconds, 1)) for name, seconds in report.seconds.items()),
        ("seconds in all", round(sum(report.seconds.values()), 1)),
    ]


def _duration(seconds: float) -> str:
    """To the second below a minute, to the minute above one: an estimate is no better."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    hours, minutes = divmod(max(1, round(seconds / 60)), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def plan_rows(plan: PlanResult) -> list[tuple[str, object]]:
    """The counters of a plan, one in each row."""
    return [
        ("outcome", plan.outcome.replace("_", " ")),
        *_counters(counted(plan.sources), plan.pages.model_dump()),
        *_limit_counters(plan.limits_reached),
        *_not_fetched_counters(plan.sources),
        *(
            [("links of start pages not followed", left)]
            if (left := sum(source.unfollowed for source in plan.sources))
            else []
        ),
        *_counters("items", plan.items.model_dump(by_alias=True)),
        ("chunks to embed", plan.chunks_to_embed),
        ("tokens to embed", plan.tokens),
        ("cost", plan.cost),
        *([] if plan.seconds is None else [("time of a run, about", _duration(plan.seconds))]),
        ("gate", "would refuse" if plan.gate["would_refuse"] else "would let it pass"),
    ]


def retrieval_rows(recall: Recall, live: Recall | None, k: int) -> list[tuple[str, str | None, str | None]]:
    """How a version answers the golden questions, and in the last column the live version if it was asked."""

    def row(what: str, tell: Callable[[Recall], str | None]) -> tuple[str, str | None, str | None]:
        return (what, tell(recall), None if live is None else tell(live))

    return [
        row(f"recall@{k}", lambda measured: None if measured.recall is None else percent(measured.recall)),
        row("found", lambda measured: f"{measured.questions - len(measured.missed)} of {measured.questions}"),
        row("missed", lambda measured: str(len(measured.missed))),
        row("answered, right or wrong", lambda measured: f"{measured.answered} of {measured.questions}"),
        row(
            "abstained where nothing answers",
            lambda measured: f"{measured.abstained} of {measured.unanswerable}" if measured.unanswerable else None,
        ),
    ]


def diff_rows(diff: DiffResult) -> list[tuple[str, object]]:
    """The counters of a diff, one in each row."""
    return [
        *_counters("items", diff.items),
        *_counters("chunks", diff.chunks),
        ("stages that changed", ", ".join(diff.stages) or "none"),
    ]


def _counters(what: str, counts: Mapping[str, int]) -> list[tuple[str, object]]:
    return [(f"{what} {_PRINTED.get(name, name)}", count) for name, count in counts.items()]


def item_changes(report: RunReport) -> str:
    """`24 added, 1 rejected`: the counters that are not 0."""
    counts = report.items.model_dump(by_alias=True)
    names = ("added", "changed", "moved", "unchanged", "removed", "deduplicated", "quarantined")
    return ", ".join(f"{counts[name]:,} {_PRINTED.get(name, name)}" for name in names if counts[name]) or "no items"


def _arrived(report: RunReport) -> str:
    """`38 pages, 2 failed, 4 files`: what the sources gave, by what they give."""
    if not report.sources:
        return _count(report.pages.present, "pages")
    parts = []
    for unit in ("pages", "files", "rows"):
        counts = [source.pages for source in report.sources if source.counted == unit]
        parts += [_count(sum(pages.present for pages in counts), unit)] if counts else []
        parts += [f"{failed:,} failed"] if (failed := sum(pages.failed for pages in counts)) else []
    return ", ".join(parts)


def _count(number: int, plural: str) -> str:
    return f"{number:,} {plural.removesuffix('s') if number == 1 else plural}"


def as_records(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> list[dict[str, object]]:
    """Rows as mappings, as Prefect's table artifacts need them, with a dash for None."""
    return [
        {column: NOTHING if cell is None else cell for column, cell in zip(columns, row, strict=True)} for row in rows
    ]


def summary_line(report: RunReport) -> str:
    """The run in one line: `voyago v0002 published: 24 added, …`."""
    cut = limits_line(report.limits_reached)
    pages = _arrived(report) + (f"; {cut}" if cut else "")
    chunks = f"{_count(report.chunks.total, 'chunks')}, {report.chunks.embedded:,} embedded"
    name = f"{report.kb} {report.version}" if report.version else report.kb
    left = "".join(
        f"; {share:.0%} of {source.source} left out as {words(why)}"
        for source in report.sources
        for why, share in source.left_out.much(source.characters).items()
    )
    return (
        f"{name} {report.outcome.replace('_', ' ')}: {item_changes(report)}; {pages}; {chunks}{left}; "
        f"{sum(report.seconds.values()):.1f} s"
    )
