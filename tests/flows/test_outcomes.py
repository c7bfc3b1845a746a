"""How runs end, and that what they leave is whole: changed fields, refusals, kept versions, kills, damage."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from almanac.spiders.store.raw import RawStore
from tests.conftest import PATIENCE_S, ROOT, Almanac, Finished
from tests.processes import carrying
from tests.proof.base import LONG

if TYPE_CHECKING:
    from tests.spiders.conftest import Site

pytestmark = pytest.mark.slow

_DECLARATION = """
name: small
sources:
  - name: rows
    kind: files
    glob: rows.jsonl
    yields: records
    id: "{id}"
    fields: {id: {json: id, required: true}, text: {json: text, required: true}, note: {json: note}, source: {json: source}}
    text: "{text}"
    metadata: [id]
validate: {max_rejected: 30%}
"""  # noqa: E501


def _rows(folder: Path, *rows: dict[str, Any] | str) -> str:
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    (folder / "rows.jsonl").write_text("".join(f"{line}\n" for line in lines))
    path = folder / "small.yaml"
    path.write_text(_DECLARATION)
    return str(path)


def _row(number: int, **more: Any) -> dict[str, Any]:
    return {"id": number, "text": f"Row number {number} tells of something else.", **more}


def _records(almanac: Almanac, declared: str, *arguments: str) -> dict[str, dict[str, Any]]:
    lines = almanac("export", declared, "records", *arguments).stdout.splitlines()
    return {row["document_id"]: row for row in map(json.loads, lines)}


def _accounts(done: Finished) -> None:
    items = done.json["items"]
    assert items["in"] == sum(
        items[name] for name in ("added", "changed", "moved", "unchanged", "deduplicated", "quarantined")
    )


def test_a_change_in_any_field_is_published_and_what_is_told_adds_up(almanac: Almanac, tmp_path: Path) -> None:
    bad_lines = ["not json", '{"id": 9}', '{"id": 8, "text": "half a pair \\ud800 here"}']
    declared = _rows(tmp_path, *(_row(n, source="wiki") for n in range(8)), _row(0, source="wiki"), *bad_lines)
    first = almanac("run", declared, "--json", "--rejects-ok")
    assert (first.code, first.json["outcome"]) == (0, "published_with_rejects")
    assert (first.json["items"]["in"], first.json["items"]["deduplicated"], first.json["items"]["quarantined"]) == (
        12,
        1,
        2,
    )
    _accounts(first)
    records = _records(almanac, declared)
    assert (records["0"]["source"], records["0"]["fields.source"]) == ("rows", "wiki")
    assert records["8"]["text"] == "half a pair \ufffd here"

    declared = _rows(
        tmp_path, *(_row(n, source="wiki") for n in range(1, 8)), _row(0, source="wiki", note="new"), *bad_lines
    )
    second = almanac("run", declared, "--json", "--rejects-ok")
    assert (second.json["outcome"], second.json["version"], second.json["items"]["changed"]) == (
        "published_with_rejects",
        "v0002",
        1,
    )
    assert second.json["chunks"]["embedded"] == 0
    assert _records(almanac, declared)["0"]["note"] == "new"
    _accounts(second)

    third = almanac("run", declared, "--json")
    assert (third.code, third.json["outcome"], third.json["version"]) == (0, "unchanged", "v0002")
    _accounts(third)


def test_versions_are_kept_published_and_rolled_back_as_told(almanac: Almanac, tmp_path: Path) -> None:
    declared = _rows(tmp_path, *(_row(n) for n in range(10)))
    unpublished = almanac("run", declared, "--no-publish", "--json")
    assert (unpublished.code, unpublished.json["outcome"], unpublished.json["version"]) == (0, "kept", "v0001")
    assert almanac("versions", declared, "--json").json["current"] is None
    assert almanac("publish", declared, "v0001", "--json").json == {"kb": "small", "current": "v0001", "previous": None}
    _rows(tmp_path, *(_row(n) for n in range(11)))
    assert almanac("run", declared, "--json").json["version"] == "v0002"
    assert almanac("rollback", declared, "--json").json["current"] == "v0001"
    pinned = almanac("search", declared, "Row number 10", "-k", "20", "--version", "v0002", "--json").json
    live = almanac("search", declared, "Row number 10", "-k", "20", "--json").json
    assert (pinned["version"], len(pinned["hits"]), live["version"], len(live["hits"])) == ("v0002", 11, "v0001", 10)
    assert almanac("rollback", declared, "--json").json["error"]["kind"] == "not_found"

    # Half of the rows are gone: refused, kept, and refused again without another version.
    _rows(tmp_path, *(_row(n) for n in range(5)))
    for _ in range(2):
        refused = almanac("run", declared, "--json")
        assert (refused.code, refused.json["outcome"], refused.json["version"]) == (4, "gate_refused", "v0003")
        assert [c["name"] for c in refused.json["gate"]["checks"] if not c["ok"]] == ["max_lost"]
    assert len(almanac("versions", declared, "--json").json["versions"]) == 3
    assert almanac("search", declared, "Row number 9", "--json").json["version"] == "v0001"


def test_a_damaged_live_version_is_found_and_the_next_run_replaces_it(almanac: Almanac, tmp_path: Path) -> None:
    declared = _rows(tmp_path, *(_row(n) for n in range(4)))
    assert almanac("run", declared, "--json").code == 0
    table = almanac.data / "index/small/versions/v0001/records.parquet"
    table.write_bytes(table.read_bytes()[:-20])
    verified = almanac("verify", declared, "--json")
    assert (verified.code, verified.json["ok"], verified.json["problems"][0]["kind"]) == (7, False, "file_altered")
    exported = almanac("export", declared, "records")
    assert (exported.code, "Traceback" in exported.stderr) == (7, False)
    assert almanac("run", declared, "--json").json["version"] == "v0002"
    assert almanac("verify", declared, "--json").json["ok"]


def _start(almanac: Almanac, declared: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, **almanac.environment, "ALMANAC_DATA": str(almanac.data)}
    command = [sys.executable, "-m", "almanac.cli.main", "run", declared, "--json"]
    # Tests that run in the background of a shell have SIGINT ignored, and so would what they start.
    heeds_ctrl_c: Callable[[], Any] = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, start_new_session=True, preexec_fn=heeds_ctrl_c, **pipes
    )


def _until(happened: Callable[[], Any], process: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert process.poll() is None, "the run ended before it was stopped"
        assert time.monotonic() < deadline, "it did not come in time"
        time.sleep(0.05)


@LONG
def test_a_killed_run_leaves_nothing_half_built_and_the_next_ends_as_if_never_killed(
    almanac: Almanac, tmp_path: Path
) -> None:
    """Killed once a checkpoint is written, and once while the version is built: vectors are kept, directories are
    not.
    """
    declared = _rows(tmp_path, *(_row(n) for n in range(620)))
    process = _start(almanac, declared)
    _until(lambda: list((almanac.data / "vectors").glob("*/*.parquet")), process)
    assert almanac("run", declared, "--json").code == 6
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert almanac("status", declared, "--json").json["running"] is None

    process = _start(almanac, declared)
    _until(lambda: (almanac.data / "index/small/versions/v0001/chroma").exists(), process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert almanac("versions", declared, "--json").json["versions"] == []

    done = almanac("run", declared, "--json")
    assert (done.json["outcome"], done.json["version"], done.json["chunks"]["embedded"]) == ("published", "v0001", 0)
    other = Almanac(tmp_path / "other", almanac.environment)
    # that they are the same is not what this is about
    shutil.copytree(almanac.data / "vectors", other.data / "vectors")
    assert other("run", declared, "--json").code == 0
    digests = {a("versions", declared, "--json").json["versions"][0]["digest"] for a in (almanac, other)}
    assert len(digests) == 1


def _site(folder: Path, site: "Site", pages: int) -> str:
    """A declaration of a slow site: a start page, and so many pages that it leads to, each a record."""
    site.page("/", "".join(f"<a href='/{n}'>{n}</a>" for n in range(pages)))
    for n in range(pages):
        site.page(f"/{n}", f"<h1>Page {n}</h1><p>It tells of subject number {n} and of no other.</p>", delay_s=0.1)
    path = folder / "slow.yaml"
    path.write_text(f"""
name: slow
sources:
  - name: pages
    kind: site
    start_urls: ["{site.base}/"]
    match: '/[0-9]+$'
    yields: records
    fields: {{name: {{css: h1, required: true}}, text: {{css: p, required: true}}}}
    text: "{{name}}. {{text}}"
    politeness: {{allow_private: true, per_domain: 2}}
""")
    return str(path)


@LONG
def test_a_run_killed_while_it_crawls_asks_for_no_page_twice_and_ends_as_if_never_killed(
    almanac: Almanac, tmp_path: Path, loopback_site: "Site"
) -> None:
    site, raw = loopback_site, RawStore(almanac.data / "raw/slow/pages")
    declared = _site(tmp_path, site, pages=60)

    def stored() -> set[str]:
        return {page.url.removeprefix(site.base) for run_id in raw.crawls() for page in raw.pages(run_id)}

    process = _start(almanac, declared)
    _until(lambda: len(stored()) > 20, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    _until_still(lambda: site.requests.total())
    had = stored()
    assert 20 < len(had) < 61
    site.requests.clear()
    for answer in site.answers.values():
        answer.delay_s = 0.0

    done = almanac("run", declared, "--json").json
    assert (done["outcome"], done["version"], done["pages"]["fetched"], done["items"]["added"]) == (
        "published",
        "v0001",
        61,
        60,
    )
    assert site.requests.keys() - {"/robots.txt"} == {"/", *(f"/{n}" for n in range(60))} - had
    other = Almanac(tmp_path / "other", almanac.environment)
    assert other("run", declared, "--json").code == 0
    digests = {a("versions", declared, "--json").json["versions"][0]["digest"] for a in (almanac, other)}
    assert len(digests) == 1


def test_a_site_that_wants_other_credentials_ends_a_run_as_such_and_the_report_names_the_page(
    almanac: Almanac, tmp_path: Path, loopback_site: "Site"
) -> None:
    declared = _site(tmp_path, loopback_site, pages=1)
    loopback_site.page("/", status=401)
    done = almanac("run", declared, "--json")
    assert (done.code, done.json["error"]["kind"]) == (7, "credential_refused")
    (report,) = (json.loads(path.read_text()) for path in (almanac.data / "processed/slow/runs").glob("*-??????.json"))
    assert report["pages"]["failed"] == 1
    assert [(failure["url"], failure["status"]) for failure in report["sources"][0]["failures"]] == [
        (f"{loopback_site.base}/", 401)
    ]


def test_a_run_of_one_page_warns_of_pages_that_failed_and_of_none_that_it_did_not_ask_for(
    almanac: Almanac, tmp_path: Path, loopback_site: "Site"
) -> None:
    declared = _site(tmp_path, loopback_site, pages=3)
    assert almanac("run", declared).code == 0
    page_run = almanac("run", declared, "--source", "pages", "--url", f"{loopback_site.base}/1")
    assert page_run.code == 0 and "WARNING" not in page_run.stderr and "pages=3" in page_run.stderr, page_run.stderr
    loopback_site.page("/1", status=500)
    failed = almanac("run", declared)
    assert "WARNING pages that this crawl did not get are kept as they were failed=1" in failed.stderr, failed.stderr


def _until_still(count: Callable[[], int]) -> None:
    """Waits until a count has not moved for a second."""
    before, since = count(), time.monotonic()
    while time.monotonic() - since < 1:
        time.sleep(0.05)
        if (now := count()) != before:
            before, since = now, time.monotonic()


def test_ctrl_c_is_quick_says_so_and_leaves_no_child(almanac_alone: Almanac, tmp_path: Path) -> None:
    declared = _rows(tmp_path, *(_row(n) for n in range(3000)))
    process = _start(almanac_alone, declared)
    _until(lambda: (almanac_alone.data / "processed/small/chunks.parquet").exists(), process)
    interrupted_at = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert time.monotonic() - interrupted_at < 30  # a hang, not a speed, is what this is about
    assert json.loads(out)["error"]["kind"] == "interrupted"
    assert "interrupted" in err
    assert "Traceback" not in err
    assert carrying(f"ALMANAC_DATA={almanac_alone.data}\0") == []
    assert almanac_alone("status", declared, "--json").json["last_run"]["exit_code"] == 130


def test_a_live_database_that_somebody_altered_costs_a_build_in_full_and_no_run(
    almanac: Almanac, tmp_path: Path
) -> None:
    """A difference is made from a copy: what is wrong with the one is wrong with the other, and the verifier says
    so.
    """
    declared = _rows(tmp_path, *(_row(n) for n in range(700)))
    assert almanac("run", declared, "--json").code == 0
    live = almanac.data / "index/small/versions/v0001/chroma/chroma.sqlite3"
    with closing(sqlite3.connect(live)) as database, database:
        database.execute("UPDATE embedding_metadata SET string_value = 'altered' WHERE key = 'document_id'")
    _rows(tmp_path, *(_row(n) for n in range(1, 700)))
    done = almanac("run", declared, "--json")
    assert (done.code, done.json["version"], done.json["items"]["removed"]) == (0, "v0002", 1)
    manifest = json.loads((almanac.data / "index/small/versions/v0002/manifest.json").read_text())
    assert manifest["lineage"]["build"]["kind"] == "full"
    assert almanac("verify", declared, "--json").json["ok"]
