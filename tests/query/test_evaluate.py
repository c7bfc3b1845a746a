"""The metrics are trec_eval's, and the files are read strictly."""

import math
from pathlib import Path

import pytest

from almanac.query.evaluation.evaluate import evaluate, measure, read_qrels, read_queries, write_run
from almanac.schemas.errors import UsageError


def test_metrics_of_a_ranking_worked_out_by_hand() -> None:
    judged = {"q1": {"a": 1, "b": 1}, "q2": {"c": 1}}
    run = {"q1": {"x": 0.9, "a": 0.8, "b": 0.7}, "q2": {f"d{i}": 1 - i / 100 for i in range(10)} | {"c": 0.1}}
    ndcg = (1 / math.log2(3) + 1 / math.log2(4)) / (1 + 1 / math.log2(3))
    assert measure(judged, run) == {"ndcg@10": round(ndcg / 2, 5), "recall@5": 0.5, "recall@10": 0.5, "mrr@10": 0.25}


def test_a_judged_question_without_an_answer_counts_as_zero() -> None:
    assert measure({"q1": {"a": 1}, "q2": {"b": 1}}, {"q1": {"a": 1.0}})["ndcg@10"] == 0.5


def test_files_are_read_with_their_line_separators_only(tmp_path: Path) -> None:
    queries = tmp_path / "q.jsonl"
    queries.write_text('{"id": 1, "text": "one\u2028two"}\n\n{"id": "b", "text": "x"}\n', encoding="utf-8")
    assert read_queries(queries) == {"1": "one\u2028two", "b": "x"}
    qrels = tmp_path / "r.tsv"
    qrels.write_text('query-id\tcorpus-id\tscore\n1\t"d\t1\n', encoding="utf-8")
    assert read_qrels(qrels) == {"1": {'"d': 1}}


@pytest.mark.parametrize("line", ["not json", '{"id": 1}', "[]"])
def test_a_bad_question_names_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(f'{{"id": "a", "text": "t"}}\n{line}\n')
    with pytest.raises(UsageError, match=r"q\.jsonl:2"):
        read_queries(path)


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_qrels(tmp_path / "none.tsv")


def test_the_run_file_is_in_trec_form(tmp_path: Path) -> None:
    write_run(tmp_path / "run", {"q": {"b": 0.5, "a": 0.25}}, "v0001")
    assert (tmp_path / "run").read_text() == "q Q0 b 1 0.500000 v0001\nq Q0 a 2 0.250000 v0001\n"


def test_the_folder_of_the_run_file_is_made_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        evaluate(None, tmp_path / "q.jsonl", tmp_path / "none.tsv", run_file=tmp_path / "runs" / "of today" / "run")  # type: ignore[arg-type]
    assert (tmp_path / "runs" / "of today").is_dir()
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        evaluate(None, tmp_path / "q.jsonl", tmp_path / "none.tsv", run_file=tmp_path / "file" / "run")  # type: ignore[arg-type]
