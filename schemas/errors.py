"""All errors of the package, as one tree that branches by what the operator should do.

AlmanacError
├── ManyDefects             1  report it: pages on which Almanac fails, and not the site
├── UsageError              2  correct the command or the declaration
│   ├── DeclarationError       the declaration is invalid
│   ├── NotFound               no such knowledge base, version or URL
│   ├── NothingPublished       ask for a run first
│   └── EmbedderMismatch       the query's embedder is not the version's
├── NoRecords               3  look at the site or at the selectors
├── GateRefused             4  look at the verdict; the live version stays in service
├── RunLocked               6  wait for the other run
└── OperationalError        7  fix the environment: network, server, disk, credentials
    ├── CredentialRefused      a site requires another user, password, header or cookie, or an API another key
    ├── StorageError           disk full or failing, missing permission
    │   └── StoreAway             the object store does not answer
    ├── DamagedVersion         roll back, or run again
    │   └── OtherFormat            run again, or read it with the release that wrote it
    ├── PrefectGone            start Prefect's server, or run without one
    └── Retriable              try again; the only errors that flows retry
        └── Unreachable        a host does not answer

The number is the exit code, inherited by subclasses. Any other exception is a defect: exit code 1.
"""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar


class AlmanacError(Exception):
    """Base of all errors: a message, optionally with the place of the problem (`where`) and the next step (`hint`)."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint
        self.report: dict[str, Any] | None = None  # report of the run that the error ended, if any

    def about(self, kb: str) -> None:
        """Replaces KB in the hint by the knowledge base's name: code that does not know the name writes KB."""
        if self.hint:
            self.hint = re.sub(r"\bKB\b", lambda _: kb, self.hint)

    @property
    def kind(self) -> str:
        """The class name in snake case: `NothingPublished` → `nothing_published`."""
        name = type(self).__name__
        return "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name))

    def as_json(self) -> dict[str, Any]:
        return {"error": {"kind": self.kind, "message": self.message, "where": self.where, "hint": self.hint}}

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}\n  → {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[Any, ...]:
        return _revive, (type(self), self.message, self.where, self.hint)


def _revive(cls: type[AlmanacError], message: str, where: str | None, hint: str | None) -> AlmanacError:
    return cls(message, where=where, hint=hint)


class ManyDefects(AlmanacError):
    pass


class UsageError(AlmanacError):
    exit_code = 2


class DeclarationError(UsageError):
    pass


class NotFound(UsageError):
    pass


class NothingPublished(UsageError):
    pass


class EmbedderMismatch(UsageError):
    pass


class NoRecords(AlmanacError):
    exit_code = 3


class GateRefused(AlmanacError):
    exit_code = 4


class RunLocked(AlmanacError):
    exit_code = 6


class OperationalError(AlmanacError):
    exit_code = 7


class CredentialRefused(OperationalError):
    pass


class StorageError(OperationalError):
    pass


class StoreAway(StorageError):
    pass


class DamagedVersion(OperationalError):
    pass


class OtherFormat(DamagedVersion):
    """A version or segment that another release wrote: whole, but not read here. Whatever passes over a damaged one
    passes over it, too.
    """


class PrefectGone(OperationalError):
    pass


class Retriable(OperationalError):
    is_final = False  # where no time is left to try again


class Unreachable(Retriable):
    pass


class RateLimited(Retriable):
    """A service that takes no more requests for now. `retry_after_s` is how long, where it said so."""

    retry_after_s: float | None = None


def storage_error(error: OSError, path: Path) -> StorageError:
    """The error for a file that is there and that the system does not give: what it says, and no word of damage."""
    if isinstance(error, PermissionError):
        hint = (
            f"this process runs as user {os.geteuid()}: give that user the right to read it, and to enter the "
            "folders above it"
        )
        return StorageError(
            f"{path.name} may not be read: {os.strerror(error.errno or errno.EACCES)}", where=str(path), hint=hint
        )
    return StorageError(f"{path.name} cannot be read: {error.strerror}", where=str(path), hint="check the disk")


@contextmanager
def as_storage_error(root: Path) -> Iterator[None]:
    """Converts an OSError inside the block into StorageError. `root` is the folder concerned, for the message."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{error.strerror or error}: {error.filename or root}",
            where=str(root),
            hint=(
                "free space or mend permissions there, or choose another place with --data DIR; what is published "
                "serves on"
            ),
        ) from error
