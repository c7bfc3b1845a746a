"""Whole runs that embed by API, against a server of ours on loopback: what they cost, what they leave out, what they
never write down.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.flows.pipeline.plan import plan
from almanac.flows.pipeline.run import Run
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import CredentialRefused, GateRefused, NoRecords
from tests.flows.commands import carry_out
from tests.index.making import without_children
from tests.loopback.faults import POISON
from tests.loopback.mistral import LoopbackMistral

pytestmark = pytest.mark.slow  # whole runs

KEY = "sk-loopback-1234567890"
_DECLARATION = """
name: small
sources:
  - name: notes
    kind: files
    glob: notes.jsonl
    yields: documents
    id: "{id}"
    fields: {id: {json: id, required: true}, text: {json: text, required: true}}
    body: "{text}"
validate: {max_rejected: 50%}
gate: {max_lost: null}
chunk: {by: paragraphs, size: 60, overlap: 0}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackMistral]:
    with LoopbackMistral(dimension=16) as serving:
        yield serving


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: LoopbackMistral) -> Iterator[None]:
    monkeypatch.setenv("MISTRAL_API_KEY", KEY)
    monkeypatch.setenv("ALMANAC_DATA", str(tmp_path / "data"))
    server.strike(None)
    with without_children():
        yield


def note(number: int, *more: str) -> dict[str, Any]:
    return {"id": f"n{number}", "text": "\n\n".join([f"Note {number} tells of something else.", *more])}


class Base:
    """A knowledge base of a few notes, and runs of it without Prefect."""

    def __init__(self, folder: Path, server: LoopbackMistral) -> None:
        self.folder = folder
        self.server = server
        self.data = DataDir(folder / "data")

    def declared(self, **embed: Any) -> Declaration:
        made = {"provider": "mistral", "server_url": self.server.url, "dimension": 16, **embed}
        path = self.folder / "small.yaml"
        path.write_text(f"{_DECLARATION}embed: {json.dumps(made)}\n")
        return load_declaration(str(path))

    def write(self, *notes: dict[str, Any]) -> None:
        (self.folder / "notes.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in notes))

    def run(self, **embed: Any) -> dict[str, Any]:
        report = carry_out(Run(self.declared(**embed), self.data))
        items = report["items"]
        assert items["in"] == sum(
            items[name] for name in ("added", "changed", "moved", "unchanged", "deduplicated", "quarantined")
        )
        return report

    @property
    def rejects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.data.processed("small") / "rejects.jsonl").read_text().splitlines()]


@pytest.fixture
def base(tmp_path: Path, server: LoopbackMistral) -> Base:
    return Base(tmp_path, server)


def test_run_tells_tokens_and_cost_as_billed_and_the_next_one_pays_nothing(base: Base) -> None:
    base.write(*map(note, range(30)))
    report = base.run(price_per_million=0.1)
    assert report["outcome"] == "published"
    tokens = report["chunks"]["tokens"]
    assert tokens == sum(1 + len(text) // 4 for request in base.server.requests for text in request["input"])
    assert report["chunks"]["cost"] == pytest.approx(tokens / 1e7)
    base.server.strike(None)
    assert base.run(price_per_million=0.1)["outcome"] == "unchanged"
    assert base.server.requests == []
    written = [path for path in base.folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert written == []


def test_plan_tells_the_cost_and_a_run_above_the_limit_embeds_nothing(base: Base) -> None:
    base.write(*map(note, range(30)))
    cheap = plan(base.declared(price_per_million=1000, max_cost=5), base.data)
    assert cheap.tokens is not None
    assert cheap.cost == cheap.tokens / 1000 < 5
    assert cheap.outcome == "published"
    dear = plan(base.declared(price_per_million=1000, max_cost=0.01), base.data)
    assert dear.outcome == "gate_refused"
    assert dear.gate["would_refuse"]
    assert dear.gate["checks"][-1] == {"name": "max_cost", "value": dear.cost, "limit": 0.01, "ok": False}
    with pytest.raises(GateRefused, match=r"max_cost is 0\.01") as raised:
        base.run(price_per_million=1000, max_cost=0.01)
    assert raised.value.exit_code == 4
    assert raised.value.report is not None
    assert (raised.value.report["outcome"], raised.value.report["exit_code"], raised.value.report["version"]) == (
        "gate_refused",
        4,
        None,
    )
    assert base.server.requests == []
    assert base.run(price_per_million=1000, max_cost=5)["outcome"] == "published"


@pytest.mark.parametrize("fault", ["400_poison", "nan_poison"])
def test_item_of_which_a_text_is_refused_is_quarantined_whole(base: Base, fault: str) -> None:
    notes = [
        note(number, "A second paragraph that is long enough for a chunk.", f"{POISON} third")
        if number == 7
        else note(number)
        for number in range(20)
    ]
    base.write(*notes)
    base.server.strike(fault)
    report = base.run()
    assert (report["outcome"], report["exit_code"]) == ("published_with_rejects", 5)
    assert (report["items"]["added"], report["items"]["quarantined"], report["items"]["in"]) == (19, 1, 20)
    assert report["chunks"]["total"] == 19
    [reject] = base.rejects
    assert (reject["document_id"], reject["stage"]) == ("n7", "embed")
    assert reject["reason"]
    # Nothing is asked again as long as nothing changes; when something else does, the version stays where it is.
    base.server.strike(fault)
    again = base.run()
    assert (again["outcome"], again["items"]["quarantined"], again["version"]) == ("unchanged", 1, report["version"])
    assert base.server.requests == []
    base.write(*notes[::-1])
    reordered = base.run()
    assert (reordered["outcome"], reordered["items"]["quarantined"], reordered["version"]) == (
        "unchanged",
        1,
        report["version"],
    )
    # A text that is mended comes in.
    base.write(*(note(7) if row["id"] == "n7" else row for row in notes))
    mended = base.run()
    assert (mended["outcome"], mended["items"]["added"], mended["items"]["quarantined"]) == ("published", 1, 0)
    assert base.rejects == []


def test_item_that_is_refused_after_a_change_leaves_the_version(base: Base) -> None:
    base.write(*map(note, range(20)))
    base.run()
    base.server.strike("400_poison")
    base.write(*(note(number, POISON) if number == 3 else note(number) for number in range(20)))
    report = base.run()
    assert report["outcome"] == "published_with_rejects"
    assert (report["items"]["unchanged"], report["items"]["quarantined"], report["items"]["removed"]) == (19, 1, 1)


def test_too_many_refused_items_are_for_the_gate_to_judge(base: Base) -> None:
    base.write(*(note(number, POISON) if number % 3 else note(number) for number in range(20)))
    base.server.strike("400_poison")
    report = base.run()
    assert (report["outcome"], report["exit_code"], report["items"]["quarantined"]) == ("gate_refused", 4, 13)


def test_nothing_is_published_where_every_item_is_refused(base: Base) -> None:
    base.write(*(note(number, POISON) for number in range(5)))
    base.server.strike("400_poison")
    report = base.run()
    assert (report["outcome"], report["exit_code"], report["items"]["quarantined"]) == (
        "no_records",
        NoRecords.exit_code,
        5,
    )


def test_run_without_a_key_says_so_and_leaves_the_live_version(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    base.write(*map(note, range(5)))
    base.run()
    monkeypatch.delenv("MISTRAL_API_KEY")
    assert base.run()["outcome"] == "unchanged", "where nothing is embedded, no key is needed"
    base.write(*map(note, range(6)))
    with pytest.raises(CredentialRefused, match="there is no key") as raised:
        base.run()
    assert raised.value.exit_code == 7
    assert "MISTRAL_API_KEY" in str(raised.value)
