"""Versions that several requests read at once: each is open once, and closed when the last one is done."""

import threading
from collections.abc import Iterator

import pytest

from almanac.core.settings import DataDir
from almanac.index.versions.pins import alone_with
from almanac.index.versions.store import point_to
from almanac.query import open_index
from almanac.query.published import PublishedIndex
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
    with index.reading() as one, index.reading() as other, index.reading("v0001") as named:
        assert one is other is named


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
    wanted = {kind: len(index.search("garden", k=9, where={"document_id": {"$ne": kind}}, mode="lexical").hits) for kind in map(str, range(12))}
    failures: list[BaseException] = []

    def ask(kind: str) -> None:
        try:
            for number in range(30):
                found = index.search("garden", k=9, where={"document_id": {"$ne": f"{kind}{number % 3 or ''}"}}, mode="lexical")
                assert len(found.hits) == wanted[kind]
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
