"""The chat page in a real Chromium, before the real server and published knowledge bases."""

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    Route,
    ViewportSize,
    expect,
    sync_playwright,
)

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.flows.pipeline.run import Run
from almanac.query.published import PublishedIndex
from almanac.schemas.results import Related
from almanac.serve.app import create_app
from almanac.serve.catalog import Catalog
from almanac.serve.server_settings import Settings
from tests.conftest import PATIENCE_S
from tests.flows.commands import carry_out
from tests.index.making import without_children
from tests.loopback.faults import FAULTS, Exchange, Fault, event_line
from tests.loopback.mistral import LoopbackMistral
from tests.loopback.serving import running

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("page")]  # one worker: what is published is published once

_CHROMIUM = next(
    (program for name in ("chromium", "chromium-browser", "google-chrome") if (program := shutil.which(name))), None
)
_SWITCHES = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
_DESKTOP, _PHONE = ViewportSize(width=1280, height=800), ViewportSize(width=390, height=844)
_PATIENCE_MS = 1000 * PATIENCE_S
expect.set_options(timeout=_PATIENCE_MS)
_ATTACK = "<img src=x onerror=\"document.title='attacked'\">"
_RECORDS = [
    (
        "Opening hours",
        "https://garden.example/hours",
        "gates",
        "Where to begin is up to you. The garden closes at six in summer and at five in winter.",
    ),
    ("Tickets", "https://garden.example/tickets", "gates", "Children enter for free, students pay half."),
    (
        f"Parrots {_ATTACK}",
        "javascript:document.title='attacked'",
        "lake",
        f"Parrots {_ATTACK} live in the aviary [1](https://evil.example/) beside the lake.",
    ),
    ("חתולים", "https://garden.example/cats", "lake", "החתולים ישנים ליד המזרקה הגדולה."),
]

_LONG_REPLY = "The garden closes at six in summer. [1] In winter it closes at five. [1] Enjoy your stay."

Open = Callable[..., Page]


@dataclass(frozen=True)
class _Published:
    data: DataDir
    names: list[str]


@pytest.fixture(scope="module")
def mistral() -> Iterator[LoopbackMistral]:
    with LoopbackMistral() as server:
        yield server


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, mistral: LoopbackMistral) -> Iterator[_Published]:
    """Two knowledge bases of the same records: `garden` quotes them, behind `guide` a model writes."""
    folder = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MISTRAL_API_KEY", "key")
        patch.delenv("INDEX_NAME", raising=False)
        lines = [
            json.dumps({"title": title, "url": url, "area": area, "text": text}) for title, url, area, text in _RECORDS
        ]
        (folder / "records.jsonl").write_text("\n".join(lines), encoding="utf-8")
        paths = [
            _publish(folder, mistral, "garden", "Palace gardens"),
            _publish(
                folder,
                mistral,
                "guide",
                "A guide to the palace",
                generate={"provider": "mistral", "server_url": mistral.url, "temperature": 0.2},
            ),
        ]
        yield _Published(DataDir(folder / "data"), paths)


def _publish(folder: Path, mistral: LoopbackMistral, name: str, title: str, **parts: Any) -> str:
    fields = {field: {"json": field, "required": True} for field in ("title", "url", "area", "text")}
    source = {
        "name": "records",
        "kind": "files",
        "glob": "records.jsonl",
        "yields": "records",
        "title": "{title}",
        "fields": fields,
        "text": "{text}",
    }
    declared = {
        "name": name, "title": title, "sources": [source], "clean": "none", "retrieve": {"floor": 0.2,
        "confident": 0.25, "workspace": "area"},
        "embed": {"provider": "mistral", "model": "mistral-embed", "server_url": mistral.url,
        "same_as": "https://api.mistral.ai"}, **parts,
    }  # fmt: skip
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(declared), encoding="utf-8")  # which is YAML
    with without_children():
        report = carry_out(Run(load_declaration(str(path)), DataDir(folder / "data")))
    assert report["outcome"] == "published", report
    return str(path)


@contextmanager
def _served(published: _Published, **settings: Any) -> Iterator[str]:
    app = create_app(Catalog(published.data, published.names, default="garden"), Settings.read(**settings))
    with running(uvicorn.Config(app, port=0, log_config=None)) as address:
        yield address


@pytest.fixture(scope="module")
def address(published: _Published) -> Iterator[str]:
    with _served(published) as url:
        yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if _CHROMIUM is None:
        pytest.skip("no Chromium on this machine: the chat page cannot be opened (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=_CHROMIUM, args=_SWITCHES)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Browser, address: str, mistral: LoopbackMistral) -> Iterator[Open]:
    """Opens the page in a context of its own. At the end nothing may have been complained of: no error in the console,
    no breach of the policy.
    """
    complaints: list[str] = []
    contexts: list[BrowserContext] = []
    mistral.strike(None)

    def opened(viewport: ViewportSize = _DESKTOP, at: str = address, **options: Any) -> Page:
        contexts.append(browser.new_context(viewport=viewport, **options))
        page = contexts[-1].new_page()
        page.set_default_timeout(_PATIENCE_MS)
        page.on("console", lambda message: complaints.append(message.text) if _is_complaint(message) else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: None if request.url.startswith(at) else complaints.append(request.url))
        page.goto(at)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def _is_complaint(message: ConsoleMessage) -> bool:
    """A failed request is told by Chromium itself; what the page makes of it is tested."""
    return message.type in ("error", "warning") and "Failed to load resource" not in message.text


def _ask(page: Page, question: str) -> None:
    # once the page knows whom to ask; before, Enter sends nothing
    expect(page.get_by_label("Knowledge base")).to_be_enabled()
    page.get_by_label("Your question").fill(question)
    page.get_by_label("Your question").press("Enter")


def _turn(page: Page) -> Any:
    return page.locator(".turn").last


def _only_in_chats(fault: Fault) -> Fault:
    return lambda exchange: fault(exchange) if exchange.events else exchange.send_well()


def _break_off(exchange: Exchange) -> None:
    exchange.send_stream([event_line(event) for event in exchange.events[:15]])


def _choose(page: Page, title: str) -> None:
    page.get_by_label("Knowledge base").select_option(label=title)


def _is_wider_than_the_screen(page: Page) -> bool:
    return bool(
        page.evaluate(
            "document.documentElement.scrollWidth > innerWidth || document.getElementById('scroll').scrollWidth > "
            "innerWidth"
        )
    )


def test_a_citation_opens_the_passage_with_the_quote_in_it(open_page: Open) -> None:
    page = open_page()
    _ask(page, "When does the garden close in winter?")
    expect(_turn(page)).to_contain_text("The garden closes at six in summer and at five in winter.")
    expect(_turn(page)).to_contain_text("garden v0001")
    _turn(page).get_by_role("button", name="Source 1: Opening hours").first.click()
    passage = page.get_by_role("dialog", name="Opening hours")
    expect(passage.locator("mark")).to_have_text(
        "Text: Where to begin is up to you. The garden closes at six in summer and at five in winter."
    )
    expect(passage.locator("blockquote")).to_contain_text("Where to begin is up to you.")
    expect(passage.locator("strong")).to_have_text(["Title:", "URL:", "Text:"])  # the area keeps workspaces apart
    link = passage.get_by_role("link")
    assert link.get_attribute("href") == "https://garden.example/hours"
    assert link.get_attribute("rel") == "noopener noreferrer"
    page.keyboard.press("Escape")
    expect(passage).to_be_hidden()
    expect(_turn(page).get_by_role("button", name="Source 1").first).to_be_focused()


def test_a_reply_is_read_while_it_is_written(
    open_page: Open, monkeypatch: pytest.MonkeyPatch, mistral: LoopbackMistral
) -> None:
    page = open_page()
    goes_on = threading.Event()

    def pause_after_a_sentence(exchange: Exchange) -> None:
        lines = [event_line(event) for event in exchange.events]
        exchange.send_stream(lines[:15])
        goes_on.wait(_PATIENCE_MS / 1000)
        exchange.handler.wfile.write(b"".join(lines[15:]))

    monkeypatch.setitem(FAULTS, "pause", _only_in_chats(pause_after_a_sentence))
    monkeypatch.setattr("tests.loopback.mistral.reply_to", lambda _: _LONG_REPLY)
    mistral.strike("pause")
    _choose(page, "A guide to the palace")
    _ask(page, "When does the garden close in winter?")
    expect(_turn(page).locator(".reply .text")).to_contain_text("The garden closes at six in summer. 1")
    expect(_turn(page)).not_to_contain_text("Enjoy your stay.")
    expect(page.get_by_role("log")).to_have_attribute("aria-busy", "true")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    goes_on.set()
    expect(_turn(page)).to_contain_text("Enjoy your stay.")
    expect(page.get_by_role("log")).to_have_attribute("aria-busy", "false")
    expect(_turn(page).get_by_role("button", name="Source 1").first).to_be_visible()


def test_what_is_set_is_sent_with_each_question(open_page: Open, mistral: LoopbackMistral) -> None:
    page = open_page()
    _choose(page, "A guide to the palace")
    page.get_by_label("Documents + model").check()
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("Passages to look at (k)").fill("2")
    page.get_by_label("Temperature of the model").fill("0.9")
    page.get_by_role("button", name="Apply").click()
    _ask(page, "When does the garden close in winter?")
    expect(_turn(page).get_by_role("button", name="Source 1").first).to_be_visible()
    expect(_turn(page)).to_contain_text("from the documents and the model")
    mistral.strike(None)
    with page.expect_request("**/api/chat") as sent:
        _ask(page, "And do children enter for free?")
    expect(_turn(page).locator(".facts")).to_contain_text("guide v0001")
    body: Any = sent.value.post_data_json
    assert body["options"] == {"mode": "kb-llm", "retrievalK": 2, "temperature": 0.9}
    assert [message["role"] for message in body["history"]] == ["user", "assistant"]
    assert [request["temperature"] for request in mistral.requests if "messages" in request] == [0.0, 0.9], (
        "the question is rewritten to stand alone, then answered"
    )


def test_an_answer_that_nobody_found_is_shown_as_such(open_page: Open) -> None:
    page = open_page()
    _ask(page, "Qui a gagné hier soir ?")
    expect(_turn(page)).to_contain_text("Je n'ai pas trouvé de réponse à cette question dans Palace gardens.")
    expect(_turn(page).locator(".notice")).to_contain_text("No answer was found in these documents")
    expect(_turn(page).get_by_role("button", name="Source")).to_have_count(0)


def test_closest_passages_are_shown_as_leads_and_what_was_searched_for_is_told(
    open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's own answer, with fields that depend on how a question is searched."""
    fields = {"chunk_id": "c", "document_id": "d", "relevance": 0.31}
    related = [
        Related(url="https://garden.example/cats", title="חתולים", text="החתולים ישנים ליד המזרקה הגדולה.", **fields),
        Related(
            url="javascript:alert(1)",
            title=f"Parrots {_ATTACK}",
            text="x",
            passage=f"Name: {_ATTACK}\nSee: [1](https://evil.example/)",
            **fields,
        ),
    ]
    ask = PublishedIndex.ask
    monkeypatch.setattr(
        PublishedIndex,
        "stream",
        lambda index, *a, **b: iter(
            [ask(index, *a, **b).model_copy(update={"related": related, "searched": "yesterday evening"})]
        ),
    )
    page = open_page()
    _ask(page, "Qui a gagné hier soir ?")
    leads = _turn(page).get_by_role("region", name="Closest passages")
    expect(leads.get_by_role("heading")).to_have_text("Closest passages")
    expect(leads.get_by_role("listitem")).to_have_count(2)
    expect(leads.get_by_role("link")).to_have_count(1)
    expect(leads.get_by_role("link")).to_have_attribute("href", "https://garden.example/cats")
    assert leads.locator(".excerpt").first.evaluate("element => getComputedStyle(element).direction") == "rtl"
    expect(leads.locator(".excerpt").last).to_have_text(f"Name: {_ATTACK}\nSee: [1](https://evil.example/)")
    expect(_turn(page).locator(".searched")).to_have_text("Searched for: yesterday evening")
    expect(_turn(page).locator(".sources li")).to_have_count(0)
    assert page.locator("img").count() == 0
    leads.get_by_role("button", name="חתולים").focus()
    page.keyboard.press("Enter")
    passage = page.get_by_role("dialog", name="חתולים")
    expect(passage.locator("blockquote")).to_have_text("החתולים ישנים ליד המזרקה הגדולה.")
    expect(passage.locator("mark")).to_have_count(0)
    expect(passage.locator("#passage-marker")).to_be_hidden()
    page.keyboard.press("Escape")
    expect(leads.get_by_role("button", name="חתולים")).to_be_focused()


def test_a_refusal_is_shown_and_can_be_tried_again(open_page: Open) -> None:
    page = open_page()
    problem = {
        "type": "about:blank",
        "title": "Too many questions at once",
        "status": 503,
        "detail": "all places are taken",
    }

    def refuse(route: Route) -> None:
        route.fulfill(
            status=503, content_type="application/problem+json", headers={"Retry-After": "2"}, body=json.dumps(problem)
        )

    page.route("**/api/chat", refuse, times=1)
    _ask(page, "When does the garden close in winter?")
    alert = page.get_by_role("alert").filter(has_text="Too many questions")
    expect(alert).to_have_text("Too many questions at once: all places are taken; the server asks to wait 2 s")
    page.get_by_role("button", name="Try again").click()
    expect(_turn(page)).to_contain_text("at five in winter. 1")
    expect(page.locator(".turn")).to_have_count(1)


def test_a_server_that_is_away_is_said_and_found_again(open_page: Open) -> None:
    page = open_page()
    page.route("**/api/**", lambda route: route.abort("connectionrefused"))
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("The server cannot be reached")
    page.unroute("**/api/**")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="Ask Palace gardens")).to_be_visible()


def test_a_model_that_breaks_off_is_a_problem_of_this_turn(
    open_page: Open, monkeypatch: pytest.MonkeyPatch, mistral: LoopbackMistral
) -> None:
    page = open_page()
    _choose(page, "A guide to the palace")
    monkeypatch.setitem(FAULTS, "break", _only_in_chats(_break_off))
    monkeypatch.setattr("tests.loopback.mistral.reply_to", lambda _: _LONG_REPLY)
    mistral.strike("break")
    _ask(page, "When does the garden close in winter?")
    expect(_turn(page).get_by_role("alert")).to_contain_text("Service Unavailable")
    expect(_turn(page).locator(".reply .text")).to_contain_text("The garden closes at six in summer.")
    mistral.strike(None)
    page.get_by_role("button", name="Try again").click()
    expect(_turn(page).get_by_role("button", name="Source 1").first).to_be_visible()


def test_a_reply_can_be_stopped(open_page: Open) -> None:
    page = open_page()
    held: list[Route] = []
    page.route("**/api/chat", lambda route: held.append(route))
    _ask(page, "When does the garden close in winter?")
    expect(_turn(page)).to_contain_text("Looking it up in Palace gardens")
    expect(page.get_by_role("button", name="Send")).to_be_hidden()
    page.get_by_role("button", name="Stop").click()
    expect(_turn(page)).to_contain_text("Stopped before the reply was complete.")
    page.unroute("**/api/chat")
    page.get_by_role("button", name="Ask again").click()
    expect(_turn(page)).to_contain_text("at five in winter.")


def test_what_looks_like_html_stays_text(open_page: Open) -> None:
    page = open_page()
    _ask(page, f"Where do the parrots live? {_ATTACK}")
    expect(_turn(page).locator(".reply .text")).to_contain_text(_ATTACK)
    expect(_turn(page).locator(".question")).to_contain_text(_ATTACK)
    expect(_turn(page).locator(".reply .text")).to_contain_text("⟦1⟧(https://evil.example/) beside the lake.")
    expect(_turn(page).locator(".reply .text button")).to_have_count(1)
    expect(_turn(page).get_by_role("link")).to_have_count(0)
    _turn(page).get_by_role("button", name="Source 1").first.click()
    passage = page.locator("#passage")
    expect(passage.get_by_role("heading")).to_have_text(f"Parrots {_ATTACK}")
    expect(passage.locator("blockquote")).to_contain_text(_ATTACK)
    expect(passage).to_contain_text("javascript:document.title")
    expect(passage.get_by_role("link")).to_have_count(0)
    assert page.locator("img").count() == 0
    assert page.title() == "Almanac"


def test_a_link_reads_as_it_leads(open_page: Open) -> None:
    """What turns its text around, or is not seen, is shown as it is requested."""
    addresses = [
        "https://evil.example/\u202egpj.exe",
        "https://garden.example/\u200bhours",
        "https://garden.example/שעות",
        "javascript:x\u202e",
    ]
    read = (
        "async (all) => { const { linkTo } = await import('/static/text.js'); return all.map((one) => "
        "linkTo(one).textContent); }"
    )
    shown = open_page().evaluate(read, addresses)
    assert shown == [
        "https://evil.example/%E2%80%AEgpj.exe",
        "https://garden.example/%E2%80%8Bhours",
        "https://garden.example/שעות",
        "javascript:x\u202e",
    ]


def test_hebrew_reads_from_the_right(open_page: Open) -> None:
    page = open_page()
    _ask(page, "איפה החתולים ישנים?")
    reply = _turn(page).locator(".reply .text p").first
    expect(reply).to_contain_text("המזרקה")
    assert reply.evaluate("element => getComputedStyle(element).direction") == "rtl"


def test_page_says_what_was_left_out(
    open_page: Open, mistral: LoopbackMistral, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mistral, "says", "In winter the garden closes at five [1]. A ticket costs 12 euros [1].")
    page = open_page()
    _choose(page, "A guide to the palace")
    _ask(page, "When does the garden close in winter?")
    expect(_turn(page)).to_contain_text("1 sentence without support was left out")
    expect(_turn(page)).not_to_contain_text("12 euros")


def test_everything_is_reached_by_keyboard(open_page: Open) -> None:
    page = open_page()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the question")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.type("When does the garden")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("close in winter?")
    expect(page.get_by_label("Your question")).to_have_value("When does the garden\nclose in winter?")
    page.keyboard.press("Enter")
    expect(_turn(page)).to_contain_text("at five in winter.")
    citation = _turn(page).get_by_role("button", name="Source 1").first
    for _ in range(10):
        page.keyboard.press("Shift+Tab")
        if citation.evaluate("element => element === document.activeElement"):
            break
    assert (
        citation.evaluate("element => element.matches(':focus-visible') && getComputedStyle(element).outlineStyle")
        == "solid"
    )
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(citation).to_be_focused()


def test_a_phone_shows_all_of_it_without_sideways_scrolling(open_page: Open) -> None:
    page = open_page(_PHONE, has_touch=True, is_mobile=True)
    assert not _is_wider_than_the_screen(page)
    _ask(page, "Where do the parrots live? " + "Pneumonoultramicroscopicsilicovolcanoconiosis" * 4)
    expect(_turn(page)).to_contain_text("beside the lake")
    assert not _is_wider_than_the_screen(page)
    _ask(page, "Where do the parrots live? z" + "\u0301\u0323\u0489" * 150)  # one character, which breaks nowhere
    expect(_turn(page)).to_contain_text("beside the lake")
    assert not _is_wider_than_the_screen(page)
    _turn(page).get_by_role("button", name="Source 1").first.tap()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert not _is_wider_than_the_screen(page)
    page.get_by_role("button", name="Close").tap()
    page.get_by_role("button", name="Chats").tap()
    page.get_by_role("button", name="New chat", exact=True).first.tap()
    expect(page.get_by_role("heading", name="Ask Palace gardens")).to_be_visible()


def test_it_is_dark_where_the_system_is(open_page: Open) -> None:
    def brightness(page: Page) -> int:
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))

    assert brightness(open_page(color_scheme="dark")) < 150 < 600 < brightness(open_page(color_scheme="light"))


def test_chats_are_kept_apart_and_over_a_reload(open_page: Open) -> None:
    page = open_page()
    _ask(page, "Do children enter for free?")
    expect(_turn(page)).to_contain_text("Children enter for free")
    page.get_by_role("button", name="New chat").first.click()
    _ask(page, "When does the garden close in winter?")
    expect(_turn(page)).to_contain_text("at five in winter.")
    expect(page.locator(".turn")).to_have_count(1)
    page.reload()
    expect(_turn(page)).to_contain_text("at five in winter.")
    page.get_by_role("button", name="Do children enter for free?", exact=True).click()
    expect(_turn(page)).to_contain_text("Children enter for free")
    page.get_by_role("button", name="Remove chat: Do children enter for free?").click()
    expect(_turn(page)).to_contain_text("at five in winter.")


def test_the_last_six_messages_are_sent_as_history(open_page: Open) -> None:
    page = open_page()
    bodies: list[Any] = []
    page.on("request", lambda request: bodies.append(request.post_data_json) if _is_chat(request) else None)
    for number in range(5):
        _ask(page, f"Do children enter for free? {number}")
        expect(_turn(page).locator(".facts")).to_contain_text("v0001")
    assert [len(body["history"]) for body in bodies] == [0, 2, 4, 6, 6]
    assert bodies[-1]["history"][0] == {"role": "user", "content": "Do children enter for free? 1"}
    assert all(body["options"] == {"mode": "kb-only"} for body in bodies)


def _is_chat(request: Request) -> bool:
    return request.url.endswith("/api/chat")


def test_a_question_that_is_too_long_is_not_sent(open_page: Open) -> None:
    """Characters are counted as the server counts them: one outside the basic plane is one."""
    page = open_page()
    page.get_by_label("Your question").fill("🌿" * 12_000)
    expect(page.locator("#count")).to_have_text("12,000 / 12,000")
    expect(page.get_by_role("button", name="Send")).to_be_enabled()
    page.get_by_label("Your question").fill("🌿" * 12_001)
    expect(page.get_by_role("button", name="Send")).to_be_disabled()
    page.get_by_label("Your question").press("Enter")
    expect(page.locator(".turn")).to_have_count(0)


def test_the_model_can_only_be_chosen_where_one_is_declared(open_page: Open) -> None:
    page = open_page()
    expect(page.get_by_label("Documents + model")).to_be_disabled()
    expect(page.get_by_text("No model is declared here.")).to_be_visible()
    _choose(page, "A guide to the palace")
    expect(page.get_by_label("Documents + model")).to_be_enabled()
    expect(page.get_by_text("No model is declared here.")).to_be_hidden()


def test_a_workspace_keeps_the_others_out(open_page: Open) -> None:
    page = open_page()
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("Workspace").fill("lake")
    page.get_by_role("button", name="Apply").click()
    _ask(page, "When does the garden close in winter?")
    expect(_turn(page).locator(".facts")).to_contain_text("v0001")
    expect(_turn(page)).not_to_contain_text("at five in winter.")


def test_settings_opened_before_the_bases_are_known_show_in_the_end_what_there_is(open_page: Open) -> None:
    page = open_page()
    held: list[Route] = []
    page.route("**/api/kbs", lambda route: held.append(route))
    page.reload()
    page.get_by_role("button", name="Settings").click()
    expect(page.get_by_label("Workspace")).to_be_hidden()
    held[0].continue_()
    expect(page.get_by_label("Workspace")).to_be_visible()


def test_settings_that_make_no_sense_are_not_taken(open_page: Open) -> None:
    page = open_page()
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("Passages to look at (k)").fill("-3")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("alert").filter(has_text="Passages to look at (k)")).to_be_visible()
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Settings").click()
    expect(page.get_by_label("Passages to look at (k)")).to_have_value("")


def test_a_server_with_keys_is_asked_with_one(open_page: Open, published: _Published) -> None:
    page = open_page()
    page.get_by_role("button", name="Settings").click()
    expect(page.get_by_label("API key")).to_be_hidden()
    with _served(published, api_keys="right-key") as address:
        page = open_page(at=address)
        page.get_by_label("API key").fill("wrong-key")
        page.get_by_role("button", name="Apply").click()
        expect(page.get_by_text("This key was refused.")).to_be_visible()
        page.get_by_label("API key").fill("right-key")
        page.get_by_role("button", name="Apply").click()
        expect(page.get_by_role("heading", name="Ask Palace gardens")).to_be_visible()
        _ask(page, "When does the garden close in winter?")
        expect(_turn(page)).to_contain_text("at five in winter.")
        assert "right-key" not in page.evaluate("JSON.stringify({...sessionStorage, ...localStorage})")
        page.context.close()


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/static/style.css", "/static/icon.svg"])
def test_every_part_of_the_page_forbids_what_it_does_not_need(address: str, path: str) -> None:
    answer = httpx.get(address + path)
    assert answer.status_code == 200
    policy = dict(directive.split(" ", 1) for directive in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["base-uri"] == policy["form-action"] == policy["frame-ancestors"] == "'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
