"""Reliability of relevance, and the curves in `index.embedding.score_thresholds`, from judged question sets.

    python -m benchmarks.calibration --sets DIR ... [--models NAME ...] [--data DIR]

A set is a folder as for `benchmarks.evaluation`; one with `unanswerable.jsonl` {id, text} has questions that its corpus
does not answer. Each set is searched whole and in parts: 120, 50 and 10 passages of whole articles, or of a sample
where there are none. What is asked of a part are its own questions, those of passages that it lacks, those of other
sets, greetings and keyboard mash; where sets share ids of questions (XQuAD), also those in English of the others.

The unit is a hit among the first five; it answers if its document is judged relevant (Cranfield: any grade; its
judgements are incomplete). One half of the questions, by the hash of their ids, fits the curves, the other one is
reported. What is printed is Markdown.
"""

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from almanac.benchmarks.evaluation import declared_set, run_below_prefect
from almanac.core.logs import log_through_stdlib
from almanac.index.embedding.embedder import Embedder, Vectors
from almanac.query import open_index
from almanac.query.evaluation.evaluate import read_qrels, read_queries
from almanac.query.evaluation.golden_calibration import fit_curve
from almanac.query.models.embedding_cache import CachingEmbedder
from almanac.query.retrieval.relevance import CurveName, Features
from almanac.query.retrieval.request import Request
from almanac.schemas.hashing import sha256
from almanac.schemas.manifest import Curve

_MODELS = ("all-MiniLM-L6-v2", "multilingual-e5-small-q4")
_HITS, _BINS = 5, 10
# passages, in the order of articles
_PARTS = {"120 a": (0, 120), "120 b": (120, 240), "50": (0, 50), "10 a": (60, 70), "10 b": (70, 80), "10 c": (80, 90)}
_PER_KIND, _ELSEWHERE = 400, 60  # questions of one kind to a part, and of each other set
_EVERYDAY = """hello|hi there|good morning|Hi! How are you today?|thanks a lot!|bye|ok|yes|no|what?|test|help
who are you?|what can you do?|tell me a joke|good night|I am bored|what's up|bonjour|merci beaucoup
comment ça va ?|hola|¿cómo estás?|muchas gracias|xin chào|cảm ơn bạn|bạn khỏe không?|שלום|תודה רבה|guten Tag
wie geht es dir?|ciao|こんにちは|你好|asdf|asdfgh jkl|qwertyuiop|sdkfjh sdkjfh|aaaaaaa|xxxx|fghjk lkjhg|12 34 56
1234567|!!!|???|lorem ipsum dolor sit|blorgle frumptious snark|wibble wobble flim flam|the the the the
foo bar baz|colorless green ideas sleep furiously|purple monkey dishwasher|azertyuiop|x y z|ssss dddd
what is the wifi password|can you book me a flight to mars|how do I reset my toaster|recipe for banana bread
what's the weather tomorrow|who won the match last night|what time is it|turn off the lights|order a pizza
play some jazz|remind me to call mom"""


class Judged(NamedTuple):
    """A hit: where it was found, what it was judged by, and whether it answers."""

    name: str  # of the set
    kind: str  # of the question
    rank: int
    features: Features
    curve: CurveName
    answers: bool
    fits: bool  # whether its question is of the half that fits


class Questions(NamedTuple):
    """Of one kind, for one part of a set: by id, the texts; and the documents that answer."""

    kind: str
    texts: dict[str, str]
    answers: dict[str, set[str]]


def main() -> None:
    log_through_stdlib()
    arguments = _arguments()
    lines: list[str] = []
    with tempfile.TemporaryDirectory(prefix="almanac-calibration-") as scratch:
        for model in arguments.models:
            hits = list(_all_hits(arguments.sets, model, arguments.data or Path(scratch), Path(scratch)))
            lines += _report(Path(model).name, hits)
    sys.stdout.write("\n".join(lines) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=Path, nargs="+", required=True, help="folders of question sets")
    parser.add_argument("--models", nargs="+", default=_MODELS, help="embedders: names of bundled ones, or folders")
    parser.add_argument("--data", type=Path, help="a data directory that is kept; its vectors are used again")
    return parser.parse_args()


def _all_hits(folders: Sequence[Path], model: str, data: Path, scratch: Path) -> Iterator[Judged]:
    questions = {folder: read_queries(folder / "queries.jsonl") for folder in folders}
    for folder in folders:
        documents = [json.loads(line) for line in (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]
        answers = {
            query: {document_id for document_id, grade in grades.items() if grade > 0}
            for query, grades in read_qrels(folder / "qrels.tsv").items()
        }
        for part, part_documents in {"": documents, **_parts_of(documents)}.items():
            yield from _hits_in(
                folder,
                part,
                part_documents,
                list(_questions(folder, part, part_documents, questions, answers)),
                model,
                data,
                scratch,
            )


def _parts_of(documents: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Parts of a corpus: whole articles, where passages share titles, else documents as drawn."""
    drawn = random.Random(7)
    articles = sorted({document["title"] for document in documents})
    drawn.shuffle(articles)
    by_article = len(articles) <= len(documents) / 2
    ordered = (
        sorted(documents, key=lambda document: articles.index(document["title"]))
        if by_article
        else drawn.sample(documents, len(documents))
    )
    return {name: ordered[slice(*span)] for name, span in _PARTS.items()}


def _questions(
    folder: Path,
    part: str,
    documents: list[dict[str, Any]],
    questions: dict[Path, dict[str, str]],
    answers: dict[str, set[str]],
) -> Iterator[Questions]:
    here = {document["id"] for document in documents}
    own = {query: text for query, text in questions[folder].items() if answers.get(query, set()) & here}
    hidden = {query: text for query, text in questions[folder].items() if query in answers and query not in own}
    limit = _PER_KIND if part else len(own)
    yield Questions("its own", _drawn(own, limit), answers)
    yield Questions("of passages left out", _drawn(hidden, limit), {})
    yield Questions("everyday", {text: text for text in _EVERYDAY.replace("\n", "|").split("|")}, {})
    for other, texts in questions.items():
        # the same questions in another language
        if texts.keys() == questions[folder].keys() or texts.keys() & answers.keys():
            if other.name == "en" != folder.name:
                translated = {query: text for query, text in texts.items() if query in answers}
                yield Questions(
                    "in English", _drawn({q: t for q, t in translated.items() if answers[q] & here}, _PER_KIND), answers
                )
                yield Questions(
                    "in English, of passages left out",
                    _drawn({q: t for q, t in translated.items() if not answers[q] & here}, _PER_KIND),
                    {},
                )
        else:
            yield Questions("of other sets", _drawn(texts, _ELSEWHERE), {})
    if (file := folder / "unanswerable.jsonl").is_file() and not part:
        yield Questions("unanswerable", read_queries(file), {})


def _drawn(questions: dict[str, str], limit: int) -> dict[str, str]:
    wanted = sorted(questions, key=sha256)[:limit]
    return {query: questions[query] for query in wanted}


def _hits_in(
    folder: Path,
    part: str,
    documents: list[dict[str, Any]],
    groups: Sequence[Questions],
    model: str,
    data: Path,
    scratch: Path,
) -> Iterator[Judged]:
    place = scratch / "sets" / folder.parent.name / f"{folder.name}-{part.replace(' ', '') or 'all'}"
    place.mkdir(parents=True, exist_ok=True)
    (place / "corpus.jsonl").write_text(
        "".join(json.dumps(document, ensure_ascii=False) + "\n" for document in documents), encoding="utf-8"
    )
    declaration = declared_set(place, model, scratch, language=folder.name if len(folder.name) == 2 else "en")
    run_below_prefect(declaration, data)
    halves = {sha256(query)[-1] in "02468ace" for group in groups[:1] for query in group.texts}
    with open_index(str(declaration), data=data) as index, index.reading() as retriever:
        for group in groups:
            vectors = _vectors_of(model, index.embedder, list(group.texts.values()))
            for (query, text), vector in zip(group.texts.items(), vectors, strict=True):
                request = Request(text, vector, _HITS, "hybrid")
                retrieved = retriever.find(request)
                for hit, (features, curve) in zip(
                    retrieved.hits, retriever.judge.features(request, retrieved.hits, retrieved.rivals), strict=True
                ):
                    is_answer = hit.document_id in group.answers.get(query, set())
                    name = f"{folder.parent.name}/{folder.name}" if len(folder.name) == 2 else folder.name
                    yield Judged(
                        name, group.kind, hit.rank, features, curve, is_answer, _fits(query, is_parted=len(halves) == 2)
                    )


def _fits(query: str, *, is_parted: bool) -> bool:
    """Whether a question is of the half that fits, by the last bit of its id's hash. Where a set has only one such
    half, by the bit before it.
    """
    number = int(sha256(query), 16)
    return number % 2 == 0 if is_parted else number // 2 % 2 == 0


_KNOWN: dict[tuple[str, str], Vectors] = {}


def _vectors_of(model: str, embedder: Embedder | CachingEmbedder, texts: list[str]) -> list[Vectors]:
    """Vectors of questions, each embedded once for all parts."""
    missing = [text for text in dict.fromkeys(texts) if (model, text) not in _KNOWN]
    _KNOWN.update(
        ((model, text), vector) for text, vector in zip(missing, embedder.embed_queries(missing), strict=True)
    )
    return [_KNOWN[model, text] for text in texts]


def _report(model: str, hits: Sequence[Judged]) -> Iterator[str]:
    curves = {}
    for name in ("known", "unknown", "foreign"):
        rows = [hit for hit in hits if hit.curve == name and hit.fits]
        if any(hit.answers for hit in rows):
            curves[name] = fit_curve([hit.features for hit in rows], [hit.answers for hit in rows])
    yield f"### {model}"
    yield ""
    for name, curve in curves.items():
        yield f"    {name}={curve!r}"
    others = [hit for hit in hits if not hit.fits and hit.curve in curves]
    likely = np.array([round(hit.features.on(curves[hit.curve]), 3) for hit in others])
    answers = np.array([hit.answers for hit in others])
    yield from ("", *_bins(likely, answers), "", *_parts_table(others, likely, answers, curves), "")


def _bins(likely: npt.NDArray[np.float64], answers: npt.NDArray[np.bool_]) -> Iterator[str]:
    yield "| relevance | hits | mean | share that answers |"
    yield "|---|---:|---:|---:|"
    places = _places(likely)
    for number in range(_BINS):
        inside = places == number
        if inside.any():
            yield (
                f"| {number / _BINS:.1f} to {(number + 1) / _BINS:.1f} | {inside.sum():,} | "
                f"{likely[inside].mean():.3f} | {answers[inside].mean():.3f} |"
            )


def _parts_table(
    others: Sequence[Judged], likely: npt.NDArray[np.float64], answers: npt.NDArray[np.bool_], curves: dict[str, Curve]
) -> Iterator[str]:
    """Expected calibration error over all hits and over first hits, of each set and of each kind of question."""
    yield "| hits of | hits | mean | share that answers | error | first hits: mean | share that answers | error |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    first = np.array([hit.rank == 1 for hit in others])
    groups: dict[str, Iterable[bool]] = {"all": [True] * len(others)}
    groups |= {name: [hit.name == name for hit in others] for name in dict.fromkeys(hit.name for hit in others)}
    groups |= {
        f"questions {kind}": [hit.kind == kind for hit in others] for kind in dict.fromkeys(hit.kind for hit in others)
    }
    groups |= {f"curve `{name}`": [hit.curve == name for hit in others] for name in curves}
    for name, members in groups.items():
        inside = np.array(list(members))
        of_all, of_first = (_figures(likely[rows], answers[rows]) for rows in (inside, inside & first))
        yield f"| {name} | {inside.sum():,} | {of_all} | {of_first} |"
    worst = [value for hit, value in zip(others, likely, strict=True) if hit.kind == "everyday" and hit.rank == 1]
    yield ""
    yield (
        "Everyday questions whose first hit has a relevance of .15 and more: "
        f"{np.mean(np.array(worst) >= 0.15):.3f} of {len(worst):,}."
    )


def _figures(likely: npt.NDArray[np.float64], answers: npt.NDArray[np.bool_]) -> str:
    return (
        f"{likely.mean():.3f} | {answers.mean():.3f} | {calibration_error(likely, answers):.3f}"
        if len(likely)
        else " | | "
    )


def calibration_error(likely: npt.NDArray[np.float64], answers: npt.NDArray[np.bool_]) -> float:
    """Expected calibration error: the mean over ten bins of equal width, weighted by hits, of |mean relevance - share
    that answers|.
    """
    places = _places(likely)
    parts = [(places == number) for number in range(_BINS)]
    return float(
        sum(inside.sum() * abs(likely[inside].mean() - answers[inside].mean()) for inside in parts if inside.any())
        / max(len(likely), 1)
    )


def _places(likely: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    return np.minimum((likely * _BINS).astype(np.int64), _BINS - 1)


if __name__ == "__main__":
    main()
