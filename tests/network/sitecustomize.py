"""Put on PYTHONPATH by tests: writes down every host that this process, or a child of it, looks up or connects to
beyond loopback.
"""

import ipaddress
import os
import sys
from typing import Any

_LOG = os.environ.get("CONNECT_LOG")


def _is_loopback(host: object) -> bool:
    if not isinstance(host, str | bytes):
        return True
    name = host.decode() if isinstance(host, bytes) else host
    if name in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(name.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect":
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) else None
    elif event == "socket.getaddrinfo":
        host = arguments[0]
    else:
        return
    if not _is_loopback(host):
        with open(_LOG or os.devnull, "a") as log:  # noqa: PTH123  pathlib would be imported into every process
            log.write(f"{event} {host} {sys.argv}\n")


if _LOG:
    with open(_LOG, "a") as started:  # noqa: PTH123
        started.write(f"watching {os.getpid()}\n")
    sys.addaudithook(_watch)
