"""Retrieval quality on question sets, and what the golden questions of the example knowledge bases find, step by step
of a search.

    python -m benchmarks.evaluation [--sets DIR ...] [--embedders MODEL ...] [--data DIR]

A set is a folder with corpus.jsonl {id, title, text}, queries.jsonl {id, text} and qrels.tsv, in a language that its
name ends with (`xquad/es`), else English. Its corpus is run as records in a data directory of its own, once with each
embedder. Published are trec_eval's figures over documents, the difference to the better side with its 95 % interval by
paired bootstrap, and the digest of the corpus. Questions are parted by the hash of their ids: one half chooses the
weights of fusion, the other one is reported. Sets in the same folder have the same questions in several languages: the
questions of each are also asked of the others. What is printed is Markdown.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytrec_eval
from ruamel.yaml import YAML

from almanac.core.load import load_declaration
from almanac.core.logs import log_through_stdlib
from almanac.core.settings import DataDir, installation
from almanac.index.embedding.embedder import Vectors
from almanac.query import PublishedIndex, open_index
from almanac.query.evaluation.evaluate import measure, read_qrels, read_queries
from almanac.query.evaluation.golden import load_golden, measure_recall
from almanac.query.models.rerank import load_reranker
from almanac.query.retrieval.arguments import compose_query
from almanac.query.retrieval.fusion import UsualCosine, fuse
from almanac.query.retrieval.request import Request
from almanac.query.retrieval.retriever import Retriever
from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.retrieve import Retrieve
from almanac.schemas.hashing import file_sha256, sha256

EMBEDDERS = ("all-MiniLM-L6-v2", "multilingual-e5-small-q4")
_WEIGHTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.7, 0.8)
_DEEP = 300  # candidates of each side, as `almanac eval` has them
# as the workspace example declares them
_DIVERSITY, _TITLES_AS_TAGS = 0.1, {"field": "title", "weight": 0.2, "cluster_weight": 0.1}
_DRAWS = 2000
EXAMPLES = ("voyago", "products", "handbook", "workspace", "versailles")
Judged = dict[str, dict[str, int]]
Ranked = dict[str, dict[str, float]]


class Questions(NamedTuple):
    """Of one set, in one order: ids, texts and unit vectors (n, dimension)."""

    ids: list[str]
    texts: list[str]
    vectors: Vectors

    def __bool__(self) -> bool:
        return bool(self.ids)

    def select(self, wanted: Callable[[str], bool]) -> "Questions":
        numbers = [number for number, query in enumerate(self.ids) if wanted(query)]
        return Questions([self.ids[n] for n in numbers], [self.texts[n] for n in numbers], self.vectors[numbers])


def main() -> None:
    log_through_stdlib()  # else what runs log would stand between the tables
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="almanac-evaluation-") as scratch:
        data = arguments.data or Path(scratch)
        reported, chosen, across = _sets(arguments.sets, arguments.embedders, data, Path(scratch))
        lines = [*reported, "", *chosen, "", *across, "", *_golden(data)]
    sys.stdout.write("\n".join(lines) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=Path, nargs="*", default=[], help="folders of question sets")
    parser.add_argument("--embedders", nargs="*", default=EMBEDDERS, help="names or folders of local models")
    parser.add_argument("--data", type=Path, help="a data directory that is kept; what is in it is refreshed")
    return parser.parse_args()


def _sets(
    folders: list[Path], embedders: Sequence[str], data: Path, scratch: Path
) -> tuple[list[str], list[str], list[str]]:
    """The tables of what is found, of the weights by which it was chosen, and of questions in another language than the
    content.
    """
    reported = [
        "| embedder | set | questions | search | nDCG@10 | recall@5 | recall@10 | MRR@10 | nDCG@10 − better "
        "side's | corpus |",
        "|---|---|---:|---|---:|---:|---:|---:|---|---|",
    ]
    chosen = [
        f"| embedder | choosing half | questions | {' | '.join(f'{weight:.2f}' for weight in _WEIGHTS)} | the "
        "set's own |",
        f"|---|---|---:|{'---:|' * len(_WEIGHTS)}---:|",
    ]
    across = [
        "| embedder | questions of | over | questions | search | nDCG@10 | recall@5 | recall@10 | MRR@10 | "
        "nDCG@10 − dense |",
        "|---|---|---|---:|---|---:|---:|---:|---:|---|",
    ]
    for model, folder in product(embedders, folders):
        # where `benchmarks.answers` has it, too
        declaration, place = declared_set(folder, model, scratch), data / Path(model).name
        run_below_prefect(declaration, place)
        with open_index(str(declaration), data=place) as index:
            judged = {
                query: docs
                for query, docs in read_qrels(folder / "qrels.tsv").items()
                if any(score > 0 for score in docs.values())
            }
            questions = _questions(index, folder, judged)
            chosen.append(f"| {Path(model).name} {_weights_row(index, folder, judged, questions.select(_chooses))}")
            if others := questions.select(lambda query: not _chooses(query)):
                reported += [f"| {Path(model).name} {row}" for row in _rows(index, folder, judged, others)]
            for other in folders:
                if (
                    other != folder
                    and other.resolve().parent == folder.resolve().parent
                    and len(folder.name) == len(other.name) == 2
                ):
                    across += [
                        f"| {Path(model).name} {row}"
                        for row in _rows_across(index, folder, judged, _questions(index, other, judged), other)
                    ]
    return reported, chosen, across


def _chooses(question: str) -> bool:
    return int(sha256(question), 16) % 2 == 0


def declared_set(folder: Path, model: str, scratch: Path, *, language: str | None = None) -> Path:
    """Writes a declaration that reads a set's corpus as records, into `scratch`. The language is by default the
    folder's name, where that is a tag.
    """
    name = f"{folder.parent.name}-{folder.name}-{Path(model).name}".lower().replace("_", "-").replace(".", "-")
    path = scratch / f"{name}.yaml"
    fields = {
        "id": {"json": "id", "required": True},
        "title": {"json": "title", "default": ""},
        "text": {"json": "text", "required": True},
    }
    source = {
        "name": "corpus",
        "kind": "files",
        "glob": str(folder / "corpus.jsonl"),
        "yields": "records",
        "id": "{id}",
        "title": "{title}",
    }
    language = language or (folder.name if len(folder.name) == 2 else "en")
    sources = [{**source, "fields": fields, "text": "{title}. {text}", "metadata": ["title"]}]
    embed = {"provider": "local", "model": model}
    YAML().dump(
        {
            "name": name,
            "language": language,
            "sources": sources,
            "embed": embed,
            "clean": "none",
            "validate": {"max_rejected": 0.5},
        },
        path,
    )
    return path


def run_below_prefect(declaration: Declaration | Path | str, data: Path) -> None:
    """Below Prefect: its server would cost more than a small set."""
    from almanac.flows.pipeline.ledger import Ledger
    from almanac.flows.pipeline.run import Run
    from almanac.flows.refresh import carry_out

    declared = declaration if isinstance(declaration, Declaration) else load_declaration(str(declaration), "")
    outcome = carry_out(Ledger(Run(declared, DataDir.locate(data))), rejects_ok=True).outcome
    if outcome not in ("published", "published_with_rejects", "unchanged"):
        raise SystemExit(f"{declared.path}: {outcome}")


def _questions(index: PublishedIndex, folder: Path, judged: Judged) -> Questions:
    texts = {query: text for query, text in read_queries(folder / "queries.jsonl").items() if query in judged}
    return Questions(list(texts), list(texts.values()), index.embedder.embed_queries(list(texts.values())))


def _rows(index: PublishedIndex, folder: Path, judged: Judged, questions: Questions) -> Iterator[str]:
    judged = {query: judged[query] for query in questions.ids}
    titles = index.version().coded_metadata(lambda metadata: metadata.get("title")).values()
    are_shared = len(set(titles)) <= len(titles) / 2  # titles of articles, of which the passages are parts
    steps = _steps(
        index.declaration.retrieve.model_copy(update={"candidates": _DEEP}), _TITLES_AS_TAGS if are_shared else None
    )
    runs = {step: _ranked(index, retrieve, questions) for step, retrieve in steps.items()}
    gains = {step: _gains(judged, run) for step, run in runs.items()}
    better = max(("dense", "lexical"), key=lambda step: float(np.mean(gains[step])))
    for step, run in runs.items():
        figures = " | ".join(f"{value:.4f}" for value in measure(judged, run).values())
        gain = "" if step in ("dense", "lexical") else _difference(gains[step], gains[better])
        digest = file_sha256(folder / "corpus.jsonl")[:8] if step == "fused" else ""
        yield f"| {folder.parent.name}/{folder.name} | {len(judged):,} | {step} | {figures} | {gain} | {digest} |"


def _rows_across(
    index: PublishedIndex, folder: Path, judged: Judged, questions: Questions, question_folder: Path
) -> Iterator[str]:
    """Questions in another language than the content, by the half that chose nothing."""
    questions = questions.select(lambda query: not _chooses(query))
    judged = {query: judged[query] for query in questions.ids}
    steps = _steps(index.declaration.retrieve.model_copy(update={"candidates": _DEEP}), None)
    runs = {step: _ranked(index, steps[step], questions) for step in ("dense", "lexical", "fused")}
    gains = {step: _gains(judged, run) for step, run in runs.items()}
    for step, run in runs.items():
        figures = " | ".join(f"{value:.4f}" for value in measure(judged, run).values())
        gain = _difference(gains[step], gains["dense"]) if step == "fused" else ""
        sets = f"{question_folder.name} | {folder.parent.name}/{folder.name}"
        yield f"| {sets} | {len(judged):,} | {step} | {figures} | {gain} |"


def _steps(declared: Retrieve, tags: dict[str, Any] | None) -> dict[str, Retrieve]:
    """What a search is made of, one step after the other. A reranker is among them where one is declared: no model of
    one ships with this.
    """
    plain = {"tags": None, "diversity": 0.0, "rerank": None, "share": None}
    changes: dict[str, dict[str, Any]] = {"dense": {"mode": "dense"}, "lexical": {"mode": "lexical"}, "fused": {}}
    changes["fused + diversity"] = {"diversity": declared.diversity or _DIVERSITY}
    if tags is not None:
        changes["fused + tags"] = {"tags": tags}
        changes["fused + tags + diversity"] = {"tags": tags, "diversity": declared.diversity or _DIVERSITY}
    if declared.rerank is not None:
        changes["fused + rerank"] = {"rerank": declared.rerank}
    own = declared.model_dump()
    return {
        step: Retrieve.model_validate({**own, "mode": "hybrid", **plain, **change}) for step, change in changes.items()
    }


def _ranked(index: PublishedIndex, retrieve: Retrieve, questions: Questions) -> Ranked:
    """The first ten documents of each question, which are records: one chunk each. The first scores most."""
    retriever = retriever_for(index, retrieve)
    requests = [
        Request(text, vector, 10, retrieve.mode)
        for text, vector in zip(questions.texts, questions.vectors, strict=True)
    ]
    return {
        query: {hit.document_id: 1 / hit.rank for hit in retriever.find(request).hits}
        for query, request in zip(questions.ids, requests, strict=True)
    }


def retriever_for(index: PublishedIndex, retrieve: Retrieve) -> Retriever:
    """Searches the index's version as `retrieve` says, whatever its declaration does."""
    declared = _with(index.declaration, retrieve)
    return Retriever(declared, index.version(), index.embedder.embed_queries, load_reranker(declared))


def _with(declaration: Declaration, retrieve: Retrieve) -> Declaration:
    declared = declaration.model_copy(update={"retrieve": retrieve})
    declared.at(declaration.path, declaration.env)
    return declared


def _weights_row(index: PublishedIndex, folder: Path, judged: Judged, questions: Questions) -> str:
    """nDCG@10 by the weight of the dense side, all chunks candidates of both sides, and the weight that content in this
    language gets.
    """
    retriever = retriever_for(index, index.declaration.retrieve)
    judged = {query: judged[query] for query in questions.ids}
    runs: dict[float, Ranked] = {weight: {} for weight in _WEIGHTS}
    for query, text, vector in zip(*questions, strict=True):
        retrieved = retriever.find(
            Request(text, vector, index.version().manifest.counts.chunks, "hybrid", ranking=True)
        )
        sides: dict[str, dict[str, float]] = {"dense": {}, "lexical": {}}
        for hit in retrieved.hits:
            for side, scores in sides.items():
                if (score := hit.scores[side]) is not None:
                    scores[hit.document_id] = score
        fusion = next(step for step in retrieved.trace if step["step"] == "fuse")
        usual = UsualCosine(fusion["usual_cosine"], fusion["spread"])
        for weight in _WEIGHTS:
            runs[weight][query] = fuse(
                sides["dense"], sides["lexical"], weight, usual=usual, attainable=fusion["attainable"]
            )
    figures = " | ".join(f"{float(np.mean(_gains(judged, run))):.4f}" for run in runs.values())
    return (
        f"| {folder.parent.name}/{folder.name} | {len(judged):,} | {figures} | "
        f"{index.declaration.retrieve.dense_weight} |"
    )


def _gains(judged: Judged, run: Ranked) -> np.ndarray:
    """nDCG@10 of each judged question, in the order of their ids."""
    measures = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.10"}).evaluate(run)
    return np.array([measures.get(query, {}).get("ndcg_cut_10", 0.0) for query in sorted(judged)])


def _difference(ours: np.ndarray, theirs: np.ndarray) -> str:
    """Mean difference and its 95 % interval, questions drawn with replacement, each with both of its values."""
    random = np.random.default_rng(0)
    difference = ours - theirs
    means = [float(np.mean(random.choice(difference, size=len(difference)))) for _ in range(_DRAWS)]
    low, high = np.percentile(means, [2.5, 97.5])
    return f"{np.mean(difference):+.4f} [{low:+.4f}, {high:+.4f}]"


def _golden(data: Path) -> Iterator[str]:
    """The knowledge bases that read files alone, and any other that has a version in the data directory."""
    yield "| knowledge base | k | questions | search | recall@k | MRR@k | answered | without an answer | abstained |"
    yield "|---|---:|---:|---|---:|---:|---:|---:|---:|"
    for name in EXAMPLES:
        declaration = load_declaration(name, "")
        if all(source.kind == "files" for source in declaration.sources):
            run_below_prefect(installation() / "knowledge" / f"{name}.yaml", data)
        elif not (DataDir.locate(data).index(name) / "CURRENT").is_file():
            continue
        with open_index(name, data=data, env="") as index:
            declared = index.declaration.retrieve
            tags = None if declared.tags is None else declared.tags.model_dump()
            for step, retrieve in {**_steps(declared, tags), "as declared": declared}.items():
                yield _golden_row(index, step, retrieve)


def _golden_row(index: PublishedIndex, step: str, retrieve: Retrieve) -> str:
    golden = load_golden(index.declaration)
    measured: Any = measure_recall(
        _with(index.declaration, retrieve), index.version(), index.embedder.embed_queries, golden
    )
    ranks = _first_ranks(index, retrieve, golden)
    recall, reciprocal = (f"{measured.recall:.3f}", f"{np.mean(ranks):.3f}") if ranks else ("", "")
    figures = f"{recall} | {reciprocal} | {measured.answered} | {measured.unanswerable} | {measured.abstained}"
    return f"| {index.declaration.name} | {retrieve.k} | {measured.questions} | {step} | {figures} |"


def _first_ranks(index: PublishedIndex, retrieve: Retrieve, golden: Sequence[Any]) -> list[float]:
    """For each question that has an answer, 1 over the rank of the first hit that holds it, 0 where none of the k
    does.
    """
    questions = [question for question in golden if question.is_answerable]
    texts = [compose_query(retrieve.query, question.question) for question in questions]
    retriever = retriever_for(index, retrieve)
    ranks = []
    for question, text, vector in zip(questions, texts, index.embedder.embed_queries(texts), strict=True):
        hits = retriever.find(Request(text, vector, retrieve.k, retrieve.mode)).hits
        ranks.append(next((1 / hit.rank for hit in hits if question.is_answered_by(hit)), 0.0))
    return ranks


if __name__ == "__main__":
    main()
