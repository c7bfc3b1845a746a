"""A proxy on loopback whose connections can be dropped, all at once and in the middle of whatever they carry."""

import socket
import threading
import time
from contextlib import suppress


class DroppingProxy:
    """Passes bytes on to HOST:PORT. For a while after `drop`, it takes no connection."""

    def __init__(self, host: str, port: int) -> None:
        self._behind = (host, port)
        self._server = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._closed_until = 0.0
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.getsockname()[1]}"

    def drop(self, seconds: float) -> None:
        """Ends all connections, and those that come in the next seconds."""
        with self._lock:
            self._closed_until = time.monotonic() + seconds
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._server.close()
        self.drop(0)

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._server.accept()
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            if time.monotonic() < self._closed_until:
                return
            with socket.create_connection(self._behind) as server:
                with self._lock:
                    self._open |= {client, server}
                there = threading.Thread(target=_pass_on, args=(client, server), daemon=True)
                there.start()
                _pass_on(server, client)
                there.join()
                with self._lock:
                    self._open -= {client, server}


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while content := source.recv(65_536):
            target.sendall(content)
    for connection in (source, target):
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
