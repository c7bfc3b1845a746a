"""From the example site to a published version that answers, and back: the whole road, as a user walks it."""

import csv
import io
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from chromadb import PersistentClient
from chromadb.config import Settings

from tests.conftest import Example

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("voyago")]  # one run serves them all


def test_a_first_run_publishes_every_item_and_accounts_for_the_rest(voyago: Example) -> None:
    report = voyago.first_run.json
    assert (voyago.first_run.code, report["outcome"], report["version"], report["previous"]) == (
        5,
        "published_with_rejects",
        "v0001",
        None,
    )
    assert report["items"] == {
        "in": 34,
        "added": 32,
        "changed": 0,
        "moved": 0,
        "unchanged": 0,
        "deduplicated": 1,
        "quarantined": 1,
        "removed": 0,
    }
    assert report["pages"]["gone"] == 1
    assert report["pages"]["refused"] == 1
    assert report["gate"]["verdict"] == "passed"
    assert report["chunks"]["embedded"] == report["chunks"]["total"] > 32


def test_the_quarantined_item_names_field_and_rule(voyago: Example) -> None:
    (reject,) = [json.loads(line) for line in Path(voyago.first_run.json["rejects_file"]).read_text().splitlines()]
    assert reject["url"].endswith("/tours/buon-ma-thuot-elephants/")
    assert (reject["field"], reject["stage"]) == ("tour_code", "map")


def test_the_files_are_where_they_are_promised(voyago: Example) -> None:
    data, run_id = voyago.almanac.data, voyago.first_run.json["run_id"]
    assert (data / "index/voyago/CURRENT").read_text() == "v0001\n"
    for name in (
        "records.parquet",
        "documents.parquet",
        "chunks.parquet",
        "rejects.jsonl",
        f"runs/{run_id}.json",
        f"runs/{run_id}.validation.json",
    ):
        assert (data / "processed/voyago" / name).is_file()
    manifest = json.loads((data / "index/voyago/versions/v0001/manifest.json").read_text())
    assert {
        "format",
        "kb",
        "version",
        "parent",
        "created_at",
        "run_id",
        "digest",
        "counts",
        "fingerprints",
        "embedder",
        "declaration_sha256",
    } <= set(manifest)
    assert {"collection", "gate", "lineage", "software", "files"} <= set(manifest)
    assert list((data / "raw/voyago/tours").rglob("*.gz"))


def test_records_hold_what_card_and_page_say(voyago: Example) -> None:
    done = voyago.almanac("export", "voyago", "records", "--format", "csv")
    rows = {row["tour_code"]: row for row in csv.DictReader(io.StringIO(done.stdout.removeprefix("\ufeff")))}
    assert len(rows) == 24
    assert all(row["departure_date"].count("-") == 2 and row["departure_point"] for row in rows.values())
    prices = json.loads(rows["TO1101"]["price"])
    assert {p["amount"]["currency"] for p in prices} <= {"₫", "VND", "$"}
    assert len(prices) == 3


def test_chunks_are_exact_spans_of_their_documents(voyago: Example) -> None:
    texts = {
        row["document_id"]: row["text"]
        for row in map(json.loads, voyago.almanac("export", "voyago", "documents").stdout.splitlines())
    }
    chunks = [json.loads(line) for line in voyago.almanac("export", "voyago", "chunks").stdout.splitlines()]
    cut = [c for c in chunks if c["kind"] == "document"]
    assert len(texts) == 8
    assert len(cut) > 8
    assert all(texts[c["document_id"]][c["start"] : c["end"]] == c["text"] for c in cut)
    assert all(c["start"] is None and c["end"] is None for c in chunks if c["kind"] == "record")


def test_navigation_is_not_in_the_documents(voyago: Example) -> None:
    done = voyago.almanac("export", "voyago", "documents")
    assert "no advertising" not in done.stdout
    assert "Staff notes" not in done.stdout


def test_the_stock_chroma_client_opens_a_version(voyago: Example) -> None:
    source = voyago.almanac.data / "index/voyago/versions/v0001"
    client = PersistentClient(str(source / "chroma"), Settings(anonymized_telemetry=False))
    collection = client.get_collection("tours", embedding_function=None)
    assert collection.count() == pq.read_metadata(source / "chunks.parquet").num_rows
    tour_rows = collection.get(where={"tour_code": "TO1101"}, include=["documents", "metadatas", "embeddings"])
    assert len(tour_rows["ids"]) == 1
    client.close()  # type: ignore[attr-defined]


def test_search_answers_with_scores_url_and_version(voyago: Example) -> None:
    result = voyago.almanac("search", "voyago", "kayak trip between limestone islands", "-k", "3", "--json").json
    assert (result["version"], len(result["hits"])) == ("v0001", 3)
    assert [hit["rank"] for hit in result["hits"]] == [1, 2, 3]
    assert result["hits"][0]["score"] >= result["hits"][1]["score"]
    assert "kayak" in result["hits"][0]["text"].lower()
    assert result["hits"][0]["url"].startswith("http://127.0.0.1:")


def test_a_filter_narrows_the_search(voyago: Example) -> None:
    where = json.dumps({"kind": "document"})
    hits = voyago.almanac("search", "voyago", "boat", "-k", "5", "--where", where, "--json").json["hits"]
    assert hits
    assert all(hit["source"] == "policies" for hit in hits)
    hits = voyago.almanac("search", "voyago", "boat", "--where", json.dumps({"tour_code": "TO1101"}), "--json").json[
        "hits"
    ]
    assert [hit["document_id"] for hit in hits] == ["TO1101"]


def test_ask_cites_what_it_says_and_knows_what_it_does_not_know(voyago: Example) -> None:
    answer = voyago.almanac("ask", "voyago", "How long does a refund take?", "--json").json
    assert answer["answered"]
    assert "[1]" in answer["reply"]
    assert all(source["quote"] in source["text"] for source in answer["sources"])
    unknown = voyago.almanac("ask", "voyago", "zxqv wvut", "--floor", "0.95", "--json")
    assert (unknown.code, unknown.json["answered"], unknown.json["sources"]) == (0, False, [])


def test_verify_finds_nothing_wrong_with_a_version_that_was_read(voyago: Example) -> None:
    assert voyago.almanac("verify", "voyago", "--json").json == {
        "kb": "voyago",
        "version": "v0001",
        "ok": True,
        "problems": [],
    }


def test_the_same_site_again_changes_nothing(voyago: Example) -> None:
    done = voyago.almanac("run", "voyago", "--json", "--rejects-ok")
    report = done.json
    assert (done.code, report["outcome"], report["version"]) == (0, "unchanged", "v0001")
    assert (report["items"]["unchanged"], report["items"]["added"], report["chunks"]["embedded"]) == (32, 0, 0)
    before = voyago.first_run.json["pages"]
    assert report["pages"] == {**before, "fetched": 0, "unchanged": before["fetched"]}  # the server answered 304
    assert [v["version"] for v in voyago.almanac("versions", "voyago", "--json").json["versions"]] == ["v0001"]


def test_status_tells_what_is_live_and_what_comes_next(voyago: Example) -> None:
    status = voyago.almanac("status", "voyago", "--json").json
    assert (status["current"], status["running"], status["stale"]) == ("v0001", None, False)
    assert status["last_run"]["kb"] == "voyago"
    assert status["next_scheduled"].endswith("+00:00")
