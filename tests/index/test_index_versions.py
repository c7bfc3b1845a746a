"""Versions, the pointer, publishing, going back, the digest and the lock: what goes by files alone."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from almanac.core.pins import remove_unless_pinned
from almanac.core.settings import installation
from almanac.core.tables import chunks_table
from almanac.index.build.digest import digest_of
from almanac.index.upkeep.prune import expired_versions
from almanac.index.versions.lock import lock_holder, writer_lock
from almanac.index.versions.publications import altered_publications, publications
from almanac.index.versions.publish import finish_version, publish, publish_after, rollback
from almanac.index.versions.version_store import (
    current_version,
    discard_unfinished,
    list_versions,
    next_version,
    pin_version,
    point_to,
    read_manifest,
    report_versions,
    resolve_version,
    version_dir,
)
from almanac.schemas.errors import DamagedVersion, GateRefused, NotFound, NothingPublished, RunLocked
from almanac.schemas.items import ChunkRow
from almanac.schemas.manifest import Verdict

Rows = Callable[[int], list[ChunkRow]]


def test_nothing_published_says_what_to_do(base: Any) -> None:
    assert current_version(base.index_dir) is None
    assert list_versions(base.index_dir) == []
    for ask in (resolve_version, rollback):
        with pytest.raises(NothingPublished) as raised:
            ask(base.index_dir)
        assert raised.value.hint == "almanac run KB"


def test_published_version_is_the_current_one(base: Any) -> None:
    base.pretend("v0001")
    publish(base.index_dir, "v0001")
    assert (base.index_dir / "CURRENT").read_text() == "v0001\n"
    assert resolve_version(base.index_dir) == current_version(base.index_dir) == "v0001"


def test_numbers_go_on_after_the_highest_version_and_pass_9999(base: Any) -> None:
    assert next_version(base.index_dir) == "v0001"
    base.pretend("v0002")
    base.pretend("v9999")
    version_dir(base.index_dir, "v20000").mkdir()  # unfinished
    assert next_version(base.index_dir) == "v10000"
    base.pretend("v10000")
    assert [manifest.version for manifest in list_versions(base.index_dir)] == ["v0002", "v9999", "v10000"]


def test_unfinished_directories_are_discarded_and_versions_kept(base: Any) -> None:
    base.pretend("v0001")
    (version_dir(base.index_dir, "v0002") / "chroma").mkdir(parents=True)
    assert discard_unfinished(base.index_dir) == ["v0002"]
    assert [path.name for path in (base.index_dir / "versions").iterdir()] == ["v0001"]
    assert discard_unfinished(base.index_dir) == []


@pytest.mark.parametrize("version", ["v0009", "v1", "../../etc", ""])
def test_unknown_version_is_answered_with_those_there_are(base: Any, version: str) -> None:
    base.pretend("v0001")
    with pytest.raises(NotFound) as raised:
        resolve_version(base.index_dir, version)
    assert "v0001" in (raised.value.hint or "")


def test_pointer_to_a_missing_version_is_damage_and_rollback_mends_it(base: Any) -> None:
    base.pretend("v0001")
    point_to(base.index_dir, "v0007")
    with pytest.raises(DamagedVersion) as raised:
        resolve_version(base.index_dir)
    assert "almanac rollback KB" in (raised.value.hint or "")
    assert rollback(base.index_dir) == "v0001"
    assert current_version(base.index_dir) == "v0001"


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 2}', '{"format": 1}'])
def test_manifest_that_cannot_be_understood_is_damage(base: Any, content: str) -> None:
    base.pretend("v0001")
    (version_dir(base.index_dir, "v0001") / "manifest.json").write_text(content)
    with pytest.raises(DamagedVersion):
        read_manifest(base.index_dir, "v0001")


def test_refused_gate_keeps_the_current_version_unless_overridden(base: Any) -> None:
    base.pretend("v0001")
    base.pretend("v0002", passed=False)
    publish(base.index_dir, "v0001")
    with pytest.raises(GateRefused):
        publish(base.index_dir, "v0002")
    assert current_version(base.index_dir) == "v0001"
    publish(base.index_dir, "v0002", override="checked by hand")
    assert current_version(base.index_dir) == "v0002"


def test_rollback_goes_to_the_newest_older_version_that_passed(base: Any) -> None:
    for version, passed in (("v0001", True), ("v0002", True), ("v0003", False), ("v0004", True), ("v0005", True)):
        base.pretend(version, passed)
    publish(base.index_dir, "v0004")
    assert rollback(base.index_dir) == "v0002"
    assert rollback(base.index_dir) == "v0001"
    with pytest.raises(NotFound):
        rollback(base.index_dir)
    assert rollback(base.index_dir, "v0005") == current_version(base.index_dir) == "v0005"


def test_rollback_goes_to_a_version_that_was_live_by_override(base: Any) -> None:
    for version, passed in (("v0001", True), ("v0002", False), ("v0003", False), ("v0004", True)):
        base.pretend(version, passed)
    for version, why in (("v0001", None), ("v0002", "checked by hand"), ("v0004", None)):
        publish(base.index_dir, version, override=why)
    rows = {row.version: row for row in report_versions(base.index_dir).versions}
    assert {version: (row.state, row.override, row.published_at is not None) for version, row in rows.items()} == {
        "v0004": ("current", None, True), "v0003": ("refused", None, False), "v0002": ("refused", "checked by hand",
        True), "v0001": ("kept", None, True),
    }  # fmt: skip
    assert [rollback(base.index_dir), rollback(base.index_dir)] == ["v0002", "v0001"]


@pytest.mark.parametrize(
    "content", [None, b"", b"\xff\xfe\x00v0002", b"v0042\n", b"../../v0002\n", b"v0002\nv0001\n", b"x" * 5_000_000]
)
def test_a_lost_pointer_is_told_with_the_versions_and_mended(base: Any, content: bytes | None) -> None:
    for version in ("v0001", "v0002", "v0003"):
        base.pretend(version)
    for version in ("v0003", "v0002"):  # v0003 was rolled back from
        publish(base.index_dir, version)
    path = base.index_dir / "CURRENT"
    for mend in (rollback, lambda index_dir: publish(index_dir, "v0002")):
        path.unlink() if content is None else path.write_bytes(content)
        for ask in (current_version, resolve_version):
            with pytest.raises(DamagedVersion, match=r"v0002 was published last") as raised:
                ask(base.index_dir)
            assert "v0001, v0002, v0003" in (raised.value.hint or "") and "almanac rollback KB" in (
                raised.value.hint or ""
            )
            assert len(str(raised.value)) < 1000
        assert report_versions(base.index_dir).current is None
        assert not publish_after(base.index_dir, "v0003", "v0002")
        mend(base.index_dir)
        assert current_version(base.index_dir) == "v0002"


def test_rollback_from_a_lost_pointer_skips_what_is_gone(base: Any) -> None:
    for version in ("v0001", "v0002", "v0003"):
        base.pretend(version)
        publish(base.index_dir, version)
    (base.index_dir / "CURRENT").unlink()
    shutil.rmtree(version_dir(base.index_dir, "v0003"))
    with (base.index_dir / "published.jsonl").open("ab") as file:
        file.write(b"\xff torn")
    assert rollback(base.index_dir) == "v0002"


def test_where_no_complete_version_is_left_the_hint_is_a_run(base: Any) -> None:
    base.pretend("v0001")
    publish(base.index_dir, "v0001")
    shutil.rmtree(version_dir(base.index_dir, "v0001"))
    for ask in (current_version, rollback):
        with pytest.raises((DamagedVersion, NotFound)) as raised:
            ask(base.index_dir)
        assert "almanac run KB" in (raised.value.hint or "")
    base.pretend("v0002")
    assert publish_after(base.index_dir, "v0002", None)


def test_versions_that_were_never_live_are_named_where_nothing_is_published(base: Any) -> None:
    base.pretend("v0001")
    assert current_version(base.index_dir) is None
    with pytest.raises(NothingPublished) as raised:
        resolve_version(base.index_dir)
    assert "almanac publish KB v0001" in (raised.value.hint or "")


def test_a_version_goes_live_only_after_the_one_it_was_made_after(base: Any) -> None:
    for version in ("v0001", "v0002", "v0003"):
        base.pretend(version)
    assert publish_after(base.index_dir, "v0001", None)
    assert publish_after(base.index_dir, "v0002", "v0001")
    rollback(base.index_dir)
    assert not publish_after(base.index_dir, "v0003", "v0002")
    assert current_version(base.index_dir) == "v0001"


def test_finished_version_is_never_written_again(base: Any) -> None:
    base.pretend("v0001")
    with pytest.raises(DamagedVersion, match="finished already"):
        finish_version(base.index_dir, read_manifest(base.index_dir, "v0001"))


@given(st.randoms(use_true_random=False), st.text(max_size=30))
def test_digest_does_not_depend_on_row_order_or_on_when_it_was_fetched(rng: random.Random, fetched_at: str) -> None:
    rows = [
        ChunkRow(
            f"d{n}",
            "s",
            f"http://x/{n}",
            "T",
            "record",
            0,
            None,
            None,
            f"text {n}",
            f"T. text {n}",
            {"n": n},
            "2026-01-01",
        )
        for n in range(12)
    ]
    shuffled = [replace(row, fetched_at=fetched_at.replace("\0", "")) for row in rng.sample(rows, len(rows))]
    assert digest_of(chunks_table(shuffled), "f") == digest_of(chunks_table(rows), "f")


@pytest.mark.parametrize(
    "change",
    [
        {"text": "x"},
        {"metadata": {"n": 2}},
        {"passage": "x"},
        {"title": "x"},
        {"embedded_text": "x"},
        {"url": "x"},
        {"ordinal": 9},
    ],
)
def test_digest_depends_on_everything_that_a_reader_can_see(chunk_rows: Rows, change: dict[str, Any]) -> None:
    rows = chunk_rows(3)
    assert digest_of(chunks_table([replace(rows[0], **change), *rows[1:]]), "f") != digest_of(chunks_table(rows), "f")


def test_digest_depends_on_the_embedder_and_on_every_row(chunk_rows: Rows) -> None:
    table = chunks_table(chunk_rows(3))
    assert (
        len(
            {
                digest_of(table, "f"),
                digest_of(table, "g"),
                digest_of(table.slice(1), "f"),
                digest_of(table.slice(3), "f"),
            }
        )
        == 4
    )


def test_second_taker_of_the_lock_is_told_who_holds_it(base: Any) -> None:
    assert lock_holder(base.index_dir) is None
    with writer_lock(base.index_dir, "run-7"):
        holder = lock_holder(base.index_dir)
        assert holder is not None
        assert (holder["holder"], holder["pid"]) == ("run-7", os.getpid())
        with pytest.raises(RunLocked, match="run-7") as raised, writer_lock(base.index_dir, "run-8"):
            pass
        assert holder["since"] in raised.value.message
        assert lock_holder(base.index_dir) == holder
    assert lock_holder(base.index_dir) is None
    with writer_lock(base.index_dir, "run-9"):
        pass


def test_lock_of_a_dead_holder_is_free_at_once(base: Any) -> None:
    code = (
        "import sys, time; from pathlib import Path; from almanac.index.versions.lock import writer_lock\n"
        "with writer_lock(Path(sys.argv[1]), 'run-1'):\n    print('held', flush=True); time.sleep(60)"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(base.index_dir)], stdout=subprocess.PIPE, cwd=installation()
    )
    assert other.stdout is not None
    other.stdout.readline()
    with pytest.raises(RunLocked, match=f"run-1 .pid {other.pid}"), writer_lock(base.index_dir, "run-2"):
        pass
    other.send_signal(signal.SIGKILL)
    other.communicate()
    assert lock_holder(base.index_dir) is None
    with writer_lock(base.index_dir, "run-2"):
        assert json.loads((base.index_dir / "LOCK.holder").read_text())["holder"] == "run-2"


@pytest.mark.slow
@pytest.mark.parametrize(
    "left",
    [
        "",
        "{",
        "[]",
        "null",
        '{"pid": "x"}',
        '{"pid": 1, "holder": "run-0", "host": "elsewhere", "since": "", "process_start": "1"}',
    ],
)
def test_whatever_a_dead_holder_left_the_lock_is_free(base: Any, left: str) -> None:
    """Also where its pid, or its host, are somebody else's by now."""
    with writer_lock(base.index_dir, "run-1"):
        pass
    (base.index_dir / "LOCK.holder").write_text(left)
    assert lock_holder(base.index_dir) is None
    with writer_lock(base.index_dir, "run-2"):
        (base.index_dir / "LOCK.holder").write_text(left)
        holder = lock_holder(base.index_dir)
        assert holder is not None
        assert holder["holder"] in (None, "run-0")
        with pytest.raises(RunLocked), writer_lock(base.index_dir, "run-3"):
            pass


def _remove_lock(base: Any) -> None:
    (base.index_dir / "LOCK").unlink()


def _replace_lock(base: Any) -> None:
    (base.index_dir / "LOCK").unlink()
    (base.index_dir / "LOCK").touch()


def _name_somebody_else(base: Any) -> None:
    entry = json.loads((base.index_dir / "LOCK.holder").read_text())
    (base.index_dir / "LOCK.holder").write_text(json.dumps({**entry, "holder": "run-2"}))


@pytest.mark.parametrize("lose", [_remove_lock, _replace_lock, _name_somebody_else])
def test_holder_that_lost_the_lock_can_neither_finish_nor_publish(base: Any, lose: Callable[[Any], None]) -> None:
    base.pretend("v0001")
    with writer_lock(base.index_dir, "run-1") as lease:
        publish(base.index_dir, "v0001", lease=lease)
        base.pretend("v0002")
        version_dir(base.index_dir, "v0003").mkdir()
        lose(base)
        with pytest.raises(RunLocked, match="lost the lock"):
            publish(base.index_dir, "v0002", lease=lease)
        with pytest.raises(RunLocked, match="lost the lock"):
            finish_version(
                base.index_dir,
                read_manifest(base.index_dir, "v0002").model_copy(update={"version": "v0003"}),
                lease=lease,
            )
    assert current_version(base.index_dir) == "v0001"
    assert not (version_dir(base.index_dir, "v0003") / "manifest.json").exists()


def test_holder_that_lost_the_lock_leaves_the_new_holder_alone(base: Any) -> None:
    with writer_lock(base.index_dir, "run-1"):
        _remove_lock(base)
        second = writer_lock(base.index_dir, "run-2")
        second.__enter__()
    holder = lock_holder(base.index_dir)
    assert holder is not None
    assert holder["holder"] == "run-2"
    second.__exit__(None, None, None)
    assert lock_holder(base.index_dir) is None


def test_asking_who_writes_never_keeps_a_writer_out(base: Any) -> None:
    code = (
        "import sys; from pathlib import Path; from almanac.index.versions.lock import lock_holder\nwhile True: "
        "lock_holder(Path(sys.argv[1]))"
    )
    asking = subprocess.Popen([sys.executable, "-c", code, str(base.index_dir)], cwd=installation())
    try:
        for _ in range(50):
            with writer_lock(base.index_dir, "run-1"):
                pass
    finally:
        asking.kill()
        asking.wait()


def _older_format(base: Any, version: str) -> None:
    path = version_dir(base.index_dir, version) / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 1}))


def test_version_of_another_format_stops_nothing_but_its_own_reading(base: Any) -> None:
    for version in ("v0001", "v0002", "v0003"):
        base.pretend(version)
    publish(base.index_dir, "v0003")
    _older_format(base, "v0002")
    _older_format(base, "v0003")
    assert [manifest.version for manifest in list_versions(base.index_dir)] == ["v0001"]
    assert next_version(base.index_dir) == "v0004"
    with pytest.raises(DamagedVersion, match="format 1") as raised:
        resolve_version(base.index_dir, "v0003")
    assert "almanac run KB" in (raised.value.hint or "")
    assert rollback(base.index_dir) == "v0001"


def test_nobody_goes_back_to_a_version_whose_files_are_not_there(base: Any) -> None:
    for version in ("v0001", "v0002", "v0003"):
        version_dir(base.index_dir, version).mkdir(parents=True)
        (version_dir(base.index_dir, version) / "chunks.parquet").write_bytes(b"rows")
        finish_version(base.index_dir, base.manifest(version, [], Verdict(verdict="passed", checks=[])))
    publish(base.index_dir, "v0003")
    (version_dir(base.index_dir, "v0002") / "chunks.parquet").write_bytes(b"row")
    with pytest.raises(DamagedVersion, match="has 3 bytes instead of 4"):
        rollback(base.index_dir, "v0002")
    assert current_version(base.index_dir) == "v0003"
    assert rollback(base.index_dir) == "v0001"


def test_refused_version_that_was_published_all_the_same_can_be_gone_back_to(base: Any) -> None:
    base.pretend("v0001", passed=False)
    base.pretend("v0002")
    with pytest.raises(GateRefused):
        rollback(base.index_dir, "v0001")
    publish(base.index_dir, "v0001", override="checked by hand")
    publish(base.index_dir, "v0002")
    assert rollback(base.index_dir, "v0001") == current_version(base.index_dir) == "v0001"


def test_what_a_reader_holds_is_left_and_swept_once_it_is_free(base: Any) -> None:
    base.pretend("v0001")
    pin = pin_version(base.index_dir, "v0001")
    folder = version_dir(base.index_dir, "v0001")
    assert not remove_unless_pinned(folder)
    assert pin.is_in_place()
    folder.rename(folder.with_name(".v0001.1"))  # what `rebuild` leaves of the old one
    assert not pin.is_in_place()
    assert (pin.folder / "manifest.json").is_file()
    discard_unfinished(base.index_dir)
    assert folder.with_name(".v0001.1").is_dir()
    pin.close()
    discard_unfinished(base.index_dir)
    assert list((base.index_dir / "versions").iterdir()) == []
    with pytest.raises(NotFound):
        pin_version(base.index_dir, "v0001")


def test_reader_that_died_holds_nothing(base: Any) -> None:
    base.pretend("v0001")
    code = (
        "import sys, time; from pathlib import Path; from almanac.index.versions.version_store import pin_version\n"
        "pin = pin_version(Path(sys.argv[1]), 'v0001'); print('held', flush=True); time.sleep(60)"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(base.index_dir)], stdout=subprocess.PIPE, cwd=installation()
    )
    assert other.stdout is not None
    other.stdout.readline()
    assert not remove_unless_pinned(version_dir(base.index_dir, "v0001"))
    other.send_signal(signal.SIGKILL)
    other.communicate()
    assert remove_unless_pinned(version_dir(base.index_dir, "v0001"))


def test_a_flipped_byte_in_the_record_of_publications_is_noticed_and_kept(base: Any) -> None:
    for version in ("v0001", "v0002"):
        base.pretend(version)
        publish(base.index_dir, version)
    path = base.index_dir / "published.jsonl"
    assert altered_publications(base.index_dir) == []
    content = bytearray(path.read_bytes())
    content[20] ^= 1
    path.write_bytes(content)
    assert altered_publications(base.index_dir) == ["published.jsonl:1"]
    base.pretend("v0003")
    publish(base.index_dir, "v0003")
    assert altered_publications(base.index_dir) == ["published.jsonl:1"]
    assert [publication.version for publication in publications(base.index_dir)] == ["v0002", "v0003"]


def test_a_lost_pointer_beside_a_damaged_record_is_no_first_publication(base: Any) -> None:
    base.pretend("v0001")
    publish(base.index_dir, "v0001")
    (base.index_dir / "CURRENT").unlink()
    path = base.index_dir / "published.jsonl"
    path.write_bytes(path.read_bytes().replace(b"v0001", b"v0002"))
    with pytest.raises(DamagedVersion, match="CURRENT is missing"):
        current_version(base.index_dir)


def test_refused_versions_stay_while_they_are_among_the_newest_and_displace_none(base: Any) -> None:
    """A site that is refused every night does not fill the disk."""
    for number in range(1, 10):
        base.pretend(f"v{number:04d}", passed=number < 3)
    publish(base.index_dir, "v0002")
    assert expired_versions(base.index_dir, 20) == ["v0003", "v0004", "v0005", "v0006"]
