"""What each caller sees, by HTTP and by MCP: one table for both doors, and nothing in any response of either that
another tenant's content is in.
"""

import json
from collections.abc import Iterator
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextResourceContents

from almanac.core.settings import DataDir
from almanac.serve.catalog import Catalog
from almanac.serve.mcp_server import KnowledgeServer
from almanac.serve.server_settings import Settings
from tests.serve.conftest import Bases, serve_bases
from tests.serve.test_mcp import listening

pytestmark = pytest.mark.xdist_group("serve")
REFUSED = "refused"
_RED, _BLUE = {"Opening hours", "Tickets"}, {"Dogs", "Boats"}
# What a caller sees of each base that it can name: titles, or that it is refused. Bases without a row are not there for
# it.
_TABLE: dict[str, dict[str, Any]] = {
    "": {"notes": _RED | _BLUE, "guide": _RED | _BLUE, "strict": REFUSED},
    "red": {"notes": _RED, "strict": _RED},
    "blue": {"notes": _BLUE, "strict": _BLUE},
    "Red": {"notes": set(), "strict": set()},
    "red\u200b": {"notes": set(), "strict": set()},
}  # fmt: skip
_KEYS = {workspace: f"key-{number}" for number, workspace in enumerate(_TABLE)}
_QUERY = "the secret of the hedgehog, dogs, boats, tickets, hours of the garden"
_WORDS = {
    "red": ("six in summer", "students pay", "/opening-hours", "/tickets"),
    "blue": ("hedgehog is", "is a hedgehog", "on a lead", "/dogs", "/boats"),
}


class _Http:
    """The HTTP API, asked with the key of a workspace. `heard` are all of its responses."""

    def __init__(self, client: httpx.Client, key: str) -> None:
        self._client, self._headers, self.heard = client, {"Authorization": f"Bearer {key}"}, ""

    def bases(self) -> set[str]:
        return {base["kb"] for base in self._get("/api/kbs")["items"]}

    def listed(self, kb: str) -> Any:
        page = self._get("/api/sources", kb=kb)
        return {item["title"] for item in page["items"]} if "items" in page else REFUSED

    def counted(self, kb: str) -> int:
        return int(self._get("/api/sources", kb=kb, limit="1")["total"])

    def search(self, kb: str | list[str]) -> Any:
        reply = self._post("/api/search", {"query": _QUERY, "k": 50, "kb": kb, "explain": True})
        return {hit["title"] for hit in reply["hits"]} if "hits" in reply else REFUSED

    def ask(self, kb: str) -> None:
        self._post("/api/chat", {"message": _QUERY, "kb": kb})
        self._post("/search_kb", {"query": _QUERY, "kb": kb})

    def _get(self, path: str, **params: str) -> Any:
        return self._remember(self._client.get(path, params=params, headers=self._headers))

    def _post(self, path: str, body: Any) -> Any:
        return self._remember(self._client.post(path, json=body, headers=self._headers))

    def _remember(self, response: httpx.Response) -> Any:
        assert response.status_code in (200, 404, 422), response.text
        self.heard += json.dumps(response.json(), ensure_ascii=False)
        return response.json()


class _Mcp:
    """The MCP server over HTTP, in the same way."""

    def __init__(self, address: str, key: str) -> None:
        self._address, self._key, self.heard = address, key, ""

    def bases(self) -> set[str]:
        tools, resources = self._do(lambda agent: agent.list_tools()), self._do(lambda agent: agent.list_resources())
        by_tool = {tool["name"].removeprefix("search_").removesuffix("_knowledge") for tool in tools["tools"]} - {
            "ask",
            "search",
        }
        assert by_tool == {resource["uri"].split("/")[2] for resource in resources["resources"]}
        offered = [
            tool["inputSchema"]["properties"]["kb"]
            for tool in tools["tools"]
            if "kb" in tool["inputSchema"]["properties"]
        ]
        assert all(json.dumps(sorted(by_tool)) in json.dumps(schema, sort_keys=True) for schema in offered)
        return by_tool

    def listed(self, kb: str) -> Any:
        page = self._do(lambda agent: agent.read_resource(f"almanac://{kb}/sources"))
        return {document["title"] for document in page["documents"]} if "documents" in page else REFUSED

    def counted(self, kb: str) -> int:
        tools = self._do(lambda agent: agent.list_tools())["tools"]
        description = next(tool["description"] for tool in tools if tool["name"] == f"search_{kb}_knowledge")
        number = description.partition("It holds ")[2].partition(" ")[0]
        return int(number) if number.isdigit() else 0

    def search(self, kb: str | list[str]) -> Any:
        name, more = (f"search_{kb}_knowledge", {}) if isinstance(kb, str) else ("search", {"kb": kb})
        reply = self._do(lambda agent: agent.call_tool(name, {"query": _QUERY, "max_results": 50, **more}))
        reply = reply.get("structuredContent") or {}
        return {item["title"] for item in reply["results"]} if "results" in reply else REFUSED

    def ask(self, kb: str) -> None:
        self._do(lambda agent: agent.call_tool("ask", {"question": _QUERY, "kb": kb}))

    def _do(self, work: Any) -> Any:
        async def carried_out() -> Any:
            async with (
                httpx2.AsyncClient(headers={"authorization": f"Bearer {self._key}"}) as keyed,
                Client(streamable_http_client(self._address, http_client=keyed)) as agent,
            ):
                try:
                    reply = await work(agent)
                except MCPError as error:
                    return {"error": error.error.message}
                if hasattr(reply, "contents"):
                    (content,) = reply.contents
                    assert isinstance(content, TextResourceContents)
                    return json.loads(content.text)
                return reply.model_dump(mode="json", by_alias=True)

        document = anyio.run(carried_out)
        self.heard += json.dumps(document, ensure_ascii=False)
        return document


@pytest.fixture(scope="module")
def doors(bases: Bases) -> Iterator[dict[str, Any]]:
    strict = bases.declare("strict", retrieve={"k": 3, "floor": 0.15, "workspace": {"field": "team", "required": True}})
    bases.publish(strict)
    names, keys = (
        [bases.notes, bases.guide, strict],
        ",".join(f"{key}:{workspace}".rstrip(":") for workspace, key in _KEYS.items()),
    )
    catalog = Catalog(DataDir(bases.data), names, default="notes")
    server = KnowledgeServer(catalog, Settings())
    with (
        serve_bases(bases, names=names, api_keys=keys) as client,
        listening(server, api_keys=keys, rate_per_minute=10_000) as address,
    ):
        yield {"http": lambda key: _Http(client, key), "mcp": lambda key: _Mcp(address, key)}
    catalog.close()


@pytest.mark.parametrize("workspace", _TABLE, ids=ascii)
@pytest.mark.parametrize("door", ["http", "mcp"])
def test_both_doors_show_a_caller_the_same(doors: dict[str, Any], door: str, workspace: str) -> None:
    seen, asking = _TABLE[workspace], doors[door](_KEYS[workspace])
    assert asking.bases() == seen.keys()
    for kb in ("notes", "guide", "strict", "nonesuch"):
        expected = seen.get(kb, REFUSED)
        assert (kb, asking.listed(kb)) == (kb, expected)
        assert (kb, asking.search(kb)) == (kb, expected)
        asking.ask(kb)
        if expected != REFUSED:
            assert asking.counted(kb) == len(expected)
    both = REFUSED if "guide" not in seen else _RED | _BLUE
    assert asking.search(["notes", "guide"]) == both
    if workspace:
        hidden = [word for team, words in _WORDS.items() if team != workspace for word in words] + [
            "The guide",
            '"guide"',
            "guide (",
            "guide,",
        ]
        heard = asking.heard.replace("no tool 'search_guide_knowledge'", "")
        assert [word for word in hidden if word in heard] == []


@pytest.mark.parametrize("door", ["http", "mcp"])
def test_a_base_that_is_hidden_is_refused_as_one_that_is_not_there(doors: dict[str, Any], door: str) -> None:
    """Else its name could be guessed."""
    asking = doors[door](_KEYS["red"])

    def hear(kb: str) -> str:
        asking.heard = ""
        for ask in (asking.listed, asking.search, asking.ask):
            ask(kb)
        return str(asking.heard).replace(kb, "KB")

    assert hear("guide") == hear("absent")
