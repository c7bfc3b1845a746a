"""Files that take far more to read than they weigh, beside healthy ones: each is read or rejected with its reason, and
the run publishes the rest.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.core.tables import DOCUMENTS, RECORDS, read_table
from almanac.flows.pipeline.run import Run
from almanac.spiders.reading.bounded import close_reader
from tests.flows.commands import carry_out
from tests.hardening.file_bombs import file_bombs
from tests.hardening.tally import tallied
from tests.hardening.usage import GROWTH_MIB, Usage
from tests.index.conftest import INFO, HashEmbedder
from tests.index.making import without_children
from tests.proof.base import TORTURE

pytestmark = pytest.mark.slow
_LIMITS = {"seconds_per_file": 2, "memory_per_file": "256MiB", "elements_per_file": 50_000, "bytes_per_file": "4MiB"}
_EACH_S = 20.0  # of processor time for a file, on average: it is read once, and what becomes of it is cut into chunks
_LONGEST = 10_000_000  # characters that are kept of a file


def _source(name: str, glob: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "files", "glob": glob, "limits": _LIMITS, **more}


def _declared(folder: Path) -> Path:
    rows = {
        "yields": "records",
        "title": "{title}",
        "text": "{text}",
        "fields": {name: {"json": name, "required": True} for name in ("title", "text")},
    }
    kinds = [_source(kind, f"{kind}/*", format=kind, **rows) for kind in ("csv", "json", "jsonl")]
    sources = [_source("documents", "documents/*", yields="documents", body="all"), *kinds]
    path = folder / "kb.yaml"
    gate = {"max_lost": None, "max_failed": None, "max_added": None}
    path.write_text(
        json.dumps({"name": "kb", "sources": sources, "validate": {"max_rejected": 1}, "gate": gate}), encoding="utf-8"
    )
    return path


def _folder_of(name: str) -> str:
    kind = name.rpartition(".")[2]
    return kind if kind in ("csv", "json", "jsonl") else "documents"


def test_every_file_is_read_or_rejected_and_its_neighbours_are_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("almanac.flows.pipeline.run.describe_embedder", lambda _: INFO)
    monkeypatch.setattr("almanac.flows.pipeline.run.load_embedder", lambda *_, **__: HashEmbedder())
    names = {}
    for kind in ("documents", "csv", "json", "jsonl"):
        (tmp_path / kind).mkdir()
    for name, content in file_bombs(None if TORTURE else 3):
        (tmp_path / _folder_of(name) / name).write_bytes(content)
        names[name] = len(content)
    healthy = {f"healthy-{place}-{number}.txt" for place in ("a", "n", "zz") for number in range(3)}
    for name in healthy:
        (tmp_path / "documents" / name).write_text(
            f"What {name} has to say stands in this file alone: {name}, {name} and {name} once more.", encoding="utf-8"
        )
    for kind, row in (
        ("csv", "title,text\nHealthy,A row of {}."),
        ("json", '[{{"title": "Healthy", "text": "A row of {}."}}]'),
        ("jsonl", '{{"title": "Healthy", "text": "A row of {}."}}'),
    ):
        (tmp_path / kind / f"healthy.{kind}").write_text(row.format(kind), encoding="utf-8")
    data = DataDir(tmp_path / "data")
    promise = (
        f"read, or rejected with its reason; healthy neighbours published; less than {GROWTH_MIB} MiB more in all "
        "processes; bounded processor time"
    )
    with tallied("Bombs as files", promise, 150) as tally, without_children(), Usage() as usage:
        report = carry_out(Run(load_declaration(str(_declared(tmp_path)), ""), data))
        close_reader()
        assert report["version"], report
        rejects = [
            json.loads(line)
            for line in (data.processed("kb") / "rejects.jsonl").read_text(encoding="utf-8").splitlines()
        ]
        documents = read_table(data.processed("kb") / DOCUMENTS, ["url", "text"]).to_pylist()
        records = read_table(data.processed("kb") / RECORDS, ["url"]).column(0).to_pylist()
        duplicates = [
            json.loads(line)
            for line in (data.processed("kb") / "duplicates.jsonl").read_text(encoding="utf-8").splitlines()
        ]
        failures = [failure for source in report["sources"] for failure in source["failures"]]
        reasons = {failure["url"].partition("#")[0]: failure["reason"] for failure in [*failures, *rejects]}
        known = {
            url.partition("#")[0]
            for url in [*reasons, *records, *(document["url"] for document in [*documents, *duplicates])]
        }
        for name, size in names.items():
            is_told = name in known and reasons.get(name, "read") != ""
            tally.note(f"{name}, {size} bytes", None if is_told else "nobody says what became of it")
        for document in documents:
            tally.note(f"{document['url']} as read", held=len(document["text"]) < _LONGEST)
        read = {document["url"].partition("#")[0] for document in documents}
        for name in sorted(healthy):
            tally.note(name, None if name in read else f"not published: {reasons.get(name)}")
        for kind in ("csv", "json", "jsonl"):
            tally.note(f"healthy.{kind}", held=any(url.startswith(f"healthy.{kind}") for url in records))
        tally.note("memory", None if usage.growth_mib < GROWTH_MIB else f"{usage.growth_mib} MiB more")
        tally.note("processor time", None if usage.seconds < _EACH_S * len(names) else f"{usage.seconds:.0f} s")
