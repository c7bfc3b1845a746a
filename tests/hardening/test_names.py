"""Names that are paths, or look like other names: nothing is read or written outside of where names lead."""

import builtins
import io
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.index.versions.version_store import resolve_version
from almanac.schemas.errors import AlmanacError
from almanac.serve.caller_view import View
from almanac.serve.catalog import Catalog
from almanac.serve.mcp_resources import read_resource
from tests.hardening.tally import some, tallied
from tests.loopback.mistral import LoopbackMistral
from tests.serve.conftest import Bases, serve_bases

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("hardening-names")]
_OUTSIDE = "outside"
_STEPS = [
    "../",
    "..\\",
    "..%2f",
    "%2e%2e/",
    "%252e%252e%252f",
    "..／",
    "．．/",
    "．．／",
    "․․/",
    "..;/",
    "....//",
    ".//..//",
    "..\0/",
    "\\\\..\\",
    "~/../",
    "./../",
]
_OTHERS = [
    "/",
    "//",
    ".",
    "..",
    "",
    " ",
    "\0",
    "CON",
    "NUL",
    "aux.yaml",
    "COM1",
    "/dev/null",
    "/dev/stdin",
    "/proc/self/environ",
    "file:///etc/passwd",
    "~root",
    "$HOME",
    "`id`",
    "notes.",
    "notes ",
    " notes",
    "notes\u200b",
    "NOTES",
    "nоtes",
    "ｎｏｔｅｓ",
    "notes/",
    "notes/.",
    "notes\0.yaml",
    "notes%00",
    "notes\n",
    "notes:stream",
    "n" * 300,
    "é" * 200,
    "*",
    "?",
    "[a]",
    "v0001/..",
    "v0001",
    "v١٢٣٤",
    "v00001",
    "CURRENT",
    "LOCK",
    "versions",
    ".v0001.1",
    "-rf",
    "--help",
    "\u202enotes",
    "\ud800",
    "\ufeffnotes",
    "{kb}",
]
_TARGETS = ["secret", "secret.yaml", "outside/secret", "outside/secret.yaml", "etc/passwd"]
_opened: list[str] = []


@contextmanager
def _watched() -> Iterator[None]:
    """Notes every file that Python opens within the block. Not by an audit hook: where coverage is measured, threads
    die of one.
    """
    _opened.clear()
    with pytest.MonkeyPatch.context() as patch:
        for module in (builtins, io, os):
            patch.setattr(module, "open", _noting(module.open))
        yield


def _noting(opening: Callable[..., Any]) -> Callable[..., Any]:
    def noted(path: Any, *more: Any, **named: Any) -> Any:
        _opened.append(str(path))
        return opening(path, *more, **named)

    return noted


def _strayed() -> str | None:
    """What was opened that a name must not lead to."""
    return next(
        (
            path
            for path in _opened
            if f"/{_OUTSIDE}/" in path or path.endswith(("/etc/passwd", "/environ", "/dev/null/x"))
        ),
        None,
    )


def _names(folder: Path) -> list[str]:
    up = [step * times + target for step, times, target in product(_STEPS, (1, 2, 4, 12), _TARGETS)]
    return list(
        dict.fromkeys(
            [
                *_OTHERS,
                *up,
                *(f"{folder}/{_OUTSIDE}/{target}" for target in _TARGETS),
                *(f"notes/{name}" for name in up[::7]),
            ]
        )
    )


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory, mistral: LoopbackMistral) -> Bases:
    folder = tmp_path_factory.mktemp("names")
    for path in (folder / _OUTSIDE, folder / "data" / _OUTSIDE):
        path.mkdir(parents=True)
        for name in ("secret", "secret.yaml", "manifest.json"):
            (path / name).write_text("name: secret\nsources: []\n", encoding="utf-8")
    knowledge_bases = Bases(folder, mistral)
    knowledge_bases.publish(knowledge_bases.notes)
    return knowledge_bases


def _tree(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*") if "chroma" not in path.parts}


def test_a_name_from_a_caller_leads_to_no_file(bases: Bases) -> None:
    """Knowledge bases, versions, sources, documents and passages, by HTTP and as resources of MCP."""
    names, catalog = some(_names(bases.folder), 60), Catalog(DataDir(bases.data), [bases.notes])
    view = View(catalog, None)
    with (
        serve_bases(bases, names=[bases.notes]) as client,
        tallied("Names as paths, from callers", "nothing is opened, made or told that lies elsewhere", 1_500) as tally,
    ):
        before = _tree(bases.folder)
        for name in names:
            sent = name.encode("utf-8", "replace").decode()
            resources = (
                f"almanac://{name}/sources",
                f"almanac://notes/sources/{name}/x",
                f"almanac://notes/passages/{name}",
            )
            requests: list[Callable[[], Any]] = [
                partial(client.get, "/api/sources", params={"kb": sent}),
                partial(client.get, "/api/sources", params={"version": sent}),
                partial(client.post, "/api/search", json={"query": "garden", "kb": sent}),
                partial(client.post, "/api/chat", json={"message": "garden", "version": sent}),
                partial(client.get, f"/static/{sent.replace(chr(0), '%00')}"),
                *(partial(read_resource, view, uri) for uri in resources),
            ]
            for number, ask in enumerate(requests):
                finding = None
                with _watched():
                    try:
                        response = ask()
                        if isinstance(response, httpx.Response) and (
                            response.status_code >= 500 or "name: secret" in response.text
                        ):
                            finding = f"{response.status_code} {response.text[:200]}"
                    except (AlmanacError, httpx.InvalidURL):
                        pass
                    except Exception as error:
                        finding = f"{type(error).__name__}: {error}"
                tally.note(f"{number}: {name!r}", finding or _strayed())
        made = _tree(bases.folder) - before
        tally.fallen += sorted(path for path in made if "/versions/v0001/.sentences-" not in str(path))  # kept vectors
    catalog.close()


def test_a_name_in_a_declaration_or_a_command_leads_to_no_file(bases: Bases) -> None:
    """Names of knowledge bases, collections, sources and versions."""
    own = bases.data / "index" / "notes"
    with tallied(
        "Names as paths, in declarations and of versions",
        "refused, or a name like any other; nothing is opened or made elsewhere",
        800,
    ) as tally:
        before = _tree(bases.folder)
        for name in some(_names(bases.folder), 60):
            for key in ("name", "source", "collection"):
                source = {"name": name if key == "source" else "s", "kind": "files", "glob": "*.txt"}
                declared = {
                    "name": name if key == "name" else "kb",
                    "sources": [source],
                    **({"index": {"collection": name}} if key == "collection" else {}),
                }
                finding = None
                try:
                    path = bases.folder / "probe.yaml"
                    path.write_text(json.dumps(declared), encoding="utf-8")
                    with _watched():
                        declaration = load_declaration(str(path))
                    if any(
                        mark in f"{declaration.name}{declaration.sources[0].name}{declaration.collection}"
                        for mark in ("/", "\\", "\0", " ", "..")
                    ):
                        finding = "accepted"
                except (AlmanacError, UnicodeEncodeError):
                    pass
                tally.note(f"{key} {name!r}", finding or _strayed())
            finding = None
            with _watched():
                try:
                    resolve_version(own, name)
                    finding = None if name == "v0001" else "resolved"
                except AlmanacError:
                    pass
                except Exception as error:
                    finding = f"{type(error).__name__}: {error}"
            tally.note(f"version {name!r}", finding or _strayed())
        (bases.folder / "probe.yaml").unlink(missing_ok=True)
        tally.fallen += sorted(_tree(bases.folder) - before)
