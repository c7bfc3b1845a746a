"""What is done to a knowledge base on the stage: runs below Prefect, what keeps versions, and a close look at what
there is.

The embedder is a few lines, what is a child process otherwise is done in this one, and a checkpoint is a few texts, so
that crash points lie close together.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from almanac.core.durable import is_removed
from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS
from almanac.flows.pipeline.apply_retention import apply_retention
from almanac.flows.pipeline.forget_url import forget_url
from almanac.flows.pipeline.plan import plan as plan_run
from almanac.flows.pipeline.run import Run, new_run_id
from almanac.index.reader import OpenVersion
from almanac.index.segments.segment_store import SEGMENTS, is_sealed
from almanac.index.segments.version_tables import VersionTables
from almanac.index.upkeep.compact import compact_version
from almanac.index.upkeep.promote import promote_version
from almanac.index.upkeep.rebuild import rebuild_version
from almanac.index.vectors.retention import vectors_in_use
from almanac.index.verify.verifier import verify_version
from almanac.index.versions import version_store as stored
from almanac.index.versions.lock import lock_holder, writer_lock
from almanac.index.versions.publish import rollback as move_back
from almanac.schemas.crawl_outcome import CrawlOutcome
from almanac.schemas.declaration.source import FilesSource
from almanac.schemas.errors import AlmanacError
from almanac.schemas.items import Page
from almanac.schemas.scope import Scope
from almanac.spiders.crawling.find_files import FoundFile
from almanac.spiders.crawling.read_files import _read
from tests.flows.commands import carry_out
from tests.index.conftest import INFO, HashEmbedder
from tests.index.making import child_here
from tests.proof.noting import Noting, noted

CHECKPOINT = 4  # texts in a part
_EMBEDDED = "embedded.txt"  # beside the data: a line for each text that was given to the model


@contextmanager
def small_and_here(place: Path) -> Iterator[None]:
    """The tiny embedder, no children, small checkpoints, and deltas although a full build of so few rows is cheaper."""
    with ExitStack() as patches:
        for module in ("almanac.flows.pipeline.run", "almanac.query.published"):
            patches.enter_context(patch(f"{module}.describe_embedder", lambda _: INFO))
            patches.enter_context(patch(f"{module}.load_embedder", lambda *_, **__: Noting(place / _EMBEDDED)))
        for module in ("almanac.index.build.builder", "almanac.index.verify.verifier"):
            patches.enter_context(patch(f"{module}.run_child", child_here))
        patches.enter_context(patch("almanac.index.build.child_process.ForkServer.start", lambda *_: None))
        patches.enter_context(patch("almanac.flows.pipeline.embed.CHECKPOINT", CHECKPOINT))
        patches.enter_context(patch("almanac.index.build.builder._WORTH", 0))
        # deeds of two threads have no order
        patches.enter_context(patch("almanac.flows.refresh.is_built_meanwhile", lambda *_: False))
        patches.enter_context(patch("almanac.spiders.crawling.read_files._read", partial(_read_if_readable, place)))
        yield


def _read_if_readable(place: Path, source: FilesSource, file: FoundFile, outcome: CrawlOutcome) -> Page | None:
    """Permissions mean nothing to root: what `unreadable.txt` names is looked for in a folder that is a file."""
    listed = place / "unreadable.txt"
    is_listed = listed.is_file() and file.url in listed.read_text().split()
    return _read(source, FoundFile(file.url, str(listed / "x")) if is_listed else file, outcome)


def act(name: str, place: Path, arguments: dict[str, Any]) -> Any:
    """Carries out one of the functions below; an error that tells the operator what to do is a result, too."""
    try:
        return globals()[name](place, **arguments)
    except AlmanacError as error:
        return error.as_json()


def _declaration_and_data(place: Path) -> tuple[Any, DataDir]:
    return load_declaration(str(place / "proof.yaml")), DataDir(place / "data")


def run(place: Path, publish: bool = True, full: bool = False) -> dict[str, Any]:
    run_id = f"{new_run_id()[:-6]}{_next(place):06x}"  # two runs of a user never begin in the same second, and these do
    return carry_out(Run(*_declaration_and_data(place), Scope(full=full), run_id=run_id), go_live=publish)


def _next(place: Path) -> int:
    path = place / "runs.txt"
    with path.open("a") as file:
        file.write(".")
    return path.stat().st_size


def plan(place: Path) -> dict[str, Any]:
    return plan_run(*_declaration_and_data(place)).model_dump(by_alias=True)


def rollback(place: Path, version: str | None = None) -> str:
    """As the command does it."""
    declaration, data = _declaration_and_data(place)
    return move_back(data.index(declaration.name), version)


def prune(place: Path) -> dict[str, Any]:
    declaration, data = _declaration_and_data(place)
    with writer_lock(data.index(declaration.name), "prune") as lease:
        return apply_retention(data, declaration, lease=lease).model_dump()


def forget(place: Path, url: str) -> dict[str, Any]:
    declaration, data = _declaration_and_data(place)
    index_dir = data.index(declaration.name)
    with writer_lock(index_dir, "forget") as lease:
        stored.discard_unfinished(index_dir)
        return forget_url(data, declaration, url, "the proof asks for it", lease=lease).model_dump()


def rebuild(place: Path, version: str) -> dict[str, Any]:
    declaration, data = _declaration_and_data(place)
    index_dir = data.index(declaration.name)
    with writer_lock(index_dir, "rebuild") as lease, vectors_in_use(data.vectors):
        stored.discard_unfinished(index_dir)
        return rebuild_version(index_dir, version, data.vectors, lease=lease).model_dump()


def compact(place: Path) -> dict[str, Any]:
    declaration, data = _declaration_and_data(place)
    index_dir = data.index(declaration.name)
    with writer_lock(index_dir, "compact") as lease, vectors_in_use(data.vectors):
        stored.discard_unfinished(index_dir)
        return compact_version(index_dir, declaration.index.segment, data.vectors, lease=lease).model_dump()


def promote(place: Path, version: str) -> dict[str, Any]:
    """To the data directory of another place, beside this one."""
    declaration, data = _declaration_and_data(place)
    return promote_version(data, DataDir(place / "production"), declaration.name, version).model_dump()


def look(place: Path, verified: str = "live", data: str = "data") -> dict[str, Any]:
    """What a reader finds: each version by its content, and what lies about that should not.

    The live version is opened and asked; it, `all` or `none` are verified.
    """
    index_dir = DataDir(place / data).index("proof")
    live = stored.current_version(index_dir)
    if live is not None:
        _require_answers(index_dir, live)
    names = stored.version_names(index_dir)
    chosen = {"live": [live] if live else [], "all": names, "none": []}[verified]
    return {
        "current": live,
        "versions": {version: _version(index_dir, version) for version in names},
        "problems": [
            problem for version in chosen for problem in _problems(index_dir, version, place / data / "vectors")
        ],
        "embedded": len(noted(place / _EMBEDDED)),
        "left": sorted(
            str(path.relative_to(place / data))
            for path in [*(place / data).rglob("*"), *_unnamed(index_dir)]
            if _is_left(path)
        ),
        "locked": lock_holder(index_dir),
    }


def _require_answers(index_dir: Path, version: str) -> None:
    with OpenVersion(index_dir, version) as opened:
        # All that there are: a version that is half there would give less.
        hits = {chunk_id for chunk_id, _ in opened.query(HashEmbedder().embed_queries(["anything"])[0], 1000)}
        assert hits == set(opened.chunk_ids), f"{version} answers with {len(hits)} of {len(opened.chunk_ids)} chunks"


def _version(index_dir: Path, version: str) -> dict[str, Any]:
    manifest = stored.read_manifest(index_dir, version)
    stored_tables = VersionTables.in_folder(stored.version_dir(index_dir, version), manifest)
    tables = [
        stored_tables.read(name, ["source", "document_id", "url", "text"])
        for name in (RECORDS, DOCUMENTS)
        if stored_tables.parts(name)
    ]
    return {
        "digest": manifest.digest,
        "items": sorted([*row.values()] for table in tables for row in table.to_pylist()),
        "chunks": sorted(stored_tables.read(CHUNKS, ["chunk_id"]).column(0).to_pylist()),
        "deleted": sum(use.deleted for use in manifest.segments),
    }


def _unnamed(index_dir: Path) -> list[Path]:
    """The sealed segments that no version names, under a name by which `_is_left` knows them."""
    named = {
        use.segment
        for version in stored.version_names(index_dir)
        for use in stored.read_manifest(index_dir, version).segments
    }
    return [
        path.with_suffix(".tmp")
        for path in (index_dir / SEGMENTS).glob("*")
        if is_sealed(path) and path.name not in named
    ]


def _problems(index_dir: Path, version: str, vectors: Path) -> list[dict[str, Any]]:
    manifest = stored.read_manifest(index_dir, version)
    problems = verify_version(stored.version_dir(index_dir, version), manifest, vectors, manifest.embedder)
    return [{"version": version, **problem.model_dump()} for problem in problems]


def _is_left(path: Path) -> bool:
    """Whether a path is what only a crash leaves. A temporary file of a live process is no such thing; none lives
    here.
    """
    parent_is_versions = path.parent.name == "versions"
    return (
        path.suffix in (".tmp", ".damaged")
        or is_removed(path)
        or path.parent.name == ".staging"
        or (parent_is_versions and not (path / "manifest.json").is_file())
        or (path.parent.name == SEGMENTS and not is_sealed(path) and path.suffix != ".tmp")
    )


def die() -> None:
    """As kill -9 does it: nothing is closed, no `finally` runs."""
    os._exit(9)
