"""What is published while questions are asked, and a server that is ended while it answers."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx
import pytest

from almanac.core.given_up import GivenUp, unless
from almanac.core.settings import DataDir
from almanac.schemas.errors import NotFound, NothingPublished, UsageError
from almanac.serve.catalog import _LOOK_S, Catalog
from tests.conftest import ROOT, Almanac
from tests.loopback.mistral import LoopbackMistral
from tests.serve.conftest import NOTES, Bases, serve_bases

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("serve")]  # in order: what one publishes, the next asks
QUESTION = {"message": "When does the garden close in winter?", "kb": "notes"}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, mistral: LoopbackMistral) -> Bases:
    """A data directory in which versions come and go."""
    own = Bases(tmp_path_factory.mktemp("publications"), mistral)
    own.publish(own.notes)
    return own


def test_a_publication_is_read_at_once_and_costs_no_request(own: Bases) -> None:
    """Eight clients ask without a pause; each answer is of the old version or the new one, and none of the old after
    one of the new has begun.
    """
    own.write([*NOTES, ("Parrots", "blue", "Parrots live in the aviary.")])
    answers: list[tuple[float, float, int, str]] = []
    is_over = threading.Event()

    with serve_bases(own, names=[own.notes]) as client:

        def ask() -> None:
            while not is_over.is_set():
                begun = time.monotonic()
                response = client.post("/api/chat", json=QUESTION)
                answers.append(
                    (begun, time.monotonic(), response.status_code, response.json().get("version", response.text))
                )

        with ThreadPoolExecutor(8) as pool:
            futures = [pool.submit(ask) for _ in range(8)]
            published, until = own.publish(own.notes), time.monotonic() + 20
            while all(version != published for *_, version in answers) and time.monotonic() < until:
                time.sleep(0.05)
            is_over.set()
            for future in futures:
                future.result()
        assert client.post("/api/chat", json=QUESTION).json()["version"] == published

    assert {status for _, _, status, _ in answers} == {200}
    assert {version for *_, version in answers} == {"v0001", published}
    first_new = min(end for _, end, _, version in answers if version == published)
    assert not [begun for begun, _, _, version in answers if version != published and begun > first_new]


def test_a_base_that_is_published_later_can_be_asked_then(own: Bases) -> None:
    with serve_bases(own) as client:
        assert [base["kb"] for base in client.get("/api/kbs").json()["items"]] == ["notes"]
        assert client.post("/api/chat", json={"message": "a", "kb": "guide"}).status_code == 404
        own.publish(own.guide)
        assert [base["kb"] for base in client.get("/api/kbs").json()["items"]] == ["guide", "notes"]
        assert client.post("/api/chat", json={"message": "When do boats leave?", "kb": "guide"}).status_code == 200


def test_a_catalog_knows_names_collections_and_what_to_ask_by_default(own: Bases) -> None:
    catalog = Catalog(DataDir(own.data), [own.notes, own.guide])
    assert catalog.names() == ["guide", "notes"]
    assert catalog.index("notes") is catalog.index(own.notes)
    with pytest.raises(UsageError, match="2 knowledge bases are published") as refused:
        catalog.default()
    assert refused.value.hint == "one of guide, notes"
    assert Catalog(DataDir(own.data), [own.notes]).default() == "notes"
    with pytest.raises(NotFound, match="no knowledge base 'none'"):
        catalog.index("none")
    with pytest.raises(NothingPublished):
        Catalog(DataDir(own.folder / "empty"), [own.notes]).default()
    catalog.close()


def test_a_base_is_no_less_ready_because_nobody_waits_until_it_is_warm(
    own: Bases, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, reported = Catalog(DataDir(own.data), [own.notes]), list[str]()
    monkeypatch.setattr(catalog, "_tell", lambda kb, _: reported.append(kb))
    with unless(lambda: True), pytest.raises(GivenUp):
        catalog.keep_up()
    assert not reported
    assert catalog.keep_up() == ["notes"]
    catalog.close()


def test_a_declaration_that_breaks_is_read_as_it_was(own: Bases) -> None:
    catalog = Catalog(DataDir(own.data), [own.notes])
    index, text = catalog.index("notes"), Path(own.notes).read_text()
    Path(own.notes).write_text("name: [")
    time.sleep(_LOOK_S)
    assert catalog.index("notes") is index
    assert catalog._declared[index.declaration.path].error is not None
    Path(own.notes).write_text(text.replace("The notes", "Other notes"))
    time.sleep(_LOOK_S)
    assert catalog.index("notes").declaration.title == "Other notes"
    Path(own.notes).write_text(text)
    catalog.close()


@pytest.fixture
def process(own: Bases, mistral: LoopbackMistral) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """`almanac serve` as a shell starts it, and its address."""
    command = [
        sys.executable,
        "-m",
        "almanac.cli.main",
        "serve",
        "--kb",
        own.guide,
        "--port",
        "0",
        "--data",
        str(own.data),
    ]
    # which `nohup` around the tests would have children ignore
    heed = partial(signal.signal, signal.SIGHUP, signal.SIG_DFL)
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=dict(os.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed,
    ) as started:
        assert started.stdout is not None
        address = started.stdout.readline().split()[-1]
        yield started, address
        mistral.strike(None)
        started.kill()


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGHUP], ids=["SIGTERM", "SIGHUP"])
def test_a_server_that_is_told_to_end_finishes_what_it_answers(
    process: tuple["subprocess.Popen[str]", str], mistral: LoopbackMistral, kind: signal.Signals
) -> None:
    started, address = process
    with httpx.Client(base_url=address, timeout=30, trust_env=False) as client, ThreadPoolExecutor(1) as pool:
        assert client.get("/health").status_code == 200
        while client.get("/ready").status_code != 200:
            time.sleep(0.05)
        mistral.strike("late")
        answer = pool.submit(client.post, "/api/chat", json={"message": "When do boats leave?"})
        while "in_flight 1.0" not in httpx.get(f"{address}metrics").text:
            time.sleep(0.02)
        started.send_signal(kind)
        assert answer.result().json()["answered"] is True
        assert started.wait(10) == 0
        with pytest.raises(httpx.ConnectError):
            client.get("/health")
    assert started.stderr is not None
    stderr = started.stderr.read()
    assert "Traceback" not in stderr
    assert "boats" not in stderr


def test_an_open_address_without_keys_is_no_command(tmp_path: Path) -> None:
    refused = Almanac(tmp_path, {}, fresh=True)("serve", "--host", "0.0.0.0", "--port", "0")
    assert (refused.code, "ALMANAC_API_KEYS" in refused.stderr) == (2, True)
