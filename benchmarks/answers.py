"""Answers to questions with gold texts, judged: right, wrong, wrongly refused, wrongly answered, rightly refused; and
how well refusals are told.

    python -m benchmarks.answers [--sets DIR …] [--examples NAME …] [--embedders NAME …] [--most 200] [--data DIR]
    [--list]

The golden questions of the example knowledge bases, and question sets as `benchmarks.evaluation` reads them, with
`answers.jsonl` ({id, doc, answers}) and, where the set has it, `unanswerable.jsonl` ({id, text}): questions whose
passages come near and do not answer. Of `selected_sentences`, where a set has them, one has to stand in the reply; else
one of `answers`. Replies are extractive. The area is that under the ROC curve of refusing by `answerability`.
"""

import argparse
import json
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from almanac.cli.demo import serve_folder
from almanac.core.load import load_declaration
from almanac.core.logs import log_through_stdlib
from almanac.core.settings import DataDir, installation
from almanac.query.answering.markers import without_markers
from almanac.query.evaluation.evaluate import read_queries
from almanac.query.evaluation.golden import Golden, load_golden, normalize
from almanac.query.published import PublishedIndex
from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.hashing import sha256
from almanac.schemas.results import Answer
from benchmarks.evaluation import EMBEDDERS, EXAMPLES, declared_set, run_below_prefect

Verdict = Literal["right", "wrong", "wrongly refused", "wrongly answered", "rightly refused"]
MOST = 400  # characters of a reply, without its markers, beyond which it is a page to read and no answer
# 5.372.000, 5,372,000 and 5 372 000; `normalize` has made one space of every kind of space.
_THOUSANDS = re.compile(r"(?<=\d)[., '’](?=\d{3}(?!\d))")


def main() -> None:
    log_through_stdlib()  # else what runs log would stand between the rows
    arguments = _arguments()
    say = sys.stdout.write
    say(
        "| questions | embedder | answerable | right | wrong | wrongly refused | without an answer | wrongly "
        "answered | rightly refused | area |\n"
    )
    say("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
    judged: list[Judged] = []
    with tempfile.TemporaryDirectory(prefix="almanac-answers-") as scratch:
        data = arguments.data or Path(scratch) / "data"
        for model in arguments.embedders:
            question_sets = [
                *_examples(arguments.examples, model, data / Path(model).name),
                *_sets(arguments.sets, model, data / Path(model).name, Path(scratch)),
            ]
            for name, index, questions in question_sets:
                judged_set = judge_answers(index, _drawn(questions, arguments.most))
                index.close()
                say(f"| {name} | {Path(model).name} | {_figures(judged_set)} |\n")
                judged += judged_set
    for judgement in judged if arguments.list else ():
        say(
            json.dumps(
                {
                    "verdict": judgement.verdict,
                    "question": judgement.golden.question,
                    "kind": judgement.golden.kind,
                    "reply": judgement.answer.reply,
                },
                ensure_ascii=False,
            )
            + "\n"
        )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--sets",
        type=Path,
        nargs="*",
        default=[],
        help="folders of question sets with answers.jsonl; others are passed over",
    )
    parser.add_argument("--examples", nargs="*", default=EXAMPLES, help="example knowledge bases")
    parser.add_argument("--embedders", nargs="*", default=EMBEDDERS, help="names or folders of local models")
    parser.add_argument(
        "--most",
        type=int,
        default=300,
        help="questions of a set with an answer, and without one, drawn by the hash of their texts",
    )
    parser.add_argument("--data", type=Path, help="a data directory that is kept; what is in it is refreshed")
    parser.add_argument(
        "--list", action="store_true", help="print each question with its reply after the table, as JSON lines"
    )
    return parser.parse_args()


QuestionSet = tuple[str, PublishedIndex, list[Golden]]


def _examples(names: Sequence[str], model: str, data: Path) -> Iterator[QuestionSet]:
    with serve_folder(installation() / "examples" / "voyago" / "site", 8765) as url:
        os.environ["VOYAGO_URL"] = url
        for name in names:
            declared = load_declaration(str(installation() / "knowledge" / f"{name}.yaml"), "")
            limits = {"min_recall": None, "max_recall_drop": None}  # declared for the example's own embedder
            changes = {"embed": Embed(model=model), "gate": declared.gate.model_copy(update=limits)}
            declaration = declared.model_copy(update=changes).at(declared.path, declared.env)
            yield name, _published(declaration, data), load_golden(declaration)


def _sets(folders: Sequence[Path], model: str, data: Path, scratch: Path) -> Iterator[QuestionSet]:
    for folder in folders:
        if (folder / "answers.jsonl").is_file():
            declaration = load_declaration(str(declared_set(folder, model, scratch)), "")
            yield f"{folder.parent.name}/{folder.name}", _published(declaration, data), list(questions_of(folder))


def _published(declaration: Declaration, data: Path) -> PublishedIndex:
    run_below_prefect(declaration, data)
    return PublishedIndex(declaration, DataDir.locate(data))


def questions_of(folder: Path) -> Iterator[Golden]:
    """The questions of a set, in file order: those with an answer, then those without."""
    questions_by_id = read_queries(folder / "queries.jsonl")
    for line in (folder / "answers.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        texts = [text for chosen in row.get("selected_sentences", []) for text in chosen] or row["answers"]
        yield Golden(questions_by_id[row["id"]], parts=(tuple(map(normalize, texts)),))
    if (file := folder / "unanswerable.jsonl").is_file():
        yield from map(Golden, read_queries(file).values())


def _drawn(questions: Sequence[Golden], most: int) -> list[Golden]:
    of_kind = (
        [question for question in questions if question.is_answerable is is_answerable]
        for is_answerable in (True, False)
    )
    return [
        question for kind in of_kind for question in sorted(kind, key=lambda question: sha256(question.question))[:most]
    ]


class Judged(NamedTuple):
    """A question with its answer and the verdict on it."""

    golden: Golden
    answer: Answer
    verdict: Verdict


def judge_answers(index: PublishedIndex, questions: Iterable[Golden]) -> list[Judged]:
    """Asks each question, with its history, and judges the answer, in the order of the questions. Raises the errors of
    `PublishedIndex.ask`.
    """
    answered = [(question, index.ask(question.question, history=question.history)) for question in questions]
    return [Judged(question, answer, verdict_on(question, answer)) for question, answer in answered]


def verdict_on(golden: Golden, answer: Answer) -> Verdict:
    """The verdict on one answer.

    A right reply has at most 400 characters without its markers, and one text of each part that is expected. Where a
    document or URL alone is expected, it cites that. Texts are compared as by `normalize`, whatever separates
    thousands.
    """
    if not golden.is_answerable:
        return "wrongly answered" if answer.answered else "rightly refused"
    if not answer.answered:
        return "wrongly refused"
    return "right" if _holds_answer(golden, answer) else "wrong"


def area_under_curve(scores: Sequence[float], is_positive: Sequence[bool]) -> float | None:
    """Share of the pairs of a positive and a negative in which the positive scores more, equal ones counting half; None
    where one of the kinds is missing.
    """
    values, positive = np.asarray(scores, dtype=np.float64), np.asarray(is_positive, dtype=np.bool_)
    above, below = values[positive], np.sort(values[~positive])
    if not len(above) or not len(below):
        return None
    less, not_more = np.searchsorted(below, above, "left"), np.searchsorted(below, above, "right")
    return float((less + not_more).sum() / (2 * len(above) * len(below)))


def _holds_answer(golden: Golden, answer: Answer) -> bool:
    if len(without_markers(answer.reply).strip()) > MOST:
        return False
    if not golden.parts:
        return any(golden.is_from(source.document_id, source.url) for source in answer.sources)
    replies = _comparable(answer.reply), _comparable(without_markers(answer.reply))
    return all(any(_comparable(text) in reply for text in part for reply in replies) for part in golden.parts)


def _comparable(text: str) -> str:
    return _THOUSANDS.sub("", normalize(text))


def _figures(judged: Sequence[Judged]) -> str:
    counts: Counter[Verdict] = Counter(judgement.verdict for judgement in judged)
    known = [(judgement.answer.answerability, judgement.golden.is_answerable) for judgement in judged]
    rated = [(likely, is_answerable) for likely, is_answerable in known if likely is not None]
    area = area_under_curve([likely for likely, _ in rated], [is_answerable for _, is_answerable in rated])
    kinds: list[list[Verdict]] = [["right", "wrong", "wrongly refused"], ["wrongly answered", "rightly refused"]]
    cells = []
    for verdicts in kinds:
        total = sum(counts[verdict] for verdict in verdicts)
        cells += [f"{total}", *(_share(counts[verdict], total) for verdict in verdicts)]
    return " | ".join([*cells, "" if area is None else f"{area:.3f}"])


def _share(number: int, total: int) -> str:
    return f"{number} ({number / total:.0%})" if total else "0"


if __name__ == "__main__":
    main()
