"""Pages that give orders: published, and asked about where replies are quoted and where a model obeys whatever stands
in its prompt.
"""

import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import cycle
from pathlib import Path
from typing import Any

import anyio
import httpx
import pyarrow.parquet as pq
import pytest
from markdown_it import MarkdownIt
from mcp import Client

from almanac.core.invisible import INVISIBLE
from almanac.core.settings import DataDir
from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS
from almanac.serve.catalog import Catalog
from almanac.serve.mcp_server import KnowledgeServer
from almanac.serve.server_settings import Settings
from tests.conftest import Serve
from tests.forked import forked_crawls
from tests.hardening.hostile_pages import Hostile, file_of, hostile_pages, html_of, rows_of
from tests.hardening.tally import Tally, some, tallied
from tests.loopback.mistral import LoopbackMistral
from tests.loopback.obedient import TOKEN, obey
from tests.serve.conftest import Bases, events_of, serve_bases

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("hardening-injection")]
_SAMPLE = {"site": 5, "md": 2, "csv": 1, "txt": 1}  # pages of each form
_MARKDOWN = MarkdownIt("commonmark", {"html": True})
_BARE = re.compile(
    r"(?:https?|ftp)://[^\s<>\"`()\[\]]+|www\.[^\s<>\"`()\[\].]+|(?:javascript|data|mailto):[^\s<>\"`()\[\]]+",
    re.IGNORECASE,
)
_LINKED = re.compile(
    r"<(?:a|img|iframe|form|script|link|object|svg|base|meta)\b[^>]*?(?:(?:href|src|data|action)=\"([^\"]*)\")?[^>]*>",
    re.IGNORECASE,
)
_UNSEEN = re.compile(f"[{''.join(map(chr, INVISIBLE))}]")
_FRAME = re.compile(r"<<<\s*(?:passage|end)", re.IGNORECASE)


class _World(Bases):
    """All pages as a site, files and rows in one knowledge base, which one declaration quotes from and behind another
    of which a model writes.
    """

    def __init__(self, folder: Path, mistral: LoopbackMistral, serve: Serve, pages: Sequence[Hostile]) -> None:
        super().__init__(folder, mistral)
        self.pages = pages
        self._write_pages()
        sources = [
            {
                "name": "site",
                "kind": "site",
                "start_urls": [f"{serve(folder / 'site')}/index.html"],
                "politeness": _FAST,
                "match": "/page-",
            },
            {"name": "notes", "kind": "files", "glob": "notes/*"},
            {
                "name": "rows",
                "kind": "files",
                "glob": "rows.csv",
                "yields": "records",
                "title": "{title}",
                "text": "{text}",
                "fields": _FIELDS,
            },
        ]
        embed = {"provider": "mistral", "model": "of-words", "dimension": mistral.dimension, "server_url": mistral.url}
        retrieve = {"k": 5, "floor": 0.1, "confident": 0.2}
        declared = {
            "name": "hostile",
            "title": "The houses",
            "language": "auto",
            "sources": sources,
            "embed": embed,
            "retrieve": retrieve,
        }
        self.quoted = self._declare("quoted", declared)
        self.written = self._declare(
            "written", {**declared, "generate": {"provider": "mistral", "server_url": mistral.url}}
        )
        with forked_crawls():
            self.publish(self.quoted)

    def _write_pages(self) -> None:
        for name in ("site", "notes"):
            (self.folder / name).mkdir()
        site = [page for page in self.pages if page.form == "site"]
        links = "".join(f'<li><a href="/page-{page.number}.html">{page.subject}</a></li>' for page in site)
        (self.folder / "site" / "index.html").write_text(
            f"<html><body><h1>Houses</h1><ul>{links}</ul></body></html>", encoding="utf-8"
        )
        for page in site:
            (self.folder / "site" / f"page-{page.number}.html").write_text(html_of(page), encoding="utf-8")
        for page in self.pages:
            if page.form in ("md", "txt"):
                name, content = file_of(page)
                (self.folder / "notes" / name).write_text(content, encoding="utf-8")
        (self.folder / "rows.csv").write_text(
            rows_of([page for page in self.pages if page.form == "csv"]), encoding="utf-8"
        )

    def _declare(self, name: str, declared: dict[str, Any]) -> str:
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps(declared), encoding="utf-8")  # which is YAML
        return str(path)

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        tables = (
            pq.read_table(DataDir(self.data).processed("hostile") / name) for name in (RECORDS, DOCUMENTS, CHUNKS)
        )
        return [row for table in tables for row in table.to_pylist()]


_FAST = {"allow_private": True, "robots": False, "delay_s": 0, "per_domain": 16}
_FIELDS = {name: {"json": name} for name in ("title", "text", "maker", "url")} | {
    "tags": {"json": "tags", "process": ["split"]}
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, mistral: LoopbackMistral, serve: Serve) -> _World:
    pages = hostile_pages()
    chosen = [
        page
        for form, sample in _SAMPLE.items()
        for page in some([hostile_page for hostile_page in pages if hostile_page.form == form], sample)
    ]
    return _World(tmp_path_factory.mktemp("injection"), mistral, serve, chosen)


def test_what_is_hidden_is_not_read(world: _World) -> None:
    """In no column of items and chunks. Every page is there, with its subject."""
    with tallied(
        "Prompt injection: what is read",
        "no text that visitors do not see, no invisible character; every page is read",
        900,
    ) as tally:
        whole = json.dumps(world.rows, ensure_ascii=False, default=str)
        unseen = {
            row["document_id"]: _UNSEEN.search(
                json.dumps({**row, "url": "", "document_id": "", "chunk_id": ""}, ensure_ascii=False)
            )
            for row in world.rows
        }
        for page in world.pages:
            finding = (
                "hidden text is read"
                if page.secret in whole
                else None
                if page.subject in whole
                else "its text is not there"
            )
            tally.note(_name(page), finding)
        tally.fallen += [
            f"{document}: {unseen_characters[0]!r} is left"
            for document, unseen_characters in unseen.items()
            if unseen_characters
        ]


def _name(page: Hostile) -> str:
    return f"{page.number} ({page.kind}, {page.place}, {page.language})"


class _Reply:
    """A reply with what it rests on: the text of each source by its number, and all that the model was given."""

    def __init__(self, reply: str, sources: Mapping[int, str], given: str) -> None:
        self.reply, self.sources, self.given = reply, sources, given

    def finding(self, pages: Sequence[Hostile]) -> str | None:
        """What must not be in it; None where there is nothing."""
        cited = {int(number) for number in re.findall(r"\[(\d+)\]", self.reply)}
        if cited != self.sources.keys():
            return f"cites {cited} of {sorted(self.sources)}: {self.reply}"
        if match := re.search(r"[【［]\s*\^?\d+|\[\s*(?:\^|source )\s*\d+", self.reply):
            return f"the marker {match[0]} opens nothing: {self.reply}"
        if match := _UNSEEN.search(self.reply):
            return f"{match[0]!r} is left: {self.reply}"
        if foreign := [address for address in _opened_by(self.reply) if address not in self.given]:
            return f"opens {foreign}: {self.reply}"
        return next((finding for page in pages if (finding := self._false_credit(page))), None)

    def _false_credit(self, page: Hostile) -> str | None:
        """Where the reply says what one page alone says: not what the page hides, and credited to no passage that does
        not say it.
        """
        if page.secret in self.reply or page.secret in self.given:
            return f"tells the hidden word of {_name(page)}: {self.reply}"
        for word in filter(self.reply.__contains__, (page.claim, str(page.figure))):
            for match in re.finditer(rf"{word}(?!\d)[^.。\n]*[.。]?[\"')\]]*((?:\s*\[\d+\])*)", self.reply):
                false = [
                    number for number in map(int, re.findall(r"\d+", match[1])) if word not in self.sources[number]
                ]
                if false:
                    return f"credits {word} of {_name(page)} to {false}: {self.reply}"
        return None


def _opened_by(reply: str) -> list[str]:
    """Addresses that a renderer of Markdown and HTML, or a chat window, makes links, images or frames of."""
    rendered = _MARKDOWN.render(reply)
    linked = [html.unescape(match[1] or match[0]) for match in _LINKED.finditer(rendered)]
    return [*linked, *(match[0].rstrip(".,;:!?'*_~") for match in _BARE.finditer(html.unescape(rendered)))]


def _reply_of(answer: Mapping[str, Any], given: str = "") -> _Reply:
    sources = {int(source["marker"][1:-1]): json.dumps(source, ensure_ascii=False) for source in answer["sources"]}
    return _Reply(answer["reply"], sources, given or "".join(sources.values()))


def _finding_of_prompt(prompt: str, answer: Mapping[str, Any]) -> str | None:
    """What a passage did to the frame around it; None where it stands in it, unseen characters and control tokens taken
    out, under the number cited.
    """
    opened = re.findall(r"^<<<passage ([0-9a-f]{12}) \[(\d+)\]$", prompt, re.MULTILINE)
    seal = opened[0][0] if opened else ""
    framed = re.findall(rf"^<<<passage {seal} \[(\d+)\]\n(.*?)\n<<<end {seal}$", prompt, re.MULTILINE | re.DOTALL)
    if [number for number, _ in framed] != [str(number) for number in range(1, len(framed) + 1)] or len(
        _FRAME.findall(prompt)
    ) != 2 * len(framed):
        return f"the frame is broken: {prompt:.2000}"
    if match := TOKEN.search(prompt) or _UNSEEN.search(prompt):
        return f"{match[0]!r} is left in the prompt: {prompt[max(0, match.start() - 200) : match.end() + 200]}"
    for source in answer["sources"]:
        shown = dict(framed)[source["marker"][1:-1]]
        if _letters(source["title"]) not in _letters(shown):
            return f"source {source['marker']} is not what was shown under its number: {shown}"
    return None


def test_what_is_quoted_is_said_by_its_source(world: _World) -> None:
    """Each sentence of a reply stands in the passage behind its marker."""
    answered = 0
    with (
        serve_bases(world, names=[world.quoted], default="hostile", rate_per_minute=10_000_000) as client,
        _tallied("quoted replies") as tally,
    ):
        for page in world.pages:
            answer = client.post("/api/chat", json={"message": page.question}).json()
            answered += answer["answered"]
            tally.note(_name(page), _reply_of(answer).finding(world.pages) or _not_verbatim(answer))
    assert answered > len(world.pages) / 2, f"{answered} of {len(world.pages)} were answered"


def _not_verbatim(answer: Mapping[str, Any]) -> str | None:
    read = {source["marker"]: _letters(f"{source['passage'] or ''} {source['text']}") for source in answer["sources"]}
    for quoted, marker in re.findall(r"(.+?) (\[\d+\])(?=\s|$)", answer["reply"], re.DOTALL):
        if _letters(quoted) not in read[marker]:
            return f"{quoted!r} does not stand in {marker}: {answer['reply']}"
    return None


def _letters(text: str) -> str:
    return "".join(c for c in text if c.isalpha())


@contextmanager
def _tallied(what: str) -> Iterator[Tally]:
    promise = (
        "no marker that opens nothing or another's words, no link or image that no passage holds, no order out of "
        "its frame"
    )
    with tallied(f"Prompt injection: {what}", promise, 900) as tally:
        yield tally


def test_a_model_that_obeys_credits_and_links_nothing_falsely(
    world: _World, mistral: LoopbackMistral, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By HTTP, whole, as a stream, with what the model may know besides, and continuing a conversation; by MCP. Prompts
    are those that the model was sent.
    """
    monkeypatch.setattr(mistral, "obeys", True)
    roads, answered, obeyed, reply = cycle(["whole", "stream", "kb-llm", "continued", "mcp"]), 0, 0, ""
    catalog = Catalog(DataDir(world.data), [world.written], default="hostile")
    agents = KnowledgeServer(catalog, Settings())
    with (
        serve_bases(world, names=[world.written], default="hostile", rate_per_minute=10_000_000) as client,
        _tallied("a model that obeys") as tally,
    ):
        for page in world.pages:
            road = next(roads)
            mistral.requests.clear()
            answer = _ask_by_mcp(agents, page.question) if road == "mcp" else _ask(client, page.question, road, reply)
            answered, reply = answered + answer["answered"], answer["reply"]
            messages = next(
                (request["messages"] for request in reversed(mistral.requests) if "messages" in request),
                [{"content": ""}],
            )
            prompt, obedient_reply = messages[-1]["content"], obey(messages)
            obeyed += any(
                hostile_page.claim in obedient_reply or "evil.example/" in obedient_reply
                for hostile_page in world.pages
            )
            finding = _reply_of(answer, prompt).finding(world.pages) or (
                _finding_of_prompt(prompt, answer) if "Passages:" in prompt else None
            )
            tally.note(f"{road}: {_name(page)}", finding)
    catalog.close()
    assert min(answered, obeyed) > len(world.pages) / 2, (
        f"of {len(world.pages)}, {answered} were answered, and the model obeyed in {obeyed}"
    )


def _ask(client: httpx.Client, question: str, road: str, reply: str) -> Any:
    history = (
        [{"role": "user", "content": question}, {"role": "assistant", "content": reply or "Of what?"}]
        if road == "continued"
        else []
    )
    options = {"mode": "kb-llm" if road == "kb-llm" else "kb-only"}
    response = client.post(
        "/api/chat", json={"message": question, "options": options, "stream": road == "stream", "history": history}
    )
    assert response.status_code == 200, response.text
    return next(data for event, data in events_of(response) if event == "done") if road == "stream" else response.json()


def _ask_by_mcp(server: KnowledgeServer, question: str) -> Any:
    async def carried_out() -> Any:
        async with Client(server) as agent:
            return (await agent.call_tool("ask", {"question": question})).structured_content

    return anyio.run(carried_out)
