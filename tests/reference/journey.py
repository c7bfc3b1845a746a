"""From a declaration to items, without embedding: crawl or read, map, prepare; as the flow does it, in this process."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from almanac.core.load import load_declaration
from almanac.schemas.crawl_outcome import CrawlOutcome
from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.source import FilesSource, SiteSource, Source
from almanac.schemas.items import Item, Reject
from almanac.spiders.crawling.crawl import crawl_site
from almanac.spiders.crawling.read_files import read_files
from almanac.spiders.mapping.diagnose import require_matches
from almanac.spiders.mapping.pages import map_pages
from almanac.spiders.store.raw import RawStore
from almanac.transforms.deduplicate import Deduplication
from almanac.transforms.prepare import prepare_items
from tests.conftest import PATIENCE_S

_HERE = Path(__file__).resolve().parent
SHARED = _HERE.parents[2] / "shared"
CONTENT = SHARED / "sites"
_RUN = "reference"


@dataclass(slots=True)
class SourceContent:
    """What one source gave: the URLs stored, its items before de-duplication and after, and what was quarantined."""

    outcome: CrawlOutcome
    stored: list[str] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    distinct_items: list[Item] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)


@contextmanager
def served(site: str) -> Iterator[str]:
    """The URL of a site of the reference content, served on loopback while the block lasts."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, str(CONTENT / "serve.py"), str(CONTENT / site), str(port)], stdout=subprocess.DEVNULL
    )
    try:
        _wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    with socket.socket() as probe:
        while probe.connect_ex(("127.0.0.1", port)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"nothing answers on port {port} after {PATIENCE_S} s")
            time.sleep(0.05)


def travel(name: str, **places: str) -> dict[str, SourceContent]:
    """Every source of `NAME.yaml`, by its name. `places` are the variables of the declaration, such as SITE."""
    with patch.dict(os.environ, {"CONTENT": str(CONTENT), **places}):
        declaration = load_declaration(str(_HERE / f"{name}.yaml"))
    with tempfile.TemporaryDirectory(prefix="reference-") as folder:
        return {source.name: _gather(declaration, source, Path(folder) / source.name) for source in declaration.sources}


def _gather(declaration: Declaration, source: Source, folder: Path) -> SourceContent:
    raw = RawStore(folder)
    content = SourceContent(_acquire(declaration, source, raw))
    pages = list(raw.pages(_RUN))
    content.stored = [page.url for page in pages]
    matched: dict[str, int] = {}
    seen = 0
    for extraction in map_pages(pages, source, declaration.language):
        seen += len(extraction.drafts) + len(extraction.rejects)
        content.rejects += extraction.rejects
        for name, count in extraction.matched.items():
            matched[name] = matched.get(name, 0) + count
        for prepared in prepare_items(
            extraction.drafts,
            source,
            declaration.clean,
            language=declaration.language,
            workspace=declaration.retrieve.workspace,
        ):
            if isinstance(prepared, Item):
                content.items.append(prepared)
            else:
                content.rejects.append(prepared)
    require_matches(source, matched, seen, len(pages))
    content.distinct_items = list(Deduplication().keep_first(content.items))
    return content


def _acquire(declaration: Declaration, source: Source, raw: RawStore) -> CrawlOutcome:
    if isinstance(source, SiteSource):
        return crawl_site(source, raw, _RUN)
    assert isinstance(source, FilesSource)
    return read_files(source, declaration.path.parent, raw, _RUN)
