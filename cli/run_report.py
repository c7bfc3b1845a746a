"""What a run did, or would do, as tables and lines for people."""

from typing import Any

from almanac.cli.output import print_table, say
from almanac.flows.reporting.report_tables import (
    DUPLICATE_COLUMNS,
    EXPECTATION_COLUMNS,
    GATE_COLUMNS,
    LEFT_OUT_COLUMNS,
    LIMIT_COLUMNS,
    LOST_COLUMNS,
    NOT_FETCHED_COLUMNS,
    REJECT_COLUMNS,
    TEXT_COLUMNS,
    duplicate_rows,
    expectation_rows,
    expectations_line,
    gate_rows,
    gate_title,
    left_out_rows,
    limit_rows,
    lost_rows,
    lost_title,
    much_left_out,
    not_fetched_rows,
    plan_rows,
    reject_rows,
    retrieval_rows,
    rules_note,
    text_rows,
)
from almanac.schemas.crawl_outcome import DECLARE_BODY, CrawlOutcome, LimitReached
from almanac.schemas.declaration import Declaration
from almanac.schemas.reports import EmbedderChange, PlanResult, RunReport

_SHOWN = 50
_SHOWN_REJECTS = 20
_DUPLICATES_SHOWN = 10
_SHOWN_TEXTS = 10


def show_report(report: RunReport, handle: str, *, is_comparable: bool = True) -> None:
    if report.error:
        say(f"{report.error['where']}: {report.error['message']}\n  → {report.error['hint']}")
    if lost := lost_rows(report.sources):
        print_table(lost_title(report.sources), LOST_COLUMNS, lost)
    _show_limits(report.limits_reached)
    _show_not_fetched(report.sources)
    _show_left_out(report.sources, handle)
    _show_texts(report.sources, handle)
    if report.gate is not None and report.gate.verdict == "refused":
        print_table(gate_title(report.gate, report.previous), GATE_COLUMNS, gate_rows(report.gate))
        _show_missed(report)
        _say_what_to_do(report, handle, is_comparable=is_comparable)
    else:
        _say_remedies(report.remedies)
        _say_recall(report, handle)
    if report.duplicates:
        print_table(
            "Items dropped because they equal another one",
            DUPLICATE_COLUMNS,
            duplicate_rows(report)[:_DUPLICATES_SHOWN],
        )
        if (more := report.items.deduplicated - _DUPLICATES_SHOWN) > 0:
            say(f"and {more:,} more: {report.duplicates_file}")
    _show_expectations(report)
    if report.rejects_file:
        say(f"rejected items with their reasons: {report.rejects_file}")


def show_plan(result: PlanResult, declaration: Declaration) -> None:
    handle = declaration.handle
    print_table(f"{result.kb}: what a run would do now", ("", "value"), plan_rows(result))
    print_table(
        "Gate: would refuse" if result.gate["would_refuse"] else "Gate: would let it pass",
        GATE_COLUMNS,
        gate_rows(result.gate),
    )
    _say_remedies(result.remedies)
    if result.embedder is not None:
        _show_change(result.embedder, declaration)
    if lost := lost_rows(result.sources):
        print_table(f"{lost_title(result.sources, 'do')}; --json lists each", LOST_COLUMNS, lost)
    _show_limits(result.limits_reached)
    _show_not_fetched(result.sources)
    _show_left_out(result.sources, handle)
    _show_texts(result.sources, handle)
    show_rejects(result.rejects)


def _show_change(change: EmbedderChange, declaration: Declaration) -> None:
    title = f"Embedder: {change.was} → {change.now}"
    if change.recall is None:
        say(f"{title}; every text is embedded anew")
        if change.unmeasured is not None:
            say(f"  → not measured: {change.unmeasured}")
        elif declaration.gate.golden is None:
            say("  → declare gate.golden: a plan then tells what becomes of the answers")
        elif declaration.embed.provider != "local":
            say(f"  → almanac plan {declaration.handle} --sample 500 embeds 500 chunks and asks the golden questions")
        return
    recall_rows = retrieval_rows(change.recall, change.live_recall, declaration.retrieve.k)
    rows = [(what, was, now) for what, now, was in recall_rows]
    print_table(f"{title}, on a sample of {change.sampled} chunks", ("golden questions", "before", "after"), rows)
    if change.left_out:
        say(f"  not asked, because their answer is not in the sample: {change.left_out}; --sample N takes more")
    if change.live_recall is None:
        say("  before: not measured, because no vectors of these questions are kept for the live version's embedder")
        return
    now, was = change.recall.missed, change.live_recall.missed
    for what, here, there in (("lost", now, was), ("gained", was, now)):
        if only := [question for question in here if question not in there]:
            say(f"{what}: {'; '.join(only[:_SHOWN])}")


def _show_limits(limits: list[LimitReached]) -> None:
    if limits:
        print_table(
            "Crawls that a limit cut short: what they did not get keeps its place", LIMIT_COLUMNS, limit_rows(limits)
        )


def _say_remedies(remedies: list[str]) -> None:
    for remedy in remedies:
        say(f"  → {remedy}")


def _show_not_fetched(sources: list[CrawlOutcome]) -> None:
    if rows := not_fetched_rows(sources):
        print_table("Files that pages link to and that are not fetched", NOT_FETCHED_COLUMNS, rows)


def _show_left_out(sources: list[CrawlOutcome], handle: str) -> None:
    if rows := left_out_rows(sources):
        print_table("Text that is left out on purpose", LEFT_OUT_COLUMNS, rows)
    for sentence in much_left_out(sources):
        say(f"  → {sentence.replace('KB', handle)}")


def _show_texts(sources: list[CrawlOutcome], handle: str) -> None:
    if rows := text_rows(sources):
        print_table("Pages whose main text may not be found", TEXT_COLUMNS, rows[:_SHOWN_TEXTS])
        say(f"  → {DECLARE_BODY.replace('KB', handle)}")


def _show_expectations(report: RunReport) -> None:
    if not report.expectations:
        return
    if broken := [expectation for expectation in report.expectations if not expectation.ok]:
        print_table("Expectations that do not hold", EXPECTATION_COLUMNS, expectation_rows(broken))
    say(f"expectations: {expectations_line(report.expectations)}; {report.validation_page}")


def _say_recall(report: RunReport, handle: str) -> None:
    if report.recall is not None and report.recall.questions:
        missed, questions = len(report.recall.missed), report.recall.questions
        say(
            f"golden questions: {questions - missed} of {questions} find their answer"
            + (f"; almanac eval {handle} shows the others" if missed else "")
        )


def _show_missed(report: RunReport) -> None:
    missed = report.recall.missed if report.recall is not None else []
    if missed and report.recall is not None:
        say(f"golden questions without their answer, {len(missed)} of {report.recall.questions}:")
        for question in missed[:_SHOWN]:
            say(f"  {question}")


def _say_what_to_do(report: RunReport, handle: str, *, is_comparable: bool) -> None:
    _say_remedies(report.remedies)
    if note := rules_note(report):
        say(f"  → {note}")
    if report.version is None:
        say(
            "  → nothing new was kept; mend the cause, or the limit under gate: in the declaration, then: "
            f"almanac run {handle}"
        )
        return
    if report.previous and report.previous != report.version and is_comparable:
        say(f"  → what differs:      almanac diff {handle} {report.previous} {report.version}")
    say(f'  → if that is right:  almanac publish {handle} {report.version} --override-gate "why"')


def say_what_next(declaration: Declaration) -> None:
    """For a first version: what to do with it, and how to keep it fresh."""
    handle = declaration.handle
    undeclared = f'once {declaration.path.name} has schedule: "0 3 * * *"'
    when = f"at {declaration.schedule}" if declaration.schedule else undeclared
    say(f'  → ask it: almanac ask {handle} "…"; for others: almanac serve')
    say(f"  → keep it fresh: almanac server, which refreshes it {when}")
    say("  → what a word means: almanac explain WORD")


def show_rejects(rejects: list[dict[str, Any]]) -> None:
    if not rejects:
        return
    print_table(f"Would be rejected: {len(rejects)}", REJECT_COLUMNS, reject_rows(rejects[:_SHOWN_REJECTS]))
    if len(rejects) > _SHOWN_REJECTS:
        say(f"and {len(rejects) - _SHOWN_REJECTS} more; --json lists all of them")
