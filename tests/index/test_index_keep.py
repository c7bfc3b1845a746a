"""What becomes of kept versions: pruned, rebuilt, forgotten in part, promoted, compared. Real Chroma, in a data
directory of two knowledge bases.
"""

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from almanac.core.durable import watched
from almanac.core.settings import DataDir
from almanac.core.tables import CHUNKS, DOCUMENTS
from almanac.index.reader import OpenVersion
from almanac.index.upkeep.erase import forget_in_version
from almanac.index.upkeep.promote import promote_version
from almanac.index.upkeep.prune import prune
from almanac.index.upkeep.rebuild import rebuild_version
from almanac.index.upkeep.takedown import Takedown, forgotten_urls, note_takedown
from almanac.index.upkeep.url_content import find_in_tables
from almanac.index.vectors.retention import vectors_in_use
from almanac.index.vectors.vector_matrix import MATRIX
from almanac.index.vectors.vector_store import VectorStore
from almanac.index.verify.verifier import verify_version
from almanac.index.versions.lock import writer_lock
from almanac.index.versions.publish import finish_version, publish
from almanac.index.versions.version_store import (
    current_version,
    discard_unfinished,
    pin_version,
    read_manifest,
    version_dir,
    version_names,
)
from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.errors import DamagedVersion, GateRefused, NotFound, RunLocked, UsageError
from almanac.schemas.manifest import Counts
from tests.index import making
from tests.index.conftest import INFO, HashEmbedder
from tests.proof.base import LONG, TORTURE

AT = making.AT
FIRST = {f"http://shop/{n}": f"text of page {n}" for n in range(6)} | {
    "http://shop/same": "a notice that stands everywhere"
}
SECOND = {**FIRST, "http://shop/0": "text of page 0, mended", "http://shop/new": "a new page"}


@pytest.fixture(autouse=True)
def children_or_not(request: pytest.FixtureRequest) -> Iterator[None]:
    with nullcontext() if request.node.get_closest_marker("slow") else making.without_children():
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`shop` with two versions, the second live, and `other`, which shares a text with it."""
    data = DataDir(tmp_path_factory.mktemp("made"))
    with making.without_children():
        for version, texts in (("v0001", FIRST), ("v0002", SECOND)):
            making.make_version(data, "shop", version, texts)
            publish(data.index("shop"), version)
        making.make_version(data, "other", "v0001", {"http://shop/same": FIRST["http://shop/same"]})
    return data.root


@pytest.fixture
def data(made: Path, tmp_path: Path) -> DataDir:
    shutil.copytree(made, tmp_path / "data")
    return DataDir(tmp_path / "data")


def _declaration(name: str = "shop", **retention: int) -> Declaration:
    return Declaration.model_validate(
        {"name": name, "sources": [{"name": "pages", "kind": "files", "glob": "*.md"}], "retention": retention}
    )


def _problems(data: DataDir, version: str, kb: str = "shop") -> list[Any]:
    manifest = read_manifest(data.index(kb), version)
    return verify_version(version_dir(data.index(kb), version), manifest, data.vectors, manifest.embedder)


def _ask(data: DataDir, version: str, url: str, text: str, kb: str = "shop") -> list[str]:
    with OpenVersion(data.index(kb), version) as opened:
        hits = opened.query(HashEmbedder().embed_queries([f"Title of {url}. {text}"])[0], 1)
        return [row["url"] for row in opened.rows([chunk_id for chunk_id, _ in hits])]


def _keys(data: DataDir) -> set[str]:
    return set(VectorStore(data.vectors, INFO).keys())


def _key(url: str, text: str) -> str:
    return making.chunk_of(making.item(url, text)).text_sha256


def _age(data: DataDir, days: int) -> None:
    for part in data.vectors.glob("*/*.parquet"):
        os.utime(part, (time.time() - days * 86_400,) * 2)


# retention


def _pretend(data: DataDir, *numbers: int) -> None:
    for number in numbers:
        folder = version_dir(data.index("shop"), f"v{number:04d}")
        folder.mkdir(parents=True)
        finish_version(data.index("shop"), making.manifest_of("shop", folder.name, []))


def test_versions_beyond_the_declared_number_go_but_never_the_live_nor_a_held_one(data: DataDir) -> None:
    _pretend(data, *range(3, 9))
    publish(data.index("shop"), "v0001")
    pin = pin_version(data.index("shop"), "v0002")
    result = prune(data, _declaration(versions=3))
    assert (result.versions, result.held) == (["v0003", "v0004", "v0005"], ["v0002"])
    assert version_names(data.index("shop")) == ["v0001", "v0002", "v0006", "v0007", "v0008"]
    pin.close()
    assert prune(data, _declaration(versions=3)).versions == ["v0002"]


def test_vectors_go_when_they_are_old_and_nothing_kept_of_any_knowledge_base_needs_them(data: DataDir) -> None:
    _pretend(data, 3, 4, 5)
    publish(data.index("shop"), "v0005")
    shutil.rmtree(data.processed("shop"))
    everything = _keys(data)
    assert prune(data, _declaration(versions=3, vectors_days=2)).vectors == 0, "too young"
    assert version_names(data.index("shop")) == ["v0003", "v0004", "v0005"]
    _age(data, 3)
    with vectors_in_use(data.vectors):
        assert prune(data, _declaration(versions=3, vectors_days=2)).vectors == 0, "a run may count on them"
    result = prune(data, _declaration(versions=3, vectors_days=2))
    shared = _key("http://shop/same", FIRST["http://shop/same"])
    assert (_keys(data), result.vectors) == ({shared}, len(everything) - 1)
    assert result.bytes > 0
    assert _problems(data, "v0001", "other") == []


def test_vectors_from_the_future_are_as_old_as_the_first_look_at_them(data: DataDir) -> None:
    """Of a clock that was ahead: otherwise they would stay until the clock gets there."""
    _pretend(data, 3, 4, 5)
    publish(data.index("shop"), "v0005")
    shutil.rmtree(data.processed("shop"))
    _age(data, -1500)
    assert prune(data, _declaration(versions=3, vectors_days=2)).vectors == 0
    assert all(abs(part.stat().st_mtime - time.time()) < 3600 for part in data.vectors.glob("*/*.parquet"))
    _age(data, 3)
    assert prune(data, _declaration(versions=3, vectors_days=2)).vectors > 0


def test_a_table_that_cannot_be_read_keeps_every_vector(data: DataDir) -> None:
    (version_dir(data.index("other"), "v0001") / CHUNKS).write_bytes(b"PAR1 and no more")
    _pretend(data, 3, 4, 5)
    publish(data.index("shop"), "v0005")
    shutil.rmtree(data.processed("shop"))
    _age(data, 40)
    before = _keys(data)
    assert prune(data, _declaration(versions=3)).vectors == 0
    assert _keys(data) == before


class Killed(BaseException):
    """A kill at a moment: whatever the process would have tidied up afterwards is not done either."""


def _killed_at(moment: int, reached: list[str]) -> Any:
    def watcher(when: str, deed: str, path: Path) -> None:
        reached.append(f"{when} {deed} {path.name}")
        if len(reached) > moment:
            raise Killed

    return watched(watcher)


def _moments(work: Any) -> int:
    reached: list[str] = []
    with _killed_at(10_000, reached):
        work()
    return len(reached)


@pytest.mark.slow
def test_pruning_that_is_killed_anywhere_ends_where_one_that_was_not_does(made: Path, tmp_path: Path) -> None:
    def fresh(name: str) -> DataDir:
        shutil.copytree(made, tmp_path / name)
        data = DataDir(tmp_path / name)
        _pretend(data, 3, 4, 5)
        publish(data.index("shop"), "v0005")
        shutil.rmtree(data.processed("shop"))
        _age(data, 3)
        return data

    declaration = _declaration(versions=3, vectors_days=2)
    whole = fresh("whole")
    moments = _moments(lambda: prune(whole, declaration))
    assert moments > 8
    for moment in range(moments):
        data = fresh(f"killed-{moment}")
        with pytest.raises(Killed), _killed_at(moment, []):
            prune(data, declaration)
        shared = data.processed("other") / CHUNKS
        assert VectorStore(data.vectors, INFO).missing(pq.read_table(shared).column("text_sha256").to_pylist()) == []
        prune(data, declaration)
        assert (version_names(data.index("shop")), _keys(data)) == (version_names(whole.index("shop")), _keys(whole))
        assert [path.name for path in (data.index("shop") / "versions").glob(".*")] == []
        shutil.rmtree(data.root)


# rebuild


@LONG
@pytest.mark.slow
def test_rebuild_mends_a_ruined_live_version_while_readers_go_on(data: DataDir) -> None:
    before = read_manifest(data.index("shop"), "v0002")
    with OpenVersion(data.index("shop"), "v0002") as early, OpenVersion(data.index("shop"), "v0002") as late:
        vector = HashEmbedder().embed_queries(["anything"])[0]
        answer = early.query(vector, 5)
        result = rebuild_version(data.index("shop"), "v0002", data.vectors)
        assert (result.digest, result.embedded, result.chunks) == (before.digest, 0, len(SECOND))
        assert early.query(vector, 5) == answer
        assert not late.is_in_place
        assert late.query(vector, 5) == answer, "opened after another folder took the name, and still the one it held"
        assert len(list((data.index("shop") / "versions").glob(".*"))) == 1, "kept for as long as it is read"
    discard_unfinished(data.index("shop"))
    assert list((data.index("shop") / "versions").glob(".*")) == []
    after = read_manifest(data.index("shop"), "v0002")
    assert after.lineage["build"]["kind"] == "full"
    same = {"files", "lineage"}
    assert after.model_dump(exclude=same) == before.model_dump(exclude=same)
    shutil.rmtree(version_dir(data.index("shop"), "v0002") / "chroma")
    assert {problem.kind for problem in _problems(data, "v0002")} >= {"file_missing"}
    rebuild_version(data.index("shop"), "v0002", data.vectors)
    assert _problems(data, "v0002") == []


def test_what_a_version_is_made_from_cannot_be_rebuilt_and_the_error_says_what_to_do(data: DataDir) -> None:
    with pytest.raises(NotFound):
        rebuild_version(data.index("shop"), "v0009", data.vectors)
    _pretend(data, 9)
    (part,) = [path for path in data.vectors.glob("*/*.parquet") if pq.read_metadata(path).num_rows == len(FIRST)]
    part.rename(part.with_suffix(".aside"))
    own = version_dir(data.index("shop"), "v0001") / MATRIX
    own.rename(own.with_suffix(".aside"))
    with pytest.raises(DamagedVersion, match="cannot be built again: no vector") as raised:
        rebuild_version(data.index("shop"), "v0001", data.vectors)
    assert "almanac run KB" in (raised.value.hint or "")
    own.with_suffix(".aside").rename(own)
    table = version_dir(data.index("shop"), "v0001") / DOCUMENTS
    content = bytearray(table.read_bytes())
    content[100] ^= 1
    table.write_bytes(content)
    with pytest.raises(DamagedVersion, match=r"documents\.parquet of v0001 was altered"):
        rebuild_version(data.index("shop"), "v0001", data.vectors)
    assert list((data.index("shop") / "versions").glob(".*")) == []


@pytest.mark.parametrize("damage", ["lost", "keys", "vectors"])
def test_rebuild_restores_vectors_that_only_the_version_has(data: DataDir, damage: str) -> None:
    for part in data.vectors.glob("*/*.parquet"):
        content = bytearray(part.read_bytes())
        content[80 if damage == "keys" else -500] ^= 1
        part.unlink() if damage == "lost" else part.write_bytes(content)
    rebuild_version(data.index("shop"), "v0001", data.vectors)
    assert _problems(data, "v0001") == []


@pytest.mark.slow
def test_rebuild_that_is_killed_anywhere_leaves_the_version_whole(made: Path, tmp_path: Path) -> None:
    def fresh(name: str) -> DataDir:
        shutil.copytree(made / "index" / "shop", tmp_path / name / "index" / "shop")
        shutil.copytree(made / "vectors", tmp_path / name / "vectors")
        return DataDir(tmp_path / name)

    whole = fresh("whole")
    moments = _moments(lambda: rebuild_version(whole.index("shop"), "v0001", whole.vectors))
    assert moments >= 8
    for moment in range(0, moments, 1 if TORTURE else 8):
        data = fresh(f"killed-{moment}")
        with pytest.raises(Killed), _killed_at(moment, []):
            rebuild_version(data.index("shop"), "v0001", data.vectors)
        assert version_names(data.index("shop")) == ["v0001", "v0002"]
        assert _ask(data, "v0001", "http://shop/3", FIRST["http://shop/3"]) == ["http://shop/3"]
        discard_unfinished(data.index("shop"))
        assert list((data.index("shop") / "versions").glob(".*")) == []
        shutil.rmtree(data.root)


# forget


def _takedown(url: str) -> Takedown:
    return Takedown(url=url, urls=[url], at=AT)


def test_forgetting_makes_the_version_that_never_had_the_page(data: DataDir, tmp_path: Path) -> None:
    url = "http://shop/3"
    (secret,) = {FIRST[url]}
    forgotten = forget_in_version(data.index("shop"), "v0002", _takedown(url), data.vectors, Embed())
    assert (forgotten.items, len(forgotten.chunks), forgotten.keys) == ({("pages", url)}, 1, {_key(url, secret)})
    never = DataDir(tmp_path / "never")
    expected = making.make_version(never, "shop", "v0001", {key: text for key, text in SECOND.items() if key != url})
    manifest = read_manifest(data.index("shop"), "v0002")
    assert (manifest.digest, manifest.counts) == (expected.digest, expected.counts)
    assert manifest.lineage["forgotten"] == [{"url": url, "at": AT, "items": 1, "chunks": 1}]
    assert current_version(data.index("shop")) == "v0002"
    assert _problems(data, "v0002") == []
    assert _ask(data, "v0002", url, secret) != [url]
    content = (version_dir(data.index("shop"), "v0002") / "chroma" / "chroma.sqlite3").read_bytes()
    assert b"text of page 4" in content
    assert secret.encode() not in content, "a database keeps what is deleted from it: it is made anew"
    assert not forget_in_version(data.index("shop"), "v0002", _takedown(url), data.vectors, Embed()).items


def test_a_version_of_which_nothing_is_left_stays_and_answers_nothing(data: DataDir) -> None:
    forget_in_version(data.index("other"), "v0001", _takedown("http://shop/same"), data.vectors, Embed())
    manifest = read_manifest(data.index("other"), "v0001")
    assert manifest.counts == Counts(records=0, documents=0, chunks=0)
    assert _problems(data, "v0001", "other") == []
    assert _ask(data, "v0001", "http://shop/same", "anything", "other") == []


def test_places_in_a_page_are_the_page_and_other_pages_are_not(tmp_path: Path) -> None:
    urls = ["http://x/p", "http://x/p#one", "http://x/p#two", "http://x/p2", "http://x/p/", "http://x/p?a=1"]
    making.put_tables(tmp_path, dict.fromkeys(urls, "text"))
    assert {url for _, url in find_in_tables(tmp_path, ["http://x/p"]).items} == set(urls[:3])
    assert {url for _, url in find_in_tables(tmp_path, ["http://x/p#one"]).items} == {"http://x/p#one"}


def test_takedowns_are_recorded_once_each_and_a_torn_record_is_no_silence(tmp_path: Path) -> None:
    assert forgotten_urls(tmp_path) == frozenset()
    note_takedown(tmp_path, Takedown(url="http://x/ä", urls=["http://x/ä", "http://x/%C3%A4"], at=AT, keys=["k"]))
    note_takedown(tmp_path, Takedown(url="http://x/ä", urls=["http://x/ä", "http://x/%C3%A4"], at=AT, done_at=AT))
    note_takedown(tmp_path, _takedown("http://x/b"))
    assert len((tmp_path / "forgotten.jsonl").read_text().splitlines()) == 2
    assert forgotten_urls(tmp_path) == {"http://x/ä", "http://x/%C3%A4", "http://x/b"}
    with (tmp_path / "forgotten.jsonl").open("a") as file:
        file.write('{"url": "http://x/c"')
    with pytest.raises(Exception, match="a takedown cannot be read"):
        forgotten_urls(tmp_path)


# promote


def test_promoted_version_is_whole_there_with_its_vectors_and_where_it_came_from(data: DataDir, tmp_path: Path) -> None:
    target = DataDir(tmp_path / "production")
    result = promote_version(data, target, "shop", "v0002")
    assert (result.promoted, result.published, result.to) == ("v0001", True, str(target.root))
    manifest, origin = read_manifest(target.index("shop"), "v0001"), read_manifest(data.index("shop"), "v0002")
    assert manifest.digest == origin.digest == result.digest
    assert manifest.lineage["promoted"] == {
        "version": "v0002",
        "digest": origin.digest,
        "run_id": "run-v0002",
        "created_at": AT,
    }
    assert (current_version(target.index("shop")), _problems(target, "v0001")) == ("v0001", [])
    assert rebuild_version(target.index("shop"), "v0001", target.vectors).digest == origin.digest
    again = promote_version(data, target, "shop", "v0002")
    assert (again.promoted, again.published, version_names(target.index("shop"))) == ("v0001", True, ["v0001"])


def test_promoting_refuses_what_must_not_go_live_there(data: DataDir, tmp_path: Path) -> None:
    target = DataDir(tmp_path / "production")
    with pytest.raises(UsageError, match="already"):
        promote_version(data, DataDir(data.root), "shop", "v0002")
    with pytest.raises(NotFound):
        promote_version(data, target, "shop", "v0009")
    with writer_lock(target.index("shop"), "run-1"), pytest.raises(RunLocked, match="run-1"):
        promote_version(data, target, "shop", "v0002")
    note_takedown(target.index("shop"), _takedown("http://shop/3"))
    with pytest.raises(UsageError, match="taken down there"):
        promote_version(data, target, "shop", "v0002")
    path = version_dir(data.index("shop"), "v0001") / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "gate": {"verdict": "refused", "checks": []}}))
    with pytest.raises(GateRefused):
        promote_version(data, target, "shop", "v0001")
    shutil.rmtree(version_dir(data.index("shop"), "v0002") / "chroma")
    with pytest.raises(DamagedVersion):
        promote_version(data, DataDir(tmp_path / "elsewhere"), "shop", "v0002")
    assert version_names(target.index("shop")) == []
