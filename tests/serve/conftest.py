"""What tests of the HTTP API share: published knowledge bases, and servers over them."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.flows.pipeline.run import Run
from almanac.serve.app import create_app
from almanac.serve.catalog import Catalog
from almanac.serve.http_server import configured
from almanac.serve.server_settings import Settings
from tests.flows.commands import carry_out
from tests.index.making import without_children
from tests.loopback.mistral import LoopbackMistral
from tests.loopback.serving import running

NOTES = [
    ("Opening hours", "red", "The garden closes at six in summer and at five in winter."),
    ("Tickets", "red", "Children enter for free, students pay half."),
    ("Dogs", "blue", "Dogs stay outside the garden, on a lead. The secret of the blue team is a hedgehog."),
    ("Boats", "blue", "Boats leave the pier every hour until the garden closes."),
]
_KEY = "sk-loopback-1234567890"
Serving = Callable[..., AbstractContextManager[httpx.Client]]


class Bases:
    """`notes` keeps the workspaces red and blue apart and quotes, behind `guide` a model writes; both in one data
    directory.
    """

    def __init__(self, folder: Path, mistral: LoopbackMistral) -> None:
        self.folder, self.mistral, self.data = folder, mistral, folder / "data"
        self.write(NOTES)
        self.notes = self.declare(
            "notes", retrieve={"k": 3, "floor": 0.15, "workspace": "team"}, gate={"max_lost": None}
        )
        self.guide = self.declare(
            "guide",
            retrieve={"floor": 0.15, "confident": 0.4},
            generate={"provider": "mistral", "server_url": mistral.url},
        )

    def write(self, notes: list[tuple[str, str, str]]) -> None:
        lines = [
            json.dumps(
                {
                    "title": title,
                    "team": team,
                    "text": text,
                    "url": f"https://garden.example/{title.lower().replace(' ', '-')}",
                }
            )
            for title, team, text in notes
        ]
        (self.folder / "notes.jsonl").write_text("\n".join(lines), encoding="utf-8")

    def publish(self, path: str) -> str:
        with pytest.MonkeyPatch.context() as patch, without_children():
            patch.setenv("MISTRAL_API_KEY", _KEY)
            report = carry_out(Run(load_declaration(path), DataDir(self.data)))
        assert report["outcome"] == "published", report
        return str(report["version"])

    def declare(self, name: str, **parts: Any) -> str:
        fields = {field: {"json": field, "required": True} for field in ("title", "team", "text", "url")}
        source = {
            "name": "records",
            "kind": "files",
            "glob": "notes.jsonl",
            "yields": "records",
            "title": "{title}",
            "fields": fields,
            "text": "{text}",
        }
        embed = {
            "provider": "mistral",
            "model": "mistral-embed",
            "server_url": self.mistral.url,
            "same_as": "https://api.mistral.ai",
        }
        declared = {
            "name": name,
            "title": f"The {name}",
            "sources": [{**source, "metadata": ["team"]}],
            "embed": embed,
            "clean": "none",
            **parts,
        }
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps(declared), encoding="utf-8")  # which is YAML
        return str(path)


@pytest.fixture(scope="session")
def mistral() -> Iterator[LoopbackMistral]:
    with LoopbackMistral() as server:
        yield server


@pytest.fixture(scope="session")
def bases(tmp_path_factory: pytest.TempPathFactory, mistral: LoopbackMistral) -> Bases:
    bases = Bases(tmp_path_factory.mktemp("served"), mistral)
    for path in (bases.notes, bases.guide):
        bases.publish(path)
    return bases


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key for the model on loopback, and nothing that sets a server."""
    monkeypatch.setenv("MISTRAL_API_KEY", _KEY)
    for name in ("INDEX_NAME", *(str(setting.validation_alias) for setting in Settings.model_fields.values())):
        monkeypatch.delenv(name, raising=False)


@contextmanager
def serve_bases(
    bases: Bases,
    *,
    names: list[str] | None = None,
    default: str | None = "notes",
    headers: dict[str, str] | None = None,
    **set_to: Any,
) -> Iterator[httpx.Client]:
    """Serves knowledge bases, set as it says, and gives a client whose default base is `notes`."""
    catalog = Catalog(DataDir(bases.data), names or [bases.notes, bases.guide], default=default)
    with serving_of(catalog, headers=headers, **set_to) as client:
        yield client


@contextmanager
def serving_of(catalog: Catalog, *, headers: dict[str, str] | None = None, **set_to: Any) -> Iterator[httpx.Client]:
    """Serves a catalog, set as it says."""
    settings = Settings.read(**{"port": 0, **set_to})
    config = configured(create_app(catalog, settings), settings)
    config.port = settings.port
    with (
        running(config) as address,
        httpx.Client(base_url=address, headers=headers, timeout=30, trust_env=False) as client,
    ):
        yield client


@pytest.fixture(scope="session")
def serving(bases: Bases) -> Serving:
    return partial(serve_bases, bases)


@pytest.fixture(scope="module")
def api(serving: Serving) -> Iterator[httpx.Client]:
    """A client of a server without keys, set as it comes."""
    with serving() as client:
        yield client


def events_of(response: httpx.Response) -> list[tuple[str, Any]]:
    """The server-sent events of a response: (event, data) each."""
    blocks = [dict(line.split(": ", 1) for line in block.splitlines()) for block in response.text.strip().split("\n\n")]
    return [(block["event"], json.loads(block["data"])) for block in blocks]
