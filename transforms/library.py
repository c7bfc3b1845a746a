"""Runs rules through Great Expectations: columns in, the rows that break each rule out."""

import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from almanac.transforms.expectations import Rule


class Finding(NamedTuple):
    """What the library says of one rule: the rows of the frame that break it, whether it holds, the value that it
    looked at, and why it failed if it did.
    """

    rows: list[int]
    ok: bool
    observed: Any = None
    error: str | None = None


class Question(NamedTuple):
    """A rule and the columns of the frame that it is about."""

    rule: Rule
    columns: tuple[str, ...]


class Library:
    """Great Expectations over frames of the same columns. It is imported when the first frame is judged: that takes two
    seconds.
    """

    def __init__(self, questions: Sequence[Question]) -> None:
        self._questions = questions
        self._suite: Any = None
        self._refused: dict[int, str] = {}

    def judge(self, frame: Any) -> list[Finding]:
        """One finding for each question, in their order. `frame` is a pandas DataFrame with the default index.

        What the library makes of values it was not made for is an error of that question alone.
        """
        batches = _batches()  # a suite needs the context
        try:
            return self._judge(batches, frame)
        except Exception as error:  # of any kind: a value can reach the inside of pandas
            if len(self._questions) == 1:
                return [Finding([], False, error=reason_of(error))]
            return [
                finding
                for question in self._questions
                for finding in Library([question]).judge(frame[list(question.columns)])
            ]

    def _judge(self, batches: Any, frame: Any) -> list[Finding]:
        if self._suite is None:
            self._suite, self._refused = _suite_of(self._questions)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as pandas on groups in a regular expression
            batch = batches.get_batch(batch_parameters={"dataframe": frame})
            outcome = batch.validate(
                self._suite, result_format={"result_format": "COMPLETE", "return_unexpected_index_query": False}
            )
        findings = {int(result.expectation_config.meta["number"]): _finding(result) for result in outcome.results}
        return [
            findings.get(number) or Finding([], False, error=self._refused[number])
            for number in range(len(self._questions))
        ]


@cache
def _batches() -> Any:
    """The one context of the process: ephemeral, so that nothing is written to disk, and without progress bars, which
    would garble ours.
    """
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    return (
        context.data_sources.add_pandas("items")
        .add_dataframe_asset("items")
        .add_batch_definition_whole_dataframe("all")
    )


def _suite_of(questions: Sequence[Question]) -> tuple[Any, dict[int, str]]:
    """The questions as the library takes them; and, by number, why it refuses one."""
    import great_expectations as gx
    from great_expectations.expectations.registry import get_expectation_impl

    suite, refused = gx.ExpectationSuite(name="rules"), {}
    for number, (rule, columns) in enumerate(questions):
        name, arguments = rule.library_call
        try:
            suite.add_expectation(
                get_expectation_impl(name)(**_named(rule, columns), **arguments, meta={"number": number})
            )
        except ValueError as error:  # the declaration was checked, so this is what only the library knows
            refused[number] = f"Great Expectations refuses the arguments: {str(error).strip().splitlines()[-1].strip()}"
    return suite, refused


def reason_of(error: Exception) -> str:
    """Why a rule could not be judged, in one line."""
    return (
        f"it cannot be judged: {type(error).__name__}: "
        f"{(str(error).strip().splitlines() or ['no reason given'])[-1].strip()}"
    )


def _named(rule: Rule, columns: tuple[str, ...]) -> dict[str, Any]:
    fields = rule.known.fields
    return {fields[0]: list(columns)} if fields == ("column_list",) else dict(zip(fields, columns, strict=True))


def _finding(result: Any) -> Finding:
    if error := _failure(result):
        return Finding([], False, error=error)
    details = result.result
    return Finding(
        [int(row) for row in details.get("unexpected_index_list") or []],
        bool(result.success),
        details.get("observed_value"),
    )


def _failure(result: Any) -> str | None:
    """Why the library could not judge; it reports this like a broken expectation, with the exception beside it."""
    info = result.exception_info or {}
    for exception in [info] if "raised_exception" in info else info.values():
        if exception.get("raised_exception"):
            return str(exception.get("exception_message") or "the library gives no reason").strip().splitlines()[-1]
    return None
