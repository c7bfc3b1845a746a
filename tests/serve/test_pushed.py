"""Pushed documents: taken whole or not at all, once each, by keys that may push, and published by the next run."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.flows.pipeline.run import Run
from almanac.serve.catalog import Catalog
from tests.flows.commands import carry_out
from tests.index.making import without_children
from tests.serve.conftest import serving_of

_DECLARED = """
name: desk
language: en
sources:
  - {name: notes, kind: pushed, yields: documents, title: "{title}", body: "{text}",
     limits: {bytes_per_row: 500, rows: 4}}
gate: {max_lost: null}
"""
_NOTES: list[dict[str, Any]] = [
    {"id": 1, "title": "Boats", "text": "Boats leave at noon."},
    {"id": "b", "title": "Dogs", "text": "On a lead."},
]
_KEYS: dict[str, Any] = {"api_keys": "reader-key", "push_keys": "pusher-key,other-key:elsewhere"}


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    path = tmp_path / "desk.yaml"
    path.write_text(_DECLARED)
    return path


def _publish(desk: Path) -> dict[str, Any]:
    with without_children():
        report: dict[str, Any] = carry_out(Run(load_declaration(str(desk)), DataDir(desk.parent / "data")))
    return report


def _push(client: httpx.Client, documents: Any = _NOTES, key: str = "pusher-key", **members: Any) -> httpx.Response:
    body = {"kb": "desk", "documents": documents, **members}
    return client.post("/api/documents", json=body, headers={"Authorization": f"Bearer {key}"})


def test_what_is_pushed_is_published_by_the_next_run(desk: Path) -> None:
    with serving_of(Catalog(DataDir(desk.parent / "data"), [str(desk)]), **_KEYS) as client:
        pushed = _push(client)
        assert (pushed.status_code, pushed.json()["new"], pushed.json()["documents"]) == (200, 2, 2)
        assert _push(client).json()["same"] == 2
        assert _publish(desk)["items"]["added"] == 2
        response = client.post(
            "/api/search", json={"query": "when do boats leave"}, headers={"Authorization": "Bearer reader-key"}
        )
        assert response.json()["hits"][0]["url"] == "notes#1"
        removed = client.request(
            "DELETE",
            "/api/documents",
            json={"kb": "desk", "ids": [1, 77]},
            headers={"Authorization": "Bearer pusher-key"},
        )
        assert (removed.json()["removed"], removed.json()["documents"]) == (1, 1)
        assert _push(client, [{**_NOTES[1], "text": "Dogs wait outside."}]).json()["changed"] == 1
    items = _publish(desk)["items"]
    assert (items["removed"], items["changed"]) == (1, 1)


def test_who_may_push_and_what(desk: Path) -> None:
    with serving_of(Catalog(DataDir(desk.parent / "data"), [str(desk)]), **_KEYS) as client:
        assert _push(client, key="reader-key").status_code == 401
        assert _push(client, key="other-key").status_code == 403
        assert client.get("/api/kbs", headers={"Authorization": "Bearer pusher-key"}).status_code == 401
        assert _push(client, source="letters").status_code == 404
        assert _push(client, kb="nothing").status_code == 404
        refusals: list[tuple[Any, str]] = [
            ([_NOTES[0], {"title": "without an id"}], "document 1 has no {id}"),
            ([_NOTES[0], {"id": 2, "text": "x" * 600}], "more than 500 bytes"),
            ([{"id": number} for number in range(5)], "more than 4 documents"),
        ]
        for documents, finding in refusals:
            refused = _push(client, documents)
            assert refused.status_code == 422
            assert finding in refused.text
        assert _push(client).json()["new"] == 2  # nothing of what was refused was taken
    with serving_of(Catalog(DataDir(desk.parent / "data"), [str(desk)])) as client:
        assert _push(client).status_code == 403
