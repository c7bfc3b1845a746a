"""Prefect goes away in the middle of a run, or hangs: the run goes on without it, and ends as it would have ended. One
that Prefect does not take ends at once.
"""

import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from almanac.core.load import load_declaration
from almanac.flows import availability
from almanac.flows.limits import embedding_slot
from almanac.flows.server import prefect_api as api
from almanac.schemas.errors import PrefectGone
from tests.conftest import PATIENCE_S
from tests.flows.commands import Commands
from tests.processes import carrying, children_of, command_line
from tests.proof.base import LONG


def _api_of(process: int) -> int:
    return next(child for child in children_of(process) if "server start" in command_line(child))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "moment"),
    [
        pytest.param(signal.SIGKILL, "index/many/LOCK", id="killed as the run begins"),
        pytest.param(signal.SIGSTOP, "vectors/*/*.parquet", id="stopped as it embeds", marks=LONG),
    ],
)
def test_a_run_goes_on_without_its_api(commands: Commands, kind: signal.Signals, moment: str) -> None:
    process = commands.start(PREFECT_API_REQUEST_TIMEOUT="2")
    commands.when(moment, process)
    struck = _api_of(process.pid)
    os.kill(struck, kind)
    err = commands.require_ended_well(process)
    assert err.count("Prefect does not answer: the run goes on without it") == 1
    assert carrying(f"ALMANAC_DATA={commands.data.root}\0") == []
    assert command_line(struck) == ""


@contextmanager
def _answering(status: int) -> Iterator[str]:
    """The URL of an API that answers everything with one status, but for its health."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(200 if self.path.endswith("/health") else status)
            self.end_headers()

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/api"
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_a_run_that_prefect_does_not_take_ends_as_such(commands: Commands) -> None:
    """Its disk is full, or its database locked for good: it answers that it failed."""
    with _answering(500) as url:
        process = commands.start(PREFECT_API_URL=url)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, json.loads(out)["error"]["kind"]) == (7, "prefect_gone"), err
    assert commands.last_report() is None
    assert commands.run_here()["outcome"] == "published_with_rejects"


def _silent() -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"http://127.0.0.1:{taken.getsockname()[1]}/api"


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Asks an API at a URL, as Prefect's client does in a command, but once."""
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    monkeypatch.setattr(availability, "_absence", availability._Absence())

    def answer(url: str) -> Any:
        with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}), SyncPrefectClient(url) as client:
            return client.hello()

    return lambda url: availability.tell_prefect("anything", answer, url)


def test_after_a_request_without_an_answer_none_is_sent_for_a_while(
    ask: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings = list[str]()  # where a process has configured its logs otherwise, they are not to be seen on its streams
    monkeypatch.setattr(availability, "_log", SimpleNamespace(warning=lambda message, **_: warnings.append(message)))
    assert ask(_silent()) is None
    assert availability.is_prefect_gone()
    with _answering(200) as url:
        assert ask(url) is None
        monkeypatch.setattr(availability._absence, "until", 0.0)
        assert ask(url).status_code == 200
    assert not availability.is_prefect_gone()
    assert warnings == ["Prefect does not answer: the run goes on without it"]


@pytest.mark.parametrize(("status", "is_gone"), [(500, True), (409, False)])
def test_a_refusal_is_an_answer_and_a_failure_is_none(ask: Callable[[str], Any], status: int, is_gone: bool) -> None:
    with _answering(status) as url:
        assert ask(url) is None
    assert availability.is_prefect_gone() == is_gone


@pytest.mark.usefixtures("ask")
def test_without_prefect_nothing_counts_who_embeds_and_embedding_goes_on(tmp_path: Path) -> None:
    from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    path = tmp_path / "small.yaml"
    path.write_text(
        'name: small\nsources: [{name: notes, kind: files, glob: "*.txt", yields: documents}]\nembed: {provider: '
        "mistral, dimension: 16}\n"
    )
    with (
        temporary_settings({PREFECT_API_URL: _silent(), PREFECT_CLIENT_MAX_RETRIES: 0}),
        pytest.raises(ZeroDivisionError),  # what ends the run is not lost over giving the slot back
        embedding_slot(load_declaration(str(path), "")),
    ):
        raise ZeroDivisionError
    assert availability.is_prefect_gone()


def test_a_server_that_never_answered_is_an_error_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "_REPLY_TIMEOUT_S", 0)
    with pytest.raises(PrefectGone, match="nothing answers at PREFECT_API_URL") as raised:
        api._require_reply(_silent())
    assert raised.value.exit_code == 7
    with _answering(500) as url:
        api._require_reply(url.replace("/api", "/elsewhere"))  # it wants a key, or is a cloud: somebody is there
