"""Versions that several requests read at once: each is open once, and closed when the last one is done."""

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from almanac.core.load import load_declaration
from almanac.core.pins import alone_with
from almanac.core.settings import DataDir
from almanac.index.versions.version_store import point_to
from almanac.query import open_index
from almanac.query.open_versions import VersionPool
from almanac.query.published import PublishedIndex
from almanac.schemas.errors import DamagedVersion, StorageError
from tests.index.small_models import save_embedder
from tests.query.small_base import SmallBase


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> SmallBase:
    base = SmallBase(tmp_path_factory.mktemp("held"))
    save_embedder(base.folder / "model")
    base.publish(embed={"model": "./model"})
    (base.folder / "notes" / "parrots.txt").write_text("Parrots live in the aviary.")
    base.publish(embed={"model": "./model"})
    return base


@pytest.fixture
def index(base: SmallBase) -> Iterator[PublishedIndex]:
    point(base, "v0001")
    with open_index(str(base.path), data=base.data) as index:
        yield index
    point(base, "v0002")


def point(base: SmallBase, version: str) -> None:
    point_to(DataDir(base.data).index("small"), version)


def is_held(base: SmallBase, version: str) -> bool:
    with alone_with(DataDir(base.data).versions("small") / version) as alone:
        return not alone


def test_requests_on_a_version_share_it(index: PublishedIndex) -> None:
    with index.reading() as first, index.reading() as other, index.reading("v0001") as named:
        assert first is other is named


def test_a_request_finishes_on_its_version_which_is_closed_then(index: PublishedIndex, base: SmallBase) -> None:
    with index.reading() as old:
        point(base, "v0002")
        with index.reading() as new:
            assert (old.opened.manifest.version, new.opened.manifest.version) == ("v0001", "v0002")
        assert is_held(base, "v0001")
        assert len(old.opened.chunk_ids) == 4
    assert not is_held(base, "v0001")
    assert is_held(base, "v0002")


def test_a_version_that_was_asked_for_by_name_waits_a_little(index: PublishedIndex, base: SmallBase) -> None:
    with index.reading("v0002") as named:
        pass
    with index.reading("v0002") as again:
        assert again is named
    assert is_held(base, "v0002")
    index.keep_up()
    assert is_held(base, "v0002")
    index._pool.close_idle(idle_s=0.0)
    assert not is_held(base, "v0002")


def test_closing_waits_for_nobody_and_takes_nothing_away(index: PublishedIndex, base: SmallBase) -> None:
    with index.reading() as reading:
        index.close()
        assert len(reading.opened.chunk_ids) == 4
    assert not is_held(base, "v0001")


def test_threads_find_what_one_finds(index: PublishedIndex, base: SmallBase) -> None:
    """Twelve threads with filters of their own, while versions change under them."""
    wanted = {
        kind: len(index.search("garden", k=9, where={"document_id": {"$ne": kind}}, mode="lexical").hits)
        for kind in map(str, range(12))
    }
    failures: list[BaseException] = []

    def ask(kind: str) -> None:
        try:
            for number in range(30):
                search_result = index.search(
                    "garden", k=9, where={"document_id": {"$ne": f"{kind}{number % 3 or ''}"}}, mode="lexical"
                )
                assert len(search_result.hits) == wanted[kind]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ask, args=(kind,)) for kind in wanted]
    for thread in threads:
        thread.start()
    for number in range(20):
        point(base, f"v000{1 + number % 2}")
    for thread in threads:
        thread.join()
    assert failures == []


def test_of_the_versions_asked_for_by_name_the_one_that_waits_longest_makes_room() -> None:
    opened: list[str] = []
    closed: list[str] = []

    def open_version(name: str) -> Any:
        opened.append(name)
        return SimpleNamespace(
            opened=SimpleNamespace(is_in_place=True, is_wanted=False, close=lambda: closed.append(name))
        )

    pool = VersionPool(lambda version: version or "live", open_version)
    for name in (None, "a", "b", "a", "c", "a", None):
        with pool.reading(name):
            pool.close_idle(idle_s=1000.0)
    assert (opened, closed) == (["live", "a", "b", "c"], ["b"])
    pool.close()
    assert sorted(closed) == ["a", "b", "c", "live"]


def test_requests_of_an_open_version_go_on_while_another_one_is_opened_once() -> None:
    begun, may_end, opened = threading.Event(), threading.Event(), list[str]()

    def open_version(name: str) -> Any:
        opened.append(name)
        if name == "slow":
            begun.set()
            assert may_end.wait(60)
        return SimpleNamespace(name=name, opened=SimpleNamespace(is_in_place=True, is_wanted=False, close=lambda: None))

    pool = VersionPool(lambda version: version or "live", open_version)

    def names(version: str | None) -> str:
        with pool.reading(version) as retriever:
            return str(retriever.name)  # type: ignore[attr-defined]

    with ThreadPoolExecutor(4) as threads, pool.reading():
        slow = [threads.submit(names, "slow") for _ in range(3)]
        assert begun.wait(60)
        assert threads.submit(names, None).result(60) == "live"
        pool.close_idle()
        may_end.set()
        assert [future.result(60) for future in slow] == ["slow"] * 3
    assert opened == ["live", "slow"]


def test_a_pool_that_is_held_goes_on_with_what_is_open_until_another_version_is_warm() -> None:
    live, opened, closed = ["a"], list[str](), list[str]()

    def open_version(name: str) -> Any:
        opened.append(name)
        return SimpleNamespace(
            name=name, opened=SimpleNamespace(is_in_place=True, is_wanted=False, close=lambda: closed.append(name))
        )

    pool = VersionPool(lambda version: version or live[-1], open_version)

    def warm(retriever: Any) -> None:
        with pool.reading() as live_retriever:
            assert live_retriever.name == "a"  # type: ignore[attr-defined]
        if retriever.name == "broken":
            raise DamagedVersion("it is damaged")

    pool.hold()
    pool.switch(warm)
    assert opened == []  # nobody has asked yet
    with pool.reading() as before:
        live.append("broken")
        with pytest.raises(DamagedVersion):
            pool.switch(warm)
        assert (pool.usual, closed) == ("a", ["broken"])
        live.append("b")
        with pool.reading() as still:
            assert still is before
        pool.switch(warm)
        with pool.reading() as after:
            assert (after.name, closed) == ("b", ["broken"])  # type: ignore[attr-defined]
    assert closed == ["broken", "a"]  # with its last request
    after.opened.is_in_place = False  # type: ignore[misc]  # a takedown made it anew under its name
    with patch.object(pool, "_open_version", lambda name: open_version(f"{name} anew")):
        pool.switch(lambda _: None)
    with pool.reading() as anew:
        assert anew.name == "b anew"  # type: ignore[attr-defined]
    pool.close()


@pytest.mark.skipif(sys.platform != "linux", reason="leases are Linux's")
def test_a_backup_copied_over_an_open_version_waits_for_its_requests_and_is_opened_anew(
    base: SmallBase, tmp_path: Path
) -> None:
    folder = DataDir(base.data).versions("small") / "v0002"
    copied = shutil.copytree(folder, tmp_path / "v0002")
    with PublishedIndex(load_declaration(str(base.path)), DataDir(base.data), gives_way=True) as index:
        with index.reading() as reading:
            texts = {row["text"] for row in reading.opened.rows(reading.opened.chunk_ids)}
            copying = subprocess.Popen(["cp", "-a", f"{copied}/.", str(folder)])
            _until(lambda: reading.opened.is_wanted)
            index.give_way()
            assert copying.poll() is None
            assert {row["text"] for row in reading.opened.rows(reading.opened.chunk_ids)} == texts
        assert copying.wait(30) == 0
        with index.reading() as again:
            assert again is not reading
            assert {row["text"] for row in again.opened.rows(again.opened.chunk_ids)} == texts


def test_a_version_that_is_being_written_is_refused_as_such(base: SmallBase) -> None:
    folder = DataDir(base.data).versions("small") / "v0002"
    with (
        PublishedIndex(load_declaration(str(base.path)), DataDir(base.data), gives_way=True) as index,
        (folder / "vectors.npy").open("r+b"),
        pytest.raises(StorageError, match="v0002 of 'small' is being written"),
        index.reading(),
    ):
        pass


def _until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)
