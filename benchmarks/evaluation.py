"""Retrieval quality on question sets: each side alone, both fused, and what the golden questions of the example knowledge bases find.

    python -m benchmarks.evaluation [--sets DIR ...] [--data DIR]

A set is a folder with corpus.jsonl {id, title, text}, queries.jsonl {id, text} and qrels.tsv, in a language that its name ends with (`xquad/es`), else
English. Its corpus is run as records in a data directory of its own. Published are trec_eval's figures over documents, the difference of the fused
ranking to the better side with its 95 % interval by paired bootstrap, and the digest of the corpus. What is printed is Markdown.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytrec_eval
from ruamel.yaml import YAML

from query import PublishedIndex, open_index
from query.evaluate import measure, rank_documents, read_qrels
from query.golden import load_golden, measure_recall
from query.retrieve import Mode
from schemas.items import file_sha256
from schemas.load import load_declaration
from schemas.logs import log_through_stdlib
from schemas.settings import DataDir, project_root

_MODES: tuple[Mode, ...] = ("dense", "lexical", "hybrid")
_SIDES: tuple[Mode, ...] = ("dense", "lexical")
_DRAWS = 2000
_EXAMPLES = ("voyago", "products", "handbook", "workspace", "versailles")


def main() -> None:
    log_through_stdlib()  # else what runs log would stand between the tables
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="almanac-evaluation-") as scratch:
        data = arguments.data or Path(scratch)
        lines = [*_sets(arguments.sets, data, Path(scratch)), "", *_golden(data)]
    sys.stdout.write("\n".join(lines) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=Path, nargs="*", default=[], help="folders of question sets")
    parser.add_argument("--data", type=Path, help="a data directory that is kept; what is in it is refreshed")
    return parser.parse_args()


def _sets(folders: list[Path], data: Path, scratch: Path) -> Iterator[str]:
    yield "| set | queries | mode | nDCG@10 | recall@5 | recall@10 | MRR@10 | fused − better side, nDCG@10 | corpus |"
    yield "|---|---:|---|---:|---:|---:|---:|---|---|"
    for folder in folders:
        declaration = _declared(folder, scratch)
        run_below_prefect(declaration, data)
        with open_index(str(declaration), data=data) as index:
            yield from _rows(index, folder)


def _declared(folder: Path, scratch: Path) -> Path:
    name = f"{folder.parent.name}-{folder.name}".lower().replace("_", "-")
    path = scratch / f"{name}.yaml"
    fields = {"id": {"json": "id", "required": True}, "title": {"json": "title", "default": ""}, "text": {"json": "text", "required": True}}
    source = {"name": "corpus", "kind": "files", "glob": str(folder / "corpus.jsonl"), "yields": "records", "id": "{id}", "title": "{title}"}
    language = folder.name if len(folder.name) == 2 else "en"
    sources = [{**source, "fields": fields, "text": "{title}. {text}"}]
    YAML().dump({"name": name, "language": language, "sources": sources, "clean": "none", "validate": {"max_rejected": 0.5}}, path)
    return path


def run_below_prefect(declaration: Path | str, data: Path) -> None:
    """Below Prefect: its server would cost more than a small set."""
    from flows.refresh import carry_out
    from flows.run import Run

    outcome = carry_out(Run(load_declaration(str(declaration), ""), DataDir.locate(data)), rejects_ok=True)["outcome"]
    if outcome not in ("published", "published_with_rejects", "unchanged"):
        raise SystemExit(f"{declaration}: {outcome}")


def _rows(index: PublishedIndex, folder: Path) -> Iterator[str]:
    judged = {query: docs for query, docs in read_qrels(folder / "qrels.tsv").items() if any(score > 0 for score in docs.values())}
    runs = {mode: rank_documents(index, folder / "queries.jsonl", judged, mode) for mode in _MODES}
    gains = {mode: _gains(judged, run) for mode, run in runs.items()}
    better = max(_SIDES, key=lambda mode: float(np.mean(gains[mode])))
    for mode, run in runs.items():
        figures = " | ".join(f"{value:.4f}" for value in measure(judged, run).values())
        gain = _difference(gains["hybrid"], gains[better]) if mode == "hybrid" else ""
        digest = file_sha256(folder / "corpus.jsonl")[:8] if mode == "hybrid" else ""
        yield f"| {folder.parent.name}/{folder.name} | {len(judged):,} | {mode} | {figures} | {gain} | {digest} |"


def _gains(judged: dict[str, dict[str, int]], run: dict[str, dict[str, float]]) -> np.ndarray:
    """nDCG@10 of each judged question, in the order of their ids."""
    found = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.10"}).evaluate(run)
    return np.array([found.get(query, {}).get("ndcg_cut_10", 0.0) for query in sorted(judged)])


def _difference(ours: np.ndarray, theirs: np.ndarray) -> str:
    """Mean difference and its 95 % interval, questions drawn with replacement, each with both of its values."""
    random = np.random.default_rng(0)
    difference = ours - theirs
    means = [float(np.mean(random.choice(difference, size=len(difference)))) for _ in range(_DRAWS)]
    low, high = np.percentile(means, [2.5, 97.5])
    return f"{np.mean(difference):+.4f} [{low:+.4f}, {high:+.4f}]"


def _golden(data: Path) -> Iterator[str]:
    """The knowledge bases that read files alone, and any other that has a version in the data directory."""
    yield "| knowledge base | k | questions | mode | recall@k | answered | without an answer | abstained |"
    yield "|---|---:|---:|---|---:|---:|---:|---:|"
    for name in _EXAMPLES:
        declaration = load_declaration(name, "")
        if all(source.kind == "files" for source in declaration.sources):
            run_below_prefect(project_root() / "knowledge" / f"{name}.yaml", data)
        elif not (DataDir.locate(data).index(name) / "CURRENT").is_file():
            continue
        with open_index(name, data=data, env="") as index:
            for mode in _MODES:
                yield _golden_row(index, mode)


def _golden_row(index: PublishedIndex, mode: Mode) -> str:
    declared = index.declaration.model_copy(update={"retrieve": index.declaration.retrieve.model_copy(update={"mode": mode})})
    declared.at(index.declaration.path, index.declaration.env)
    found: Any = measure_recall(declared, index.version(), index.embedder.embed_queries, load_golden(index.declaration))
    recall = f"{found.recall:.3f}" if found.recall is not None else ""
    return f"| {declared.name} | {declared.retrieve.k} | {found.questions} | {mode} | {recall} | {found.answered} | {found.unanswerable} | {found.abstained} |"


if __name__ == "__main__":
    main()
