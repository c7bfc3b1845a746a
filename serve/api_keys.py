"""API keys and their workspaces, and the addresses at which a server without keys may listen."""

import hashlib
import hmac
import ipaddress
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from almanac.schemas.errors import UsageError


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request. `name` identifies the key without revealing it. A caller with a `workspace` has access
    to that workspace only. One that `pushes` may push documents, to the knowledge base `pushes_to` or, with None,
    to each, and nothing else.
    """

    name: str
    workspace: str | None = None
    pushes: bool = False
    pushes_to: str | None = None


LOCAL = Caller("local")  # every caller of a server without keys


class ApiKeys:
    """The API keys of a server, kept as SHA-256 hashes only. False where there are none."""

    def __init__(self, callers: Sequence[tuple[bytes, Caller]] = ()) -> None:
        self._callers = tuple(callers)

    @classmethod
    def parse(cls, text: str, variable: str = "ALMANAC_API_KEYS") -> Self:
        """Parses `ALMANAC_API_KEYS`: comma-separated entries `KEY` or `KEY:WORKSPACE`; or `ALMANAC_PUSH_KEYS`: `KEY` or
        `KEY:KB`. Spaces and line breaks around them are layout; a workspace is verbatim.

        Raises UsageError, with the number of the entry and never its text, for an empty key or workspace, a key that no
        header can carry, and a repeated key.
        """
        callers: dict[bytes, Caller] = {}
        entries = [entry.strip(_LAYOUT) for entry in text.split(",")] if text.strip() else []
        for number, entry in enumerate(entries, start=1):
            key, colon, workspace = (part.strip(_LAYOUT) for part in entry.partition(":"))
            if not key or (colon and not workspace.strip()):
                raise UsageError(
                    f"entry {number} has no {'name after its colon' if key else 'key'}",
                    where=variable,
                    hint=_FORM,
                )
            if not key.isascii() or not key.isprintable() or " " in key:
                raise UsageError(
                    f"the key of entry {number} has characters that no header can carry",
                    where=variable,
                    hint=_FORM,
                )
            digest = _digest(key)
            if digest in callers:
                raise UsageError(
                    f"the key of entry {number} is there twice",
                    where=variable,
                    hint="a key is restricted to one workspace, or to none",
                )
            callers[digest] = (
                Caller(f"key {number}", workspace or None)
                if variable == "ALMANAC_API_KEYS"
                else Caller(f"push key {number}", pushes=True, pushes_to=workspace.strip() or None)
            )
        return cls(list(callers.items()))

    def __bool__(self) -> bool:
        return bool(self._callers)

    @property
    def names(self) -> list[str]:
        """Names of the callers, in the order of their keys."""
        return [caller.name for _, caller in self._callers]

    def caller(self, authorization: str | None) -> Caller | None:
        """Caller of an `Authorization: Bearer KEY` header; None without a valid key. Compares in constant time, with
        every key.
        """
        scheme, _, key = (authorization or "").partition(" ")
        digest = _digest(key.strip())
        known_caller = None
        for known, caller in self._callers:
            if hmac.compare_digest(known, digest):
                known_caller = caller
        return known_caller if scheme.lower() == "bearer" else None


_LAYOUT = " \t\r\n"
# name or bracketed address, and a port; nothing may follow a bracket
_HOST = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::\d*)?")
_FORM = "write it like ALMANAC_API_KEYS='KEY,OTHER_KEY:WORKSPACE'; openssl rand -hex 24 makes a key"


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def require_safe_address(host: str, keys: ApiKeys) -> None:
    """Raises UsageError for an address that other machines can reach, where there are no keys."""
    if not keys and not is_loopback(host):
        raise UsageError(
            f"listening at {host} without API keys would answer anybody who reaches it",
            where="--host",
            hint="set ALMANAC_API_KEYS, or listen at 127.0.0.1 behind a proxy that knows its users",
        )


def is_loopback(host: str) -> bool:
    """Whether an address, or every address that a host name resolves to, is a loopback address. False for a name that
    cannot be resolved.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        addresses = socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        return False
    return all(ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in addresses)


def names_loopback(host: str | None, bound: str) -> bool:
    """Whether a Host header contains localhost, a loopback address or the address `bound` to.

    No website can have such a name, which protects against DNS rebinding: its pages cannot send requests to this server
    in the browser of a visitor.
    """
    read = _HOST.fullmatch((host or "").strip().lower())
    name = read[1] if read else ""
    return name in ("localhost", "127.0.0.1", "[::1]", bound.lower(), f"[{bound.lower()}]")
