"""Several workers share the connections to one socket."""

import asyncio
import errno
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvicorn

from almanac.serve.accepting import Accepting, Turns
from tests.conftest import PATIENCE_S

_MOST_APART = 3  # connections: one that has two more than another accepts one yet


class _Connection(asyncio.Protocol):
    def __init__(self, connections: "set[_Connection]") -> None:
        self.connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.connections.add(self)

    def connection_lost(self, _: Exception | None) -> None:
        self.connections.discard(self)


class _Worker:
    """Accepts from a descriptor of its own, as a worker that has inherited the socket."""

    def __init__(self, listening: socket.socket, turns: Turns) -> None:
        self.connections: set[_Connection] = set()
        self.turns = turns
        self._own = listening.dup()
        self._own.setblocking(False)
        self.accepting = Accepting(self._own, turns, self.connections, lambda: _Connection(self.connections))

    async def end(self) -> None:
        self.accepting.close()
        await self.accepting.wait_closed()
        for one in list(self.connections):
            one.transport.close()
        self._own.close()


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as made:
        yield made


async def _connected(listening: socket.socket, count: int) -> list[asyncio.StreamWriter]:
    opened = await asyncio.gather(*(asyncio.open_connection(*listening.getsockname()) for _ in range(count)))
    return [writer for _, writer in opened]


async def _until(workers: list[_Worker], count: int) -> list[int]:
    """How many connections each worker has, as soon as they have so many together."""
    async with asyncio.timeout(PATIENCE_S):
        while sum(len(worker.connections) for worker in workers) != count:
            await asyncio.sleep(0.01)
    return [len(worker.connections) for worker in workers]


@pytest.mark.parametrize("loops", [asyncio.new_event_loop, uvicorn.Config("none").get_loop_factory()])
def test_connections_are_shared_evenly_and_those_that_end_are_made_up_for(
    tmp_path: Path,
    listening: socket.socket,
    loops: Callable[[], asyncio.AbstractEventLoop],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("almanac.serve.accepting._PATIENCE_S", PATIENCE_S)

    async def share() -> None:
        workers = [_Worker(listening, Turns(tmp_path, place, 3)) for place in range(2)]  # the third has not started
        clients = await _connected(listening, 40)
        one, other = await _until(workers, 40)
        assert abs(one - other) <= _MOST_APART
        for connection in list(workers[0].connections)[:12]:
            connection.transport.close()
        await _until(workers, 28)
        for worker in workers:
            worker.accepting.tell()
        clients += await _connected(listening, 12)
        one, other = await _until(workers, 40)
        assert abs(one - other) <= _MOST_APART
        for client in clients:
            client.close()
        for worker in workers:
            await worker.end()

    with asyncio.Runner(loop_factory=loops) as runner:
        runner.run(share())


def test_the_next_connection_is_that_of_whoever_has_the_fewest(tmp_path: Path) -> None:
    own, other = Turns(tmp_path, 0, 2), Turns(tmp_path, 1, 2)
    assert own.is_mine(7)  # no other has begun
    other.tell(3)
    assert own.is_mine(3)
    assert not own.is_mine(4)
    assert other.is_mine(3)
    other.leave()
    assert own.is_mine(4)


def test_a_worker_that_tells_nothing_for_a_while_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, silent = Turns(tmp_path, 0, 2), Turns(tmp_path, 1, 2)
    silent.tell(0)
    assert not own.is_mine(6)
    now = time.monotonic()
    monkeypatch.setattr("almanac.serve.accepting.time.monotonic", lambda: now + 0.6)
    assert own.is_mine(6)


def test_no_connection_waits_long_for_a_worker_that_does_not_accept_it(
    tmp_path: Path, listening: socket.socket
) -> None:
    async def take_all() -> None:
        worker = _Worker(listening, Turns(tmp_path, 0, 2))
        Turns(tmp_path, 1, 2).tell(0)  # and no more
        begun = time.monotonic()
        clients = await _connected(listening, 40)
        assert await _until([worker], 40) == [40]
        assert time.monotonic() - begun < PATIENCE_S / 4  # it takes .6 s: .5 until the silent one does not count
        await worker.end()
        late = await _connected(listening, 1)
        await asyncio.sleep(0.1)
        assert not worker.connections
        for client in [*clients, *late]:
            client.close()

    asyncio.run(take_all())


def test_a_queue_waits_once_for_a_worker_that_accepts_nothing(
    tmp_path: Path, listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("almanac.serve.accepting._PATIENCE_S", 1.0)

    async def take_all() -> None:
        worker, other = _Worker(listening, Turns(tmp_path, 0, 2)), Turns(tmp_path, 1, 2)
        other.tell(0)
        clients = await _connected(listening, 40)
        async with asyncio.timeout(20):
            while len(worker.connections) < 40:  # once for each of them, it would take 40 s
                other.tell(0)
                await asyncio.sleep(0.01)
        await worker.end()
        for client in clients:
            client.close()

    asyncio.run(take_all())


def test_connections_are_accepted_again_once_there_are_descriptors(
    tmp_path: Path, listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("almanac.serve.accepting._PAUSE_S", 0.1)

    async def take() -> None:
        worker = _Worker(listening, Turns(tmp_path, 0, 1))
        refused: list[bool] = []
        accept = socket.socket.accept

        def none_left(this: socket.socket) -> tuple[socket.socket, object]:
            if len(refused) < 2:
                refused.append(True)
                raise OSError(errno.EMFILE, "Too many open files")
            return accept(this)

        monkeypatch.setattr(socket.socket, "accept", none_left)
        clients = await _connected(listening, 3)
        assert await _until([worker], 3) == [3]
        assert len(refused) == 2
        for client in clients:
            client.close()
        await worker.end()

    asyncio.run(take())
