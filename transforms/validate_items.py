"""Judges a run's items by what is declared of them; items that break a rule on single items are quarantined."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from almanac.schemas.declaration import Declaration
from almanac.schemas.items import Item, Reject
from almanac.schemas.reports import JudgedExpectation
from almanac.transforms.cells import value_of
from almanac.transforms.expectations import rules_of, rules_of_all
from almanac.transforms.judging import SourceJudge, judge_count


@dataclass(slots=True)
class Validation:
    """The result of a validation: `rejects` by item number in order of arrival, and one entry of `results` for each
    rule, in declared order.
    """

    rejects: dict[int, Reject] = field(default_factory=dict)
    results: list[JudgedExpectation] = field(default_factory=list)


def validate_items(items: Iterable[Item], declaration: Declaration, rejects: Iterable[Reject] = ()) -> Validation:
    """Judges every item by the rules declared for its source.

    Args:
        items: cleaned and de-duplicated; iterated twice.
        declaration: holds the rules.
        rejects: of the same run, from mapping to de-duplication. Those that break a rule are judged with the items, so
            that counts agree.

    A rule that cannot be judged on this data has an `error` among the results, and quarantines nothing. Where nothing
    is declared, Great Expectations is not imported.
    """
    judges = {
        source.name: SourceJudge(source, rules)
        for source in declaration.sources
        if (rules := rules_of(declaration, source))
    }
    about_all = rules_of_all(declaration)
    if not judges and not about_all:
        return Validation()
    count = 0
    for number, item in enumerate(items):
        count += 1
        if (judge := judges.get(item.source)) is not None:
            judge.add(number, item)
    for reject in rejects:
        if reject.breaks and (judge := judges.get(reject.source)) is not None:
            judge.add_reject(reject)
    _settle_lacking(list(judges.values()))
    quarantined = {number: rule for judge in judges.values() for number, rule in judge.judge().items()}
    wanted = {number for judge in judges.values() for number in judge.wanted} | quarantined.keys()
    result = Validation()
    for number, item in enumerate(items) if wanted else ():
        if (broken := quarantined.get(number)) is not None:
            value, breaks = value_of(item, broken.fields[0]), {broken.field: broken.rule}
            result.rejects[number] = Reject(
                item.source,
                item.url,
                item.document_id,
                "validate",
                "expectation not met",
                broken.field,
                value,
                broken.rule,
                breaks,
            )
        if number in wanted:
            judges[item.source].show(number, item)
    for judge in judges.values():
        result.results += judge.results()
    result.results += [judge_count(rule, count - len(quarantined)) for rule in about_all]
    return result


def _settle_lacking(judges: Sequence[SourceJudge]) -> None:
    """A source whose items never have the field of a rule is none of those that it is about; where no source is, or the
    rule names it, that is an error.
    """
    had = set().union(*(judge.having for judge in judges))
    for judge in judges:
        for rule in judge.lacking:
            if rule.declared in had and not rule.is_of_source:
                judge.leave_out(rule)
            elif judge.has_items:
                judge.refuse(rule)
