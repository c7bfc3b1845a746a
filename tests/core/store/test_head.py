"""The writer's lock in a store, and CURRENT, which only its holder can move."""

import json
import os
import socket
import subprocess
from unittest.mock import Mock, patch

import pytest

from almanac.core.lifetime import process_start
from almanac.core.machine import machine_id
from almanac.core.store.head import holder_of, read_head, writing
from almanac.core.store.objects import Objects
from almanac.schemas.errors import RunLocked, StorageError
from tests.loopback.s3 import Bucket


def _alter_lock(objects: Objects, **changes: object) -> None:
    found = objects.read("heads/kb/LOCK")
    assert found is not None
    objects.write_blindly("heads/kb/LOCK", json.dumps({**json.loads(found.content), **changes}).encode())


def test_one_writer_at_a_time_and_each_has_a_higher_token(bucket: Bucket) -> None:
    objects = Objects(bucket.url)
    with writing(objects, "kb", "run 1") as first:
        assert first.token == 1
        with pytest.raises(RunLocked, match="being written by run 1"), writing(objects, "kb", "run 2"):
            pass
        held = holder_of(objects, "kb")
        assert held is not None
        assert (held["holder"], held["pid"]) == ("run 1", os.getpid())
    assert holder_of(objects, "kb") is None
    with writing(objects, "kb", "run 3") as third:
        assert third.token == 2
        assert read_head(objects, "kb").head.token == 2


def test_a_writer_that_was_paused_while_another_took_over_cannot_publish(bucket: Bucket) -> None:
    objects = Objects(bucket.url)
    with writing(objects, "kb", "paused") as paused:
        with patch("almanac.core.store.head._EXPIRES_S", -1.0), writing(objects, "kb", "other") as other:
            # although the other one has not pushed anything yet
            with pytest.raises(RunLocked, match="paused lost the lock"):
                paused.point_to(paused.seen.head.model_copy(update={"root": "a"}))
            other.point_to(other.seen.head.model_copy(update={"root": "b"}))
        with pytest.raises(RunLocked):
            paused.point_to(paused.seen.head.model_copy(update={"root": "c"}))
        paused.release()
    assert read_head(objects, "kb").head.root == "b"
    with writing(objects, "kb", "next") as following:
        assert following.token == 3


def test_a_lock_expires_by_the_clock_of_the_store_and_a_dead_process_of_this_machine_at_once(bucket: Bucket) -> None:
    objects, ended = Objects(bucket.url), subprocess.Popen(["true"])
    ended.wait()
    with writing(objects, "kb", "first"):
        pass
    _alter_lock(objects, released=False, host=socket.gethostname(), machine="a container of the same name", pid=1)
    with pytest.raises(RunLocked, match="being written by first") as locked, writing(objects, "kb", "second"):
        pass
    assert "its lock expires in" in str(locked.value.hint)
    _alter_lock(
        objects, released=False, machine=machine_id(), pid=os.getpid(), process_start=process_start(os.getpid())
    )
    with pytest.raises(RunLocked), writing(objects, "kb", "third"):
        pass
    _alter_lock(objects, released=False, pid=ended.pid, process_start="1")
    with writing(objects, "kb", "fourth") as fourth:
        assert fourth.token == 2


def test_a_lock_that_is_renewed_is_kept_and_one_that_was_lost_is_noticed(bucket: Bucket) -> None:
    objects = Objects(bucket.url)
    with patch("almanac.core.store.head._RENEW_S", 0.05), writing(objects, "kb", "renewing") as writer:
        before = objects.read("heads/kb/LOCK")
        assert before is not None
        while (found := objects.read("heads/kb/LOCK")) is None or found.etag == before.etag:
            pass
        _alter_lock(objects, holder="somebody else", token=9)
        while not writer._lost:
            pass
        with pytest.raises(RunLocked, match="renewing lost the lock"):
            writer.point_to(writer.seen.head)


def test_a_head_that_nobody_can_read_is_an_error(bucket: Bucket) -> None:
    objects = Objects(bucket.url)
    for content, finding in ((b"{", "cannot be read"), (b'{"format": 2}', "format 2")):
        objects.write_blindly("heads/kb/CURRENT", content)
        with pytest.raises(StorageError, match=finding):
            read_head(objects, "kb")


def test_a_renewal_that_comes_late_does_not_take_a_lock_back_that_was_released(bucket: Bucket) -> None:
    objects = Objects(bucket.url)
    with writing(objects, "kb", "first") as writer:
        pass
    looks = iter([False, True])  # the renewal had looked before the release
    with patch.object(writer, "_ended", Mock(wait=lambda _: next(looks), is_set=writer._ended.is_set)):
        writer.renew_until_ended()
    assert next(looks, None) is None
    assert not writer._lost
    found = objects.read("heads/kb/LOCK")
    assert found is not None
    assert json.loads(found.content)["released"] is True
