"""The raw store: what was added comes back, and what was damaged was not fetched."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from almanac.core.durable import watched
from almanac.schemas.errors import StorageError
from almanac.schemas.items import Page
from almanac.spiders.store.journal import Entry, Head
from almanac.spiders.store.raw import RawStore


def page(url: str, body: bytes = b"body") -> Page:
    return Page(
        url=url,
        body=body,
        content_type="text/html",
        fetched_at="2026-01-01T00:00:00+00:00",
        requested_url=url,
        etag='"e"',
    )


def test_pages_come_back_whole_and_sorted(tmp_path: Path) -> None:
    raw = RawStore(tmp_path)
    with raw.journal("r1") as journal:
        journal.add(page("http://x.test/b"), redirects=["http://x.test/old"])
        journal.add(page("http://x.test/a", b"\x00\xff"))
    assert list(raw.pages("r1")) == [page("http://x.test/a", b"\x00\xff"), page("http://x.test/b")]


def test_pages_are_readable_before_the_crawl_ends(tmp_path: Path) -> None:
    raw = RawStore(tmp_path)
    with raw.journal("r1") as journal:
        journal.add(page("http://x.test/a"))
        assert [p.url for p in raw.pages("r1")] == ["http://x.test/a"]


def test_torn_line_is_passed_over_and_the_journal_goes_on(tmp_path: Path) -> None:
    raw = RawStore(tmp_path)
    with raw.journal("r1") as journal:
        journal.add(page("http://x.test/a"))
        journal.add(page("http://x.test/b"))
    path = raw.journal_path("r1")
    path.write_bytes(path.read_bytes()[:-20])
    assert [p.url for p in raw.pages("r1")] == ["http://x.test/a"]
    with raw.journal("r1") as journal:
        journal.add(page("http://x.test/c"))
    assert [p.url for p in raw.pages("r1")] == ["http://x.test/a", "http://x.test/c"]


@pytest.mark.parametrize("damage", ["missing", "torn", "other", "empty"])
def test_damaged_body_was_not_fetched_and_is_mended_by_the_next_fetch(tmp_path: Path, damage: str) -> None:
    raw = RawStore(tmp_path)
    with raw.journal("r1") as journal:
        journal.add(page("http://x.test/a", b"a" * 5000))
        journal.add(page("http://x.test/b"))
    first = next(path for path in tmp_path.glob("bodies/*/*.gz") if path.name.startswith(page("", b"a" * 5000).sha256))
    second = next(path for path in tmp_path.glob("bodies/*/*.gz") if path != first)
    if damage == "missing":
        first.unlink()
    else:
        first.write_bytes({"torn": first.read_bytes()[:20], "other": second.read_bytes(), "empty": b""}[damage])
    assert [p.url for p in raw.pages("r1")] == ["http://x.test/b"]
    with raw.journal("r1") as journal:
        journal.add(page("http://x.test/a", b"a" * 5000))
    assert len(list(raw.pages("r1"))) == 2


def test_one_body_is_stored_once_with_the_same_bytes(tmp_path: Path) -> None:
    stores = [RawStore(tmp_path / name) for name in ("one", "two")]
    for raw in stores:
        for run in ("r1", "r2"):
            with raw.journal(run) as journal:
                journal.add(page("http://x.test/a"))
    files = [list(raw.root.glob("bodies/*/*")) for raw in stores]
    assert [len(paths) for paths in files] == [1, 1]
    assert files[0][0].read_bytes() == files[1][0].read_bytes()


def test_unwritable_place_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "raw").write_text("a file where a folder should be")
    with pytest.raises(StorageError, match="raw pages cannot be stored"), RawStore(tmp_path / "raw").journal("r1"):
        pass


def stored(raw: RawStore, run_id: str, **bodies: bytes) -> None:
    with raw.journal(run_id) as journal:
        for name, body in bodies.items():
            journal.add(page(f"http://x.test/{name}", body))


def names(root: Path, pattern: str) -> list[str]:
    return sorted(path.name for path in root.glob(pattern))


@pytest.mark.parametrize("head", [b"", b'{"format": 2, "seal": ""}\n', b'{"seal": "s"}\n', b'{"form'])
def test_a_journal_of_another_format_counts_as_none(tmp_path: Path, head: bytes) -> None:
    raw = RawStore(tmp_path)
    stored(raw, "r1", a=b"a")
    path = raw.journal_path("r1")
    path.write_bytes(head + path.read_bytes().split(b"\n", 1)[1])
    assert raw.crawls() == [] and not raw.index("r1").exists and list(raw.pages("r1")) == []
    stored(raw, "r1", b=b"b")
    assert raw.crawls() == ["r1"] and [stored_page.url for stored_page in raw.pages("r1")] == ["http://x.test/b"]


def test_the_head_of_a_journal_keeps_its_names() -> None:
    """A head that is read otherwise than it was written makes the next crawl fetch everything anew."""
    assert (
        Head("who asked", "what for", 7).line()
        == b'{"format": 1, "seal": "who asked", "fetching": "what for", "number": 7, "crc32": "fea74118"}\n'
    )


def test_crawls_are_in_the_order_in_which_their_journals_were_begun(tmp_path: Path) -> None:
    """Whatever their names say. A journal without a number was written before all that have one."""
    raw = RawStore(tmp_path)
    for run_id in (
        "20310101T000000-000000",
        "20261122T000000-ffffff",
        "20261122T000000-000000",
        "19700101T000000-000000",
    ):
        stored(raw, run_id, a=b"a")
    stored(raw, "20310101T000000-000000", b=b"b")  # goes on
    assert raw.crawls() == [
        "20310101T000000-000000",
        "20261122T000000-ffffff",
        "20261122T000000-000000",
        "19700101T000000-000000",
    ]
    old = raw.journal_path("20400101T000000-000000")
    old.write_bytes(b'{"format": 1, "seal": "", "fetching": ""}\n')
    assert raw.crawls()[0] == old.stem
    assert RawStore(tmp_path / "above", raw.root).crawls() == raw.crawls()
    stored(above := RawStore(tmp_path / "above", raw.root), "19690101T000000-000000", a=b"a")
    assert above.crawls()[-1] == "19690101T000000-000000"


def test_a_store_above_another_reads_both_and_writes_to_itself_alone(tmp_path: Path) -> None:
    below = RawStore(tmp_path / "below")
    stored(below, "r1", a=b"a")
    below.stats_path("r1").write_text("{}")
    before = {path: path.read_bytes() for path in below.root.rglob("*") if path.is_file()}
    raw = RawStore(tmp_path / "above", below.root)
    stored(raw, "r2", a=b"a", b=b"b")
    assert raw.crawls() == ["r1", "r2"] and raw.stats("r1") == "{}" and raw.stats("r2") is None
    assert [stored_page.url for stored_page in raw.pages("r1")] == ["http://x.test/a"] and len(
        list(raw.pages("r2"))
    ) == 2
    assert len(names(raw.root, "bodies/*/*.gz")) == 1
    assert {path: path.read_bytes() for path in below.root.rglob("*") if path.is_file()} == before


def test_the_fingerprint_of_a_crawl_is_that_of_its_content(tmp_path: Path) -> None:
    raw = RawStore(tmp_path)
    stored(raw, "r1", a=b"a", b=b"b")
    with raw.journal("r2") as journal:
        for name in "ba":
            stored_page = replace(
                page(f"http://x.test/{name}", name.encode()), fetched_at="2027-01-01T00:00:00+00:00", etag=None
            )
            journal.add(stored_page)
    stored(raw, "r3", a=b"a", b=b"c")
    stored(raw, "r4", a=b"a", b=b"b")
    with raw.journal("r4") as journal:
        journal.alias("http://x.test/old", "http://x.test/a")
    prints = [raw.index(run_id).fingerprint for run_id in ("r1", "r2", "r3", "r4")]
    assert prints[0] == prints[1] and len(set(prints)) == 3


def test_forgetting_takes_every_trace_of_a_page_and_nothing_else(tmp_path: Path) -> None:
    raw = RawStore(tmp_path)
    secret = "http://x.test/secret"
    for run_id in ("r1", "r2"):
        stored(raw, run_id, secret=f"secret of {run_id}".encode(), a=b"a", twin=b"secret of r1")
        with raw.journal(run_id) as journal:
            journal.add(replace(page("http://x.test/new", b"new"), requested_url=secret))
            journal.add(replace(page("http://x.test/copy", b"copy"), canonical=secret))
            journal.add(page("http://x.test/hop", b"hop"), redirects=[secret])
            journal.alias(secret, "http://x.test/a")
            journal.add(
                page("http://x.test/b", b"b"),
                card=[secret, page("", f"secret of {run_id}".encode()).sha256, "text/html"],
            )
    failures = [
        {"url": secret, "reason": "gone"},
        {"url": "http://x.test/b", "reason": "denied", "detail": f"redirects to {secret}"},
    ]
    raw.stats_path("r1").write_text(
        json.dumps(
            {"failures": failures, "vanished": [secret, "http://x.test/c"], "landed": {secret: "x", "y": secret}}
        )
    )
    assert raw.forget([secret]) == 4
    assert [stored_page.url for stored_page in raw.pages("r1")] == [
        "http://x.test/a",
        "http://x.test/b",
        "http://x.test/twin",
    ]
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"/secret" in path.read_bytes()]
    left = json.loads(raw.stats_path("r1").read_text())
    assert [failure["url"] for failure in left["failures"]] == ["http://x.test/b"] and left["vanished"] == [
        "http://x.test/c"
    ]
    assert raw.forget([secret]) == 0


def test_pruning_leaves_what_a_crawl_or_a_version_needs(tmp_path: Path) -> None:
    raw = RawStore(tmp_path)
    stored(raw, "r1", a=b"a", old=b"old", older=b"older", needed=b"needed")
    stored(raw, "r2", a=b"a", new=b"new")
    with raw.journal("r2") as journal:
        journal.repeat(
            Entry.from_page(
                page("http://x.test/b", b"a"), [], ["http://x.test/old", page("", b"old").sha256, "text/html"]
            )
        )
    raw.stats_path("r1").write_text("{}")
    stray = next(tmp_path.glob("bodies/*/*.gz")).parent / ".x.gz.1.tmp"
    stray.touch()
    pruned = raw.prune({"r2"}, {page("", b"needed").sha256})
    assert (pruned.crawls, pruned.bodies) == (1, 1) and pruned.bytes > 0 and not stray.exists()
    assert names(tmp_path, "crawls/*") == ["r2.jsonl"] and len(names(tmp_path, "bodies/*/*.gz")) == 4
    assert raw.prune({"r2"}, set()).bodies == 1
    assert len(list(raw.pages("r2"))) == 3 and raw.body(page("", b"old").sha256) == b"old"  # for its card


@pytest.mark.parametrize("deed", ["prune", "forget"])
def test_pruning_and_forgetting_that_are_killed_are_completed_by_the_next(tmp_path: Path, deed: str) -> None:
    """Killed at every moment in turn: what stays is whole, and doing it again ends where it would have ended."""

    def do(raw: RawStore) -> None:
        if deed == "prune":
            raw.prune({"r2"}, set())
        else:
            raw.forget(["http://x.test/old", "http://x.test/older"])

    class Killed(BaseException):
        pass

    def state(root: Path) -> dict[str, bytes]:
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}

    for moment in itertools.count():
        raw = RawStore(tmp_path / str(moment))
        stored(raw, "r1", a=b"a", old=b"old", older=b"older")
        raw.stats_path("r1").write_text(json.dumps({"vanished": ["http://x.test/old"]}))
        stored(raw, "r2", a=b"a")
        reached = itertools.count()

        def die(*_: object, at: int = moment, reached: Iterator[int] = reached) -> None:
            if next(reached) == at:
                raise Killed

        try:
            with watched(die):
                do(raw)
        except Killed:
            assert [stored_page.body for stored_page in raw.pages("r2")] == [b"a"]
            do(raw)
            continue
        break
    whole = state(raw.root)
    assert moment >= 6
    assert all(state(tmp_path / str(number)) == whole for number in range(moment))


def test_a_flipped_bit_in_a_journal_loses_a_line_and_gives_no_page_another_address(tmp_path: Path) -> None:
    store = RawStore(tmp_path)
    urls = [f"http://shop/{n}" for n in range(3)]
    with store.journal("20260101T000000-aaaaaa") as journal:
        for url in urls:
            journal.add(Page(url=url, body=url.encode(), requested_url=url, fetched_at="2026-01-01T00:00:00+00:00"))
    path = store.journal_path("20260101T000000-aaaaaa")
    whole = path.read_bytes()
    head = whole.index(b"\n")
    for place in range(head + 1, len(whole), 7):
        content = bytearray(whole)
        content[place] ^= 4
        path.write_bytes(content)
        stored_pages = list(store.pages("20260101T000000-aaaaaa"))
        assert 1 <= len(stored_pages) <= 3 and {page.url for page in stored_pages} <= set(urls), place
        assert all(page.body == page.url.encode() for page in stored_pages)
