"""How several workers share the connections to one listening socket: the one that has the fewest accepts the next.

Each worker by itself would accept all that wait as soon as it is woken. Of 32 clients that keep their connections, one
worker then had up to 27, and its clients waited several times as long as the others.
"""

import asyncio
import errno
import mmap
import os
import select
import socket
import time
from collections.abc import Callable, Set
from pathlib import Path

from almanac.core.logs import get_logger

_BACKLOG = 2048  # connections that may wait to be accepted, as in uvicorn
# for which a worker leaves a connection to those that have fewer, before it looks whether the connection still waits
_LET_S = 0.005
_PATIENCE_S = 0.05  # after which it accepts it, nevertheless, and the next one after _LET_S
_SILENT_S = 0.5  # after which a worker that has told nothing does not count: it is stopped, or dead
_PAUSE_S = 1.0  # after which accepting is tried again, where no descriptor is left
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
# of a worker: its connections, and when it told them, by a clock that all processes share; 0 for one that accepts none
_NUMBERS = 2
_SIZE = 8 * _NUMBERS  # bytes of them
_log = get_logger("almanac.serve")


class Turns:
    """How many connections each worker has, in a file that all of them map.

    Args:
        shared: Folder of the file, which one worker or another makes.
        place: Which of the workers this one is, from 0.
        places: How many there are.
    """

    def __init__(self, shared: Path, place: int, places: int) -> None:
        self._place = _NUMBERS * place
        file = os.open(shared / "connections", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(file, _SIZE * places)
            self._told = memoryview(mmap.mmap(file, _SIZE * places)).cast("d")
        finally:
            os.close(file)

    def tell(self, count: int) -> None:
        """Tells the others how many connections this worker has; to be called ten times a second."""
        self._told[self._place], self._told[self._place + 1] = count, time.monotonic()

    def leave(self) -> None:
        """Tells the others that this worker accepts none."""
        self._told[self._place + 1] = 0.0

    def is_mine(self, count: int) -> bool:
        """Whether no worker that accepts has fewer connections than this one, which has `count`."""
        self.tell(count)
        since = time.monotonic() - _SILENT_S
        return all(
            told_at < since or count <= other for other, told_at in zip(self._told[::2], self._told[1::2], strict=True)
        )


class Accepting:
    """Accepts connections in turn with other workers until it is closed; for uvicorn, as a server that asyncio would
    have made.

    Args:
        listening: The socket, which does not block.
        turns: Whose turn it is.
        connections: Those that this worker has; protocols add themselves, and leave.
        protocol: Makes the protocol of a connection.
    """

    def __init__(
        self, listening: socket.socket, turns: Turns, connections: Set[object], protocol: Callable[[], asyncio.Protocol]
    ) -> None:
        self._listening, self._turns, self._connections, self._protocol = listening, turns, connections, protocol
        self._loop = asyncio.get_running_loop()
        self._beginning: set[asyncio.Task[object]] = set()
        self._later: asyncio.TimerHandle | None = None
        self._left_since = 0.0  # since when others have been left a connection that waits; 0: none is
        self._is_out = False  # closed, or out of descriptors
        listening.listen(_BACKLOG)
        self.tell()
        self._loop.add_reader(listening, self._look)

    def tell(self) -> None:
        """Tells the other workers how many connections this one has; to be called ten times a second."""
        if not self._is_out:
            self._turns.tell(self._count)

    def close(self) -> None:
        """Accepts no more. May be called twice."""
        self._is_out = True
        self._turns.leave()
        self._loop.remove_reader(self._listening)
        if self._later is not None:
            self._later.cancel()

    async def wait_closed(self) -> None:
        """Waits until connections that were accepted have a protocol."""
        await asyncio.gather(*self._beginning, return_exceptions=True)

    @property
    def _count(self) -> int:
        return len(self._connections) + len(self._beginning)

    def _look(self) -> None:
        """Accepts what waits, as long as it is this worker's turn. What others have left for too long is accepted, too,
        and what waits behind it sooner.
        """
        while (is_mine := self._turns.is_mine(self._count)) or 0 < self._left_since < self._loop.time() - _PATIENCE_S:
            self._left_since = 0.0
            if not self._accept():
                return
            if not is_mine:
                self._left_since = self._loop.time() - _PATIENCE_S
                break
        self._left_since = self._left_since or self._loop.time()
        self._look_away(_LET_S)

    def _look_away(self, seconds: float) -> None:
        """The loop would call at once again, for as long as a connection waits."""
        self._loop.remove_reader(self._listening)
        self._later = self._loop.call_later(seconds, self._look_again)

    def _look_again(self) -> None:
        self._is_out = False
        waiting = select.poll()
        waiting.register(self._listening, select.POLLIN)
        if not waiting.poll(0):
            self._left_since = 0.0
        self._loop.add_reader(self._listening, self._look)

    def _accept(self) -> bool:
        """Whether a connection could be accepted."""
        try:
            accepted, _ = self._listening.accept()
        except OSError as error:  # mostly, another worker was quicker, or the client has gone
            if error.errno in _EXHAUSTED:
                _log.warning("cannot_accept", error=error.strerror, again_in_s=_PAUSE_S)
                self._is_out = True
                self._turns.leave()
                self._look_away(_PAUSE_S)
            return False
        accepted.setblocking(False)
        beginning = self._loop.create_task(self._begin(accepted))
        self._beginning.add(beginning)
        beginning.add_done_callback(self._beginning.discard)
        return True

    async def _begin(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, accepted)
        except OSError:  # the client has gone
            accepted.close()
