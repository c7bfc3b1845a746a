"""Takedowns and retention over a whole data directory: raw pages, what was made of them, kept versions, shared
vectors.
"""

import json
import shutil
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from almanac.core.durable import watched
from almanac.core.settings import DataDir
from almanac.flows.pipeline.apply_retention import apply_retention
from almanac.flows.pipeline.forget_url import complete_takedowns, forget_url
from almanac.index.upkeep.takedown import forgotten_urls, takedowns
from almanac.index.vectors.retention import vectors_in_use
from almanac.index.vectors.vector_store import VectorStore
from almanac.index.verify.verifier import verify_version
from almanac.index.versions.publish import publish
from almanac.index.versions.version_store import discard_unfinished, read_manifest, version_dir, version_names
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import DamagedVersion, NotFound, RunLocked, StorageError
from almanac.schemas.items import Page
from almanac.schemas.reports import RunReport
from almanac.spiders.store.raw import RawStore
from tests.index import making
from tests.index.conftest import INFO
from tests.proof.base import TORTURE

URL = "http://shop/secret"
SECRET = "a sentence that has to go away"
SHARED = "a notice that stands everywhere"
TEXTS = {
    "http://shop/1": "the first page",
    "http://shop/secretary": "another page",
    "http://shop/notice": SHARED,
    URL: SECRET,
}
DECLARATION = Declaration.model_validate(
    {
        "name": "shop",
        "sources": [{"name": "pages", "kind": "site", "start_urls": ["http://shop/1"]}],
        "retention": {"versions": 3, "crawls": 1},
    }
)


def _crawl(data: DataDir, crawl: str, texts: dict[str, str]) -> None:
    raw = RawStore(data.raw("shop", "pages"))
    with raw.journal(crawl) as journal:
        for url, text in texts.items():
            requested = "http://shop/old" if url == URL else url
            journal.add(
                Page(url=url, body=f"<p>{text}</p>".encode(), requested_url=requested, fetched_at=making.AT),
                redirects=[],
            )
    raw.stats_path(crawl).write_text(json.dumps({"finish": "finished", "failures": []}))


def _write_report(data: DataDir, run_id: str, **fields: Any) -> None:
    report = RunReport(kb="shop", run_id=run_id, outcome="published", exit_code=0, started_at=making.AT, **fields)
    data.runs("shop").mkdir(parents=True, exist_ok=True)
    (data.runs("shop") / f"{run_id}.json").write_text(report.model_dump_json(by_alias=True))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`shop` with two versions and two crawls, and `other`, which has a text of it under an address of its own."""
    data = DataDir(tmp_path_factory.mktemp("made"))
    failure = {
        "source": "pages",
        "failures": [{"url": URL, "reason": "timeout"}],
        "vanished": [URL, "http://shop/secretary"],
    }
    with making.without_children():
        # before SECRET is read: Chroma writes memory that it has not set, with what this process freed
        making.make_version(data, "other", "v0001", {"http://shop/notice": SHARED})
        for number, texts in ((1, TEXTS), (2, {**TEXTS, "http://shop/2": "a second page"})):
            _crawl(data, f"20260101T00000{number}-aaaaaa", texts)
            making.make_version(data, "shop", f"v000{number}", texts)
            _write_report(
                data,
                f"20260101T00000{number}-aaaaaa",
                sources=[failure],
                error={"kind": "x", "message": f"see {URL}: odd, and {URL}ary"},
            )
        publish(data.index("shop"), "v0002")
    processed = data.processed("shop")
    (processed / "mapped").mkdir()
    (processed / "mapped" / "pages.parquet").write_text(SECRET)
    rejects = [
        {"source": "pages", "url": url, "reason": "no text", "value": SECRET}
        for url in (URL, f"{URL}#part", "http://shop/secretary")
    ]
    (processed / "rejects.jsonl").write_text("".join(f"{json.dumps(reject)}\n" for reject in rejects))
    return data.root


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Iterator[DataDir]:
    shutil.copytree(made, tmp_path / "data")
    with making.without_children():
        yield DataDir(tmp_path / "data")


def _holding(text: str, root: Path) -> list[str]:
    """The files below a folder that hold a text, unpacked; but takedowns, which name what is gone, rejects, some of
    which are of other pages, and HNSW's graphs: without a child of its own it writes memory that it has not set.
    """
    files = [
        path
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name not in ("forgotten.jsonl", "rejects.jsonl") and path.suffix != ".bin"
    ]
    return [str(path.relative_to(root)) for path in files if text in _unpacked(path)]


def _unpacked(path: Path) -> str:
    if path.suffix == ".parquet" and path.read_bytes()[:4] == b"PAR1":
        return str(pq.read_table(path).to_pydict())
    return (zlib.decompress(path.read_bytes(), wbits=31) if path.suffix == ".gz" else path.read_bytes()).decode(
        "latin-1"
    )


def _state(data: DataDir) -> dict[str, Any]:
    """All that a takedown may touch, so far as it is the same whenever it is done."""
    index_dir, store = data.index("shop"), VectorStore(data.vectors, INFO)
    return {
        "digests": {version: read_manifest(index_dir, version).digest for version in version_names(index_dir)},
        "left": sorted(path.name for path in (index_dir / "versions").glob(".*")),
        "vectors": sorted(store.keys()),
        "processed": pq.read_table(data.processed("shop") / "documents.parquet").column("url").to_pylist(),
        "raw": sorted(path.name for path in data.raw("shop", "pages").rglob("*.gz")),
        "done": [
            (takedown.url, takedown.urls, takedown.keys, takedown.done_at is not None)
            for takedown in takedowns(index_dir)
        ],
        "reports": [path.read_text() for path in sorted(data.runs("shop").glob("*.json"))],
        "rejects": (data.processed("shop") / "rejects.jsonl").read_text(),
        "mapped": list(data.processed("shop").glob("mapped*")),
    }


@pytest.mark.slow
def test_nothing_of_a_forgotten_page_is_left_anywhere_and_all_else_is_as_it_was(data: DataDir) -> None:
    result = forget_url(data, DECLARATION, URL, "asked for by its author")
    assert result.model_dump() == {
        "kb": "shop",
        "url": URL,
        "versions": ["v0002", "v0001"],
        "items": 1,
        "chunks": 1,
        "vectors": 1,
        "pages": 1,
    }
    assert _holding(SECRET, data.root) == []
    assert _holding(f'"{URL}"', data.root / "processed") == _holding(f'"{URL}"', data.root / "raw") == []
    assert len(_holding(f"see (forgotten): odd, and {URL}ary", data.root / "processed")) == 2
    assert [
        json.loads(line)["url"] for line in (data.processed("shop") / "rejects.jsonl").read_text().splitlines()
    ] == ["http://shop/secretary"]
    (record,) = takedowns(data.index("shop"))
    assert (record.url, record.why, record.keys, record.done_at is not None) == (
        URL,
        "asked for by its author",
        [],
        True,
    )
    for kb, version in (("shop", "v0001"), ("shop", "v0002"), ("other", "v0001")):
        manifest = read_manifest(data.index(kb), version)
        assert verify_version(version_dir(data.index(kb), version), manifest, data.vectors, manifest.embedder) == []
    again = forget_url(data, DECLARATION, URL)
    assert (again.versions, again.items, again.chunks, again.vectors, again.pages) == ([], 0, 0, 0, 0)
    assert takedowns(data.index("shop"))[0].why == "asked for by its author"


def test_text_that_another_knowledge_base_has_keeps_its_vector(data: DataDir) -> None:
    assert forget_url(data, DECLARATION, "http://shop/notice").vectors == 0
    manifest = read_manifest(data.index("other"), "v0001")
    assert verify_version(version_dir(data.index("other"), "v0001"), manifest, data.vectors, manifest.embedder) == []


@pytest.mark.parametrize("spelled", ["HTTP://SHOP:80/./secret", "http://shop/old"])
def test_other_spellings_and_ways_to_the_page_are_the_page(data: DataDir, spelled: str) -> None:
    assert forget_url(data, DECLARATION, spelled).items == 1
    assert {URL, spelled} <= forgotten_urls(data.index("shop"))
    assert _holding(SECRET, data.root) == []


def test_a_url_that_nobody_knows_is_refused_with_those_near_it(data: DataDir) -> None:
    with pytest.raises(NotFound) as raised:
        forget_url(data, DECLARATION, "http://shop/secretaries")
    assert "http://shop/secretary" in (raised.value.hint or "")
    assert takedowns(data.index("shop")) == []
    with pytest.raises(NotFound):
        forget_url(data, DECLARATION, "not a url at all")


def test_while_a_run_uses_vectors_all_else_is_erased_and_the_next_one_completes_it(
    data: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("almanac.flows.pipeline.forget_url._PATIENCE_S", 0.1)
    with vectors_in_use(data.vectors), pytest.raises(RunLocked, match="erased but for its vectors"):
        forget_url(data, DECLARATION, URL)
    keys = takedowns(data.index("shop"))[0].keys
    assert len(keys) == 1
    assert VectorStore(data.vectors, INFO).missing(keys) == []
    complete_takedowns(data, DECLARATION)
    assert VectorStore(data.vectors, INFO).missing(keys) == keys
    assert takedowns(data.index("shop"))[0].done_at is not None


class Killed(BaseException):
    pass


@pytest.mark.slow
def test_takedown_that_is_killed_anywhere_is_completed_by_the_next_run(made: Path, tmp_path: Path) -> None:
    """At moments before, in the middle of and after each write and removal: at every 37th, and at each with
    ALMANAC_TORTURE=1.
    """
    reached: list[str] = []
    limit = 10_000

    def watcher(when: str, deed: str, path: Path) -> None:
        reached.append(f"{when} {deed} {path.name}")
        if len(reached) > limit:
            raise Killed

    def fresh(name: str) -> DataDir:
        shutil.copytree(made, tmp_path / name)
        return DataDir(tmp_path / name)

    with making.without_children():
        whole = fresh("whole")
        with watched(watcher):
            forget_url(whole, DECLARATION, URL)
        expected, moments = _state(whole), len(reached)
        assert moments > 50
        for limit in range(0, moments, 1 if TORTURE else 37):
            data = fresh(f"killed-{limit}")
            reached.clear()
            with watched(watcher), pytest.raises(Killed):
                forget_url(data, DECLARATION, URL)
            assert sqlite3.connect(version_dir(data.index("shop"), "v0002") / "chroma/chroma.sqlite3").execute(
                "PRAGMA integrity_check"
            ).fetchall() == [("ok",)]
            noted = bool(takedowns(data.index("shop")))
            discard_unfinished(data.index("shop"))
            complete_takedowns(data, DECLARATION)
            if not noted:
                assert _state(data)["digests"] == {
                    version: read_manifest(DataDir(made).index("shop"), version).digest
                    for version in ("v0001", "v0002")
                }
                forget_url(data, DECLARATION, URL)
            assert _state(data) == expected, f"killed {reached[-1]}"
            shutil.rmtree(data.root)


def test_retention_keeps_the_crawls_and_pages_that_kept_versions_were_made_from(data: DataDir) -> None:
    raw = RawStore(data.raw("shop", "pages"))
    for number in range(3, 6):
        _crawl(data, f"20260101T00000{number}-aaaaaa", {"http://shop/1": f"the first page, {number}"})
    _write_report(data, "20260101T000003-aaaaaa")  # the newest that came to a verdict
    path = version_dir(data.index("shop"), "v0001") / "manifest.json"
    path.write_text(
        json.dumps({**json.loads(path.read_text()), "lineage": {"crawls": {"pages": "20260101T000001-aaaaaa"}}})
    )
    result = apply_retention(data, DECLARATION)
    assert [crawl[14] for crawl in raw.crawls()] == ["1", "3", "5"]
    assert (result.crawls, result.versions) == (2, [])
    assert result.pages == 2, "the second page's, and the fourth crawl's"
    nothing = {"kb": "shop", "versions": [], "held": [], "crawls": 0, "pages": 0, "vectors": 0, "bytes": 0}
    assert apply_retention(data, DECLARATION).model_dump() == nothing


def _flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def _texts(data: DataDir, version: str) -> list[str]:
    texts: list[str] = (
        pq.read_table(version_dir(data.index("shop"), version) / "chunks.parquet").column("text").to_pylist()
    )
    return texts


def test_a_page_leaves_the_live_version_though_every_vector_part_is_damaged(data: DataDir) -> None:
    for part in data.vectors.glob("*/*.parquet"):
        _flip(part, -500)
    assert forget_url(data, DECLARATION, URL).versions == ["v0002", "v0001"]
    for version in ("v0001", "v0002"):
        assert SECRET not in _texts(data, version)
        manifest = read_manifest(data.index("shop"), version)
        assert verify_version(version_dir(data.index("shop"), version), manifest, data.vectors, INFO) == []


def test_a_page_leaves_the_live_version_though_a_kept_one_is_damaged(data: DataDir) -> None:
    _flip(version_dir(data.index("shop"), "v0001") / "documents.parquet", 100)
    with pytest.raises(
        DamagedVersion,
        match=r"is not served any more, and is still in versions that are kept and cannot be built again: v0001",
    ) as raised:
        forget_url(data, DECLARATION, URL)
    assert SECRET not in _texts(data, "v0002")
    assert "remove the folders" in (raised.value.hint or "")
    shutil.rmtree(version_dir(data.index("shop"), "v0001"))
    assert forget_url(data, DECLARATION, URL).versions == []
    assert takedowns(data.index("shop"))[0].done_at


@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize("table", ["documents.parquet", "chunks.parquet", "records.parquet"])
def test_a_page_that_cannot_leave_the_live_version_is_said_to_be_there(
    data: DataDir, table: str, is_lost: bool
) -> None:
    path = version_dir(data.index("shop"), "v0002") / table
    path.unlink() if is_lost else _flip(path, 100)
    with pytest.raises(DamagedVersion, match=f"{URL} IS STILL IN THE LIVE VERSION v0002, and is served") as raised:
        forget_url(data, DECLARATION, URL)
    assert "almanac run KB publishes a version without it" in (raised.value.hint or "")
    assert URL in forgotten_urls(data.index("shop"))


def test_an_altered_takedown_stops_whoever_would_fetch_its_page(data: DataDir) -> None:
    forget_url(data, DECLARATION, URL)
    path = data.index("shop") / "forgotten.jsonl"
    line = path.read_bytes()
    for place in range(0, len(line) - 1, 3):
        path.write_bytes(line)
        _flip(path, place)
        with pytest.raises(StorageError, match="what it forbids is not known") as raised:
            forgotten_urls(data.index("shop"))
        assert "remove the line" in (raised.value.hint or "")
    path.unlink()
    with pytest.raises(NotFound, match="nothing is known"):
        forget_url(data, DECLARATION, URL)
    assert forget_url(data, DECLARATION, URL, anyway=True).items == 0
    assert URL in forgotten_urls(data.index("shop"))
