"""The chat page in a real Chromium, before published passages that are written against it."""

import json
import re
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import Browser, sync_playwright

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.flows.pipeline.run import Run
from almanac.serve.app import create_app
from almanac.serve.catalog import Catalog
from almanac.serve.server_settings import Settings
from tests.conftest import PATIENCE_S
from tests.flows.commands import carry_out
from tests.hardening.hostile_markup import Marked, marked_records
from tests.hardening.tally import some, tallied
from tests.index.making import without_children
from tests.loopback.mistral import LoopbackMistral
from tests.loopback.serving import running
from tests.serve.test_page import _CHROMIUM, _DESKTOP, _PHONE, _SWITCHES

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("hardening-markup")]
_SAMPLE = 4
_FIELDS = {name: {"json": name, "required": True} for name in ("title", "url", "maker", "text")}
# What the page has before anybody asked, and what must not be in it whatever was shown.
_OWN, _FOREIGN = (
    (Path(__file__).parent / name).read_text(encoding="utf-8") for name in ("own_parts.js", "foreign_parts.js")
)


class _Listener:
    """Counts connections to loopback."""

    def __init__(self) -> None:
        self.reached: list[str] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            connection.settimeout(1)
            with connection:
                try:
                    self.reached.append(connection.recv(200).decode("latin-1"))
                except OSError:
                    self.reached.append("a connection")

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@pytest.fixture(scope="module")
def listener() -> Iterator[_Listener]:
    made = _Listener()
    yield made
    made.close()


@pytest.fixture(scope="module")
def browser(listener: _Listener) -> Iterator[Browser]:
    """The names of hostile passages lead to the listener: so does what a browser looks up or connects to ahead of a
    request. No other leads anywhere.
    """
    if _CHROMIUM is None:
        pytest.skip("no Chromium on this machine: the chat page cannot be opened (Debian: apt-get install chromium)")
    rules = f"--host-resolver-rules=MAP *.example 127.0.0.1:{listener.port}, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=_CHROMIUM, args=[*_SWITCHES, rules])
        yield chromium
        chromium.close()


def _publish(folder: Path, mistral: LoopbackMistral, records: Sequence[Marked]) -> dict[str, str]:
    """Publishes the records as they are, uncleaned; a declaration that quotes from them, and one with a model."""
    (folder / "lamps.jsonl").write_text("\n".join(json.dumps(marked.record()) for marked in records), encoding="utf-8")
    source = {
        "name": "lamps",
        "kind": "files",
        "glob": "lamps.jsonl",
        "yields": "records",
        "title": "{title}",
        "fields": _FIELDS,
        "text": "{text}",
    }
    embed = {"provider": "mistral", "model": "of-words", "dimension": mistral.dimension, "server_url": mistral.url}
    declared = {
        "name": "lamps",
        "title": "Lamps",
        "sources": [{**source, "id": "{url}"}],
        "clean": "none",
        "embed": embed,
        "retrieve": {"k": 3, "floor": 0.05},
    }
    paths = {}
    for name, parts in {
        "quoted": {},
        "written": {"generate": {"provider": "mistral", "server_url": mistral.url, "links": True}},
    }.items():
        paths[name] = str(folder / f"{name}.yaml")
        Path(paths[name]).write_text(json.dumps({**declared, **parts}), encoding="utf-8")  # which is YAML
    with without_children():
        report = carry_out(Run(load_declaration(paths["quoted"]), DataDir(folder / "data")))
    assert report["outcome"] == "published", report
    return paths


@contextmanager
def _served(data: DataDir, path: str) -> Iterator[str]:
    catalog = Catalog(data, [path], default="lamps")
    with (
        closing(catalog),
        running(
            uvicorn.Config(create_app(catalog, Settings.read(rate_per_minute=10_000_000)), port=0, log_config=None)
        ) as address,
    ):
        yield address


class _Watched:
    """A page, and all that it did besides showing what it was asked to show."""

    def __init__(self, browser: Browser, address: str, viewport: Any) -> None:
        self.deeds: list[str] = []
        self._address = address
        self._context = browser.new_context(viewport=viewport)
        self._context.on("request", self._note_request)
        self.page = self._context.new_page()
        self.page.set_default_timeout(1000 * PATIENCE_S)
        self.page.on("dialog", self._dismiss)
        self.page.on("popup", lambda popup: self.deeds.append(f"window {popup.url}"))
        self.page.on("download", lambda download: self.deeds.append(f"download {download.url}"))
        self.page.on("websocket", lambda opened: self.deeds.append(f"websocket {opened.url}"))
        self.page.on("frameattached", lambda frame: self.deeds.append(f"frame {frame.url}"))
        self.page.on("pageerror", lambda error: self.deeds.append(f"error {error}"))
        self.page.on(
            "console",
            lambda message: (
                self.deeds.append(f"console {message.text}") if message.type in ("error", "warning") else None
            ),
        )
        self._own: Any = None
        self.open()

    def _dismiss(self, dialog: Any) -> None:
        self.deeds.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def _note_request(self, request: Any) -> None:
        if not request.url.startswith(f"{self._address}/"):
            self.deeds.append(f"request {request.url}")

    def open(self) -> None:
        self.page.goto(self._address)
        self.page.wait_for_selector("#kb:enabled")
        self._own = self._own or self.page.evaluate(_OWN)

    def foreign(self) -> list[str]:
        """What of the page's content is not its own."""
        foreign_parts: list[str] = self.page.evaluate(_FOREIGN, self._own)
        return foreign_parts

    def finding(self, marked: Marked) -> tuple[str | None, str]:
        """What is wrong once a question was answered and its first passage opened, and all text of that passage."""
        self.deeds.clear()
        foreign_parts = self._ask(f"{marked.question} {marked.markup}" if marked.place == "text" else marked.question)
        if not self._opened(marked.subject):
            foreign_parts += self._ask(marked.subject)
            if not self._opened(marked.subject):
                return f"its passage is not among those shown: {self.page.locator('.turn').inner_text()[:300]}", ""
        foreign_parts += self.foreign()
        shown = self.page.evaluate("document.getElementById('passage').textContent")
        self.page.keyboard.press("Escape")
        return "; ".join([*foreign_parts, *self.deeds]) or None, shown

    def _ask(self, question: str) -> list[str]:
        self.page.evaluate("document.getElementById('new-chat').click()")
        self.page.get_by_label("Your question").fill(question)
        self.page.get_by_label("Your question").press("Enter")
        self.page.wait_for_selector('.turn[data-state="done"], .turn[data-state="failed"]')
        return self.foreign()

    def _opened(self, subject: str) -> bool:
        """Whether the reply shows the passage of a subject, which is open then."""
        opener = self.page.locator(".turn .sources button, .turn .related .open")
        number = next((n for n, text in enumerate(opener.all_text_contents()) if subject in text), None)
        if number is not None:
            opener.nth(number).click()
            self.page.wait_for_selector("#passage[open]")
        return number is not None


def test_no_passage_becomes_a_part_of_the_page(
    tmp_path: Path, browser: Browser, listener: _Listener, mistral: LoopbackMistral
) -> None:
    """Quoted on a desktop, written by a model on a phone; each answered, and its passage opened."""
    records = some(marked_records(f"http://127.0.0.1:{listener.port}"), _SAMPLE)
    paths, as_text = _publish(tmp_path, mistral, records), 0
    data = DataDir(tmp_path / "data")
    promise = (
        "no request but to the server, no connection to a listener, no dialog, window or script, no element, "
        "attribute or id but the page's own"
    )
    with (
        _served(data, paths["quoted"]) as quoted,
        _served(data, paths["written"]) as written,
        tallied("The page in a browser", promise, 250) as tally,
    ):
        pages = [_Watched(browser, quoted, _DESKTOP), _Watched(browser, written, _PHONE)]
        for number, marked in enumerate(records):
            watched = pages[number % 2]
            finding, shown = watched.finding(marked)
            as_text += _letters(marked.markup) in _letters(shown)
            tally.note(
                f"{marked.place}: {marked.markup:.120}",
                finding or (f"reached: {listener.reached}" if listener.reached else None),
            )
            if number % 20 == 19:
                watched.open()  # what was shown is shown again, from the storage of the tab
                tally.fallen += watched.foreign()
        assert as_text > 0.9 * len(records), f"{as_text} of {len(records)} were shown as text"


def _letters(text: str) -> str:
    return re.sub(r"\W", "", text)
