"""How several workers share the connections to one listening socket: the one that has the fewest accepts the next.

Each worker by itself would accept all that wait as soon as it is woken. Of 32 clients that keep their connections, one worker then had up to 22, and half of
the clients waited twice as long as the others.
"""

import asyncio
import mmap
import os
import select
import socket
from collections.abc import Callable, Set
from pathlib import Path

import structlog

_MORE = 2  # connections that a worker may have more than another before it leaves the next to that one
_LET_S = 0.005  # for which it does so, before it looks whether the connection still waits
_PATIENCE_S = 0.05  # after which it accepts it, nevertheless: the other one may be stopped, or be ending
_PAUSE_S = 1.0  # after which it tries again, where no descriptor is left
_NOBODY = 0  # what stands for a worker that accepts none
_BYTES = 4
_log = structlog.get_logger("almanac.serve")


class Turns:
    """How many connections each worker has, in a file that all of them map: a place for each, with their number and one more.

    Args:
        shared: Folder of the file, which one worker or another makes.
        place: Which of the workers this one is, from 0.
        places: How many there are.
    """

    def __init__(self, shared: Path, place: int, places: int) -> None:
        self._place = place
        file = os.open(shared / "connections", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(file, _BYTES * places)
            self._counts = memoryview(mmap.mmap(file, _BYTES * places)).cast("i")
        finally:
            os.close(file)

    def tell(self, count: int) -> None:
        """Tells the others how many connections this worker has."""
        self._counts[self._place] = count + 1

    def leave(self, place: int | None = None) -> None:
        """Says that this worker accepts no more, or that the one at `place` is dead."""
        self._counts[self._place if place is None else place] = _NOBODY

    def is_mine(self, count: int) -> bool:
        """Whether no worker has far fewer connections than this one, which has `count`."""
        self.tell(count)
        return all(other == _NOBODY or count + 1 <= other + _MORE for other in self._counts)


class Accepting:
    """Accepts connections in turn with other workers until it is closed; for a loop, as a server that asyncio would have made.

    Args:
        listening: The socket, which does not block.
        turns: Whose turn it is.
        connections: Those that this worker has; protocols add themselves, and leave.
        protocol: Makes the protocol of a connection.
    """

    def __init__(self, listening: socket.socket, turns: Turns, connections: Set[object], protocol: Callable[[], asyncio.Protocol]) -> None:
        self._listening, self._turns, self._connections, self._protocol = listening, turns, connections, protocol
        self._loop = asyncio.get_running_loop()
        self._beginning: set[asyncio.Task[object]] = set()
        self._later: asyncio.TimerHandle | None = None
        self._left_since = 0.0  # since when others have been left a connection that waits; 0: none is
        turns.tell(len(connections))
        self._loop.add_reader(listening, self._look)

    def close(self) -> None:
        """Accepts no more."""
        self._turns.leave()
        self._loop.remove_reader(self._listening)
        if self._later is not None:
            self._later.cancel()

    async def wait_closed(self) -> None:
        """Waits for connections that have been accepted, and not begun."""
        await asyncio.gather(*self._beginning, return_exceptions=True)

    def _look(self) -> None:
        """Accepts what waits, as long as it is this worker's turn, or nobody else's for too long."""
        while self._turns.is_mine(len(self._connections) + len(self._beginning)) or 0 < self._left_since < self._loop.time() - _PATIENCE_S:
            self._left_since = 0.0
            if not self._accept():
                return
        self._left_since = self._left_since or self._loop.time()
        self._look_away(_LET_S)

    def _look_away(self, seconds: float) -> None:
        """The loop would call at once again, for as long as a connection waits."""
        self._loop.remove_reader(self._listening)
        self._later = self._loop.call_later(seconds, self._look_again)

    def _look_again(self) -> None:
        self._loop.add_reader(self._listening, self._look)
        if not select.select([self._listening], [], [], 0)[0]:
            self._left_since = 0.0

    def _accept(self) -> bool:
        """Whether one could be accepted."""
        try:
            accepted, _ = self._listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):  # another worker was quicker, or the client has gone
            return False
        except OSError as error:
            _log.warning("cannot_accept", error=error.strerror, again_in_s=_PAUSE_S)
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
