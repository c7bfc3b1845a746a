"""Keeps what became of the declared rules, as JSON and as a page, beside the report of the run that judged them."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from almanac.core.durable import remove, write_file
from almanac.core.settings import DataDir
from almanac.flows.pipeline.earlier_runs import in_order
from almanac.flows.pipeline.handles import Rejects, Validated
from almanac.flows.pipeline.results_page import page_of
from almanac.flows.pipeline.run import Run
from almanac.schemas.reports import ExpectationResult, JudgedExpectation, OtherRejects, RunReport, ValidationResults

_RESULTS, _PAGE = ".validation.json", ".validation.html"


def write_judged(path: Path, results: Sequence[ExpectationResult]) -> Path:
    """Stages the results of rules, and returns the path."""
    write_file(path, _as_bytes([result.model_dump() for result in results]), synced=False)
    return path


class Judged(NamedTuple):
    """What became of the declared rules: their results, the run that has kept them before, and the rejects for other
    reasons, unless it has.
    """

    expectations: list[JudgedExpectation]
    by: str | None
    otherwise: list[OtherRejects]

    @classmethod
    def from_validated(cls, validated: Validated) -> Self:
        """Reads the staged files. Raises OSError and ValueError for one that is missing or unreadable."""
        return cls(
            validated.results(),
            validated.judged_by,
            _otherwise(validated.rejects) if validated.judged_by is None else [],
        )


def keep_results(run: Run, report: RunReport, judgement: Judged) -> None:
    """Writes the results of a run, and enters them and their paths into its report. Results that an earlier run has
    kept stay its own.
    """
    judged = judgement.expectations
    if not judged:
        return
    report.expectations = [ExpectationResult.model_validate(rule.model_dump(exclude={"samples"})) for rule in judged]
    folder, run_id = run.data.runs(run.kb), judgement.by or run.run_id
    if not all((folder / f"{run_id}{suffix}").is_file() for suffix in (_RESULTS, _PAGE)):
        run_id = run.run_id
        results = ValidationResults(
            kb=run.kb,
            run_id=run_id,
            judged_at=report.finished_at,
            items=report.items,
            by_expectations=sum(rule.broken for rule in judged if rule.severity == "quarantine"),
            otherwise=judgement.otherwise if judgement.by is None else _rest(report, judged),
            expectations=judged,
        )
        write_results(folder / f"{run_id}{_RESULTS}", results.model_dump(by_alias=True))
    report.validation_file, report.validation_page = (
        str(folder / f"{run_id}{_RESULTS}"),
        str(folder / f"{run_id}{_PAGE}"),
    )


def write_results(path: Path, results: Any) -> None:
    """Writes results as JSON to `path`, and the page of them beside it."""
    write_file(path, _as_bytes(results, indent=1))
    page = page_of(ValidationResults.model_validate(results))
    write_file(path.with_name(path.name.removesuffix(_RESULTS) + _PAGE), page.encode("utf-8", "replace"))


def is_results(path: Path) -> bool:
    """Whether a file among the reports of runs holds the results of one."""
    return path.name.endswith(_RESULTS)


def judged_by(report: RunReport) -> str | None:
    """The run that keeps the results which a report names; None if it names none."""
    return None if report.validation_file is None else Path(report.validation_file).name.removesuffix(_RESULTS)


def prune_results(data: DataDir, kb: str, newest: int, needed: set[str]) -> int:
    """Removes results and pages of all runs but the `newest`, by the order in which they ended, and the `needed` ones;
    returns the bytes.
    """
    runs = in_order(
        data, kb, {path.name.split(".")[0] for suffix in (_RESULTS, _PAGE) for path in data.runs(kb).glob(f"*{suffix}")}
    )
    gone = [
        data.runs(kb) / f"{run_id}{suffix}"
        for run_id in runs[:-newest]
        if run_id not in needed
        for suffix in (_RESULTS, _PAGE)
    ]
    freed = 0
    for path in gone:
        if path.is_file():
            freed += path.stat().st_size
            remove(path)
    return freed


def public_lines(staged: bytes) -> Iterator[bytes]:
    """The lines of rejects.jsonl for staged rejects, which say of themselves what they break."""
    for line in staged.split(b"\n"):
        if line:
            reject = json.loads(line)
            if "breaks" in reject:
                reject.pop("breaks")
                line = json.dumps(reject, ensure_ascii=False).encode("utf-8", "replace")
            yield line + b"\n"


def _otherwise(rejects: Sequence[Rejects]) -> list[OtherRejects]:
    """The rejects that break nothing declared, by stage, each with a reason for example."""
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for reject in (reject for file in rejects for reject in file.read()):
        if not reject.breaks:
            counts[reject.stage] += 1
            examples.setdefault(reject.stage, f"{reject.url}: {reject.reason}")
    return [OtherRejects(stage=stage, count=count, example=examples[stage]) for stage, count in counts.items()]


def _rest(report: RunReport, judged: Sequence[ExpectationResult]) -> list[OtherRejects]:
    """The same where the run that judged is no longer kept: rejects.jsonl does not say what breaks a rule."""
    count = report.items.quarantined - sum(rule.broken for rule in judged if rule.severity == "quarantine")
    return [OtherRejects(stage="other", count=count, example="rejects.jsonl has the reasons")] if count else []


def _as_bytes(value: Any, indent: int | None = None) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=indent, default=str).encode("utf-8", "replace")
