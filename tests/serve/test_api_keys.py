"""Who may ask: keys, the workspaces that they are held to, and the browsers of a server without keys."""

from typing import Any

import httpx
import pytest

from almanac.schemas.errors import UsageError
from almanac.serve.api_keys import ApiKeys, is_loopback, require_safe_address
from almanac.serve.server_settings import Settings
from tests.serve.conftest import Serving
from tests.serve.test_api_limits import require_problem

pytestmark = pytest.mark.xdist_group("serve")
_RED = {"Authorization": "Bearer key-of-red"}
_ALL = {"Authorization": "Bearer key-of-all"}
_KEYS = "key-of-all, key-of-red:red"


@pytest.fixture(scope="module")
def guarded(serving: Serving) -> Any:
    with serving(api_keys=_KEYS) as client:
        yield client


@pytest.mark.parametrize(
    "path", ["/api/kbs", "/api/sources", "/api/versions", "/ready", "/metrics", "/openapi.json", "/nowhere"]
)
def test_with_keys_every_route_needs_one(guarded: httpx.Client, path: str) -> None:
    response = guarded.get(path)
    require_problem(response, 401)
    assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "",
        "Bearer key-of-al",
        "Bearer key-of-all2",
        "Basic key-of-all",
        "key-of-all",
        "Bearer key-of-red:red",
        "Bearer \xff",
    ],
)
def test_another_key_is_none(guarded: httpx.Client, header: str) -> None:
    require_problem(
        guarded.post("/api/chat", json={"message": "a"}, headers={b"Authorization": header.encode("latin-1")}), 401
    )


def test_the_page_and_health_need_none(guarded: httpx.Client) -> None:
    assert [guarded.get(path).status_code for path in ("/", "/health")] == [200, 200]
    assert guarded.get("/static/nonesuch").status_code == 404
    assert guarded.get("/api/kbs", headers={"Authorization": "bearer   key-of-all"}).status_code == 200


@pytest.mark.parametrize(
    "where",
    [
        None,
        {"team": "blue"},
        {"team": {"$ne": "red"}},
        {"$or": [{"team": "blue"}, {"team": "red"}]},
        {"$not": {"team": "red"}},
        {"team": {"$nin": []}},
    ],
)  # fmt: skip
def test_no_filter_leads_out_of_the_workspace_of_a_key(guarded: httpx.Client, where: Any) -> None:
    for path, body in (
        ("/api/search", {"query": "hedgehog dogs garden", "k": 50, "where": where, "explain": True}),
        ("/api/chat", {"message": "What is the secret of the blue team? A hedgehog?", "where": where}),
    ):
        response = guarded.post(path, json=body, headers=_RED)
        assert response.status_code == 200
        assert "secret of the blue team is" not in response.text
        assert "garden.example/dogs" not in response.text


def test_a_key_of_a_workspace_sees_nothing_else(guarded: httpx.Client) -> None:
    assert [item["title"] for item in guarded.get("/api/sources", headers=_RED).json()["items"]] == [
        "Opening hours",
        "Tickets",
    ]
    assert "blue" not in guarded.post("/search_kb", json={"query": "dogs"}, headers=_RED).text
    require_problem(guarded.post("/api/search", json={"query": "dogs", "workspace": "blue"}, headers=_RED), 403)
    require_problem(guarded.get("/api/sources", params={"workspace": "blue"}, headers=_RED), 403)
    assert guarded.post("/api/search", json={"query": "dogs", "workspace": "red"}, headers=_RED).status_code == 200
    items = guarded.get("/api/kbs", headers=_RED).json()["items"]
    assert [(base["kb"], base["size_mb"]) for base in items] == [("notes", None)], "a size tells how much others have"
    problem = require_problem(guarded.post("/api/chat", json={"message": "a", "kb": "guide"}, headers=_RED), 404)
    assert problem["hint"] == "there are: notes"
    problem = require_problem(
        guarded.post("/api/chat", json={"message": "a", "kb": ["notes", "guide"]}, headers=_RED), 404
    )
    assert problem["hint"] == "there are: notes"
    search_result = guarded.post(
        "/api/search", json={"query": "dogs garden", "kb": ["notes"], "k": 50}, headers=_RED
    ).json()
    assert {hit["metadata"]["team"] for hit in search_result["hits"]} == {"red"}
    assert guarded.post("/api/chat", json={"message": "dogs"}, headers=_RED).json()["kb"] == "notes"
    for path in ("/metrics", "/api/versions"):
        require_problem(guarded.get(path, headers=_RED), 403)
    assert "blue" in guarded.post("/search_kb", json={"query": "dogs"}, headers=_ALL).text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example:80"}, 421),
        ({"Host": ""}, 421),
        ({"Host": "localhost"}, 200),
        ({"Host": "LOCALHOST:99"}, 200),
        ({"Host": "[::1]:8080"}, 200),
        ({"Host": "localhost", "Origin": "http://localhost"}, 200),
        ({"Host": "localhost", "Origin": "https://evil.example"}, 403),
        ({"Host": "localhost", "Origin": "null"}, 403),
        ({"Host": "localhost", "Origin": "http://[::1"}, 403),
    ],
)  # fmt: skip
def test_without_keys_only_this_machine_and_no_website_is_answered(
    api: httpx.Client, headers: dict[str, str], status: int
) -> None:
    assert api.get("/api/kbs", headers=headers).status_code == status


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/api/kbs", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, 403),
        # another port of this machine
        ("/api/kbs", {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}, 403),
        ("/api/kbs", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 403),
        ("/", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, 403),
        # somebody follows a link
        ("/", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200),
        ("/api/kbs", {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}, 200),
        # typed in
        ("/api/kbs", {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200),
    ],
)
def test_what_a_page_elsewhere_asks_without_an_origin_is_refused(
    api: httpx.Client, path: str, headers: dict[str, str], status: int
) -> None:
    assert api.get(path, headers=headers).status_code == status


def test_keys_are_read_from_one_text() -> None:
    keys = ApiKeys.parse(" a1 , b2 : people ")
    assert bool(keys)
    assert not ApiKeys.parse("  ")
    first, second = keys.caller("Bearer a1"), keys.caller("Bearer b2")
    assert first is not None
    assert second is not None
    assert (first.workspace, second.workspace) == (None, "people")
    assert "a1" not in repr(vars(keys)) + repr(first)


def test_the_workspace_of_a_key_is_taken_as_it_is_written() -> None:
    names = ["Alpha", "al\u200dpha", "alpha\u00a0", "alpha\u200b", "e\u0301", "é", "a:b", "ａ"]
    keys = ApiKeys.parse(",".join(f"key{number}: {name} " for number, name in enumerate(names)))
    assert [caller.workspace for number in range(len(names)) if (caller := keys.caller(f"Bearer key{number}"))] == names


@pytest.mark.parametrize("text", ["a,,b", ":people", "a:\u2003", "a:", "a,a:people", "clé", "a b"])
def test_keys_that_cannot_be_meant_are_refused_without_being_shown(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        ApiKeys.parse(text)
    assert "entry" in str(refused.value)
    assert "clé" not in str(refused.value)


def test_another_address_than_loopback_needs_keys() -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "nonesuch.invalid"):
        assert not is_loopback(host)
        with pytest.raises(UsageError, match="without API keys"):
            require_safe_address(host, ApiKeys())
        require_safe_address(host, ApiKeys.parse("key"))
    for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost"):
        require_safe_address(host, ApiKeys())


def test_settings_that_make_no_sense_are_named_and_keys_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAX_INPUT_CHARS", "many")
    monkeypatch.setenv("TEMPERATURE", "nan")
    monkeypatch.setenv("ALMANAC_API_KEYS", "secret-key")
    with pytest.raises(UsageError) as refused:
        Settings.read()
    assert "MAX_INPUT_CHARS" in str(refused.value)
    assert "TEMPERATURE" in str(refused.value)
    monkeypatch.setenv("MAX_INPUT_CHARS", "")
    monkeypatch.delenv("TEMPERATURE")
    assert Settings.read(port=None).max_input_chars == 12_000
    assert "secret-key" not in repr(Settings.read())
