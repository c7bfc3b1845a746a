"""CURRENT, which has the writer's lock, and which only its holder can move."""

import json
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any
from unittest.mock import patch

import pytest

from almanac.core.lifetime import process_start
from almanac.core.machine import machine_id
from almanac.core.store.objects import Objects
from almanac.core.store.pointer import holder_of, read_head, taking_lock
from almanac.schemas.errors import RunLocked, StorageError
from tests.conftest import PATIENCE_S
from tests.loopback.s3 import Bucket, overwrite

_CURRENT = "heads/kb/CURRENT"


def _current(objects: Objects) -> dict[str, Any]:
    pointer = objects.read(_CURRENT)
    assert pointer is not None
    return dict(json.loads(pointer.content))


def test_one_writer_at_a_time_and_each_has_a_higher_token(bucket: Bucket) -> None:
    objects = Objects(bucket.url)
    with taking_lock(objects, "kb", "run 1") as first:
        assert first.head.token == 1
        with pytest.raises(RunLocked, match="being written by run 1"), taking_lock(objects, "kb", "run 2"):
            pass
        held = holder_of(objects, "kb")
        assert held is not None
        assert (held["holder"], held["pid"]) == ("run 1", os.getpid())
    assert holder_of(objects, "kb") is None
    with taking_lock(objects, "kb", "run 3") as third:
        assert third.head.token == 2
        assert read_head(objects, "kb").head.token == 2


def test_of_writers_that_come_at_the_same_time_one_gets_the_lock(bucket: Bucket) -> None:
    objects, won, all_came = Objects(bucket.url), list[str](), Barrier(4)

    def take(name: str) -> None:
        try:
            with taking_lock(objects, "kb", name) as writer:
                won.append(name)
                all_came.wait(PATIENCE_S)
                writer.move(areas={"raw": name})
        except RunLocked:
            all_came.wait(PATIENCE_S)
            raise

    for number in range(3):
        won.clear()
        with ThreadPoolExecutor(4) as pool:
            lost = [taking.exception() for taking in [pool.submit(take, f"{number} {writer}") for writer in range(4)]]
        assert len(won) == 1
        assert sum(isinstance(error, RunLocked) for error in lost) == 3
        assert read_head(objects, "kb").head.areas == {"raw": won[0]}


def test_a_writer_that_was_paused_while_another_took_over_cannot_publish(bucket: Bucket) -> None:
    objects = Objects(bucket.url)
    with taking_lock(objects, "kb", "paused") as paused:
        with patch("almanac.core.store.pointer._EXPIRES_S", -1.0), taking_lock(objects, "kb", "other") as other:
            # although the other one has not pushed anything yet
            with pytest.raises(RunLocked, match="lost the lock"):
                paused.move(areas={"raw": "a"})
            with pytest.raises(RunLocked, match="lost the lock"):
                paused.require_held()
            other.move(areas={"raw": "b"})
            other.require_held()
        with pytest.raises(RunLocked):
            paused.move(areas={"raw": "c"})
        paused.release()
    assert read_head(objects, "kb").head.areas == {"raw": "b"}
    with taking_lock(objects, "kb", "next") as following:
        assert following.head.token == 3


def test_a_lock_expires_by_the_clock_of_the_store_and_a_dead_process_of_this_machine_at_once(bucket: Bucket) -> None:
    objects, ended = Objects(bucket.url), subprocess.Popen(["true"])
    ended.wait()
    with taking_lock(objects, "kb", "first"):
        left = _current(objects)

    def leave(**held: object) -> None:
        overwrite(objects, _CURRENT, json.dumps({**left, "held": {**left["held"], **held}}).encode())

    leave(machine="a container of the same name", pid=1)
    with pytest.raises(RunLocked, match="being written by first") as locked, taking_lock(objects, "kb", "second"):
        pass
    assert "its lock expires in" in str(locked.value.hint)
    leave(machine=machine_id(), pid=os.getpid(), process_start=process_start(os.getpid()))
    with pytest.raises(RunLocked), taking_lock(objects, "kb", "third"):
        pass
    leave(pid=ended.pid, process_start="1")
    with taking_lock(objects, "kb", "fourth") as fourth:
        assert fourth.head.token == 2


def test_a_lock_that_is_renewed_is_kept_and_its_release_is_the_end_of_it(bucket: Bucket) -> None:
    objects = Objects(bucket.url)
    with patch("almanac.core.store.pointer._RENEW_S", 0.05), taking_lock(objects, "kb", "renewing") as writer:
        before, deadline = _current(objects), time.monotonic() + PATIENCE_S
        while (now := _current(objects))["nonce"] == before["nonce"]:
            assert time.monotonic() < deadline
        assert {**now, "nonce": 0, "at": 0} == {**before, "nonce": 0, "at": 0}
    writer.move()  # a renewal that comes late does not take back what was released
    assert holder_of(objects, "kb") is None


def test_a_pointer_that_nobody_can_read_is_an_error(bucket: Bucket) -> None:
    objects = Objects(bucket.url)
    for content in (b"{", b'{"format": 1}'):
        overwrite(objects, _CURRENT, content)
        with pytest.raises(StorageError, match="cannot be read"):
            read_head(objects, "kb")
