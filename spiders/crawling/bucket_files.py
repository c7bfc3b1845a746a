"""Files in a bucket, by the S3 protocol, with the credentials and the endpoint of the environment."""

import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from almanac.core.extras import require_extra
from almanac.core.store.objects import Objects
from almanac.schemas.declaration.source import FilesSource
from almanac.schemas.errors import AlmanacError, StoreAway, Unreachable
from almanac.spiders.crawling.fetched_ahead import RemoteFile, fetched_ahead
from almanac.spiders.crawling.find_files import NotRead
from almanac.spiders.crawling.glob_pattern import GlobPattern, fixed_part


class BucketFiles:
    """The files of a bucket that a source's glob names.

    Raises from all methods NotFound for an unknown bucket, CredentialRefused without the right to list it, Unreachable
    where the store does not answer.
    """

    start = "the bucket"

    def __init__(self, source: FilesSource) -> None:
        require_extra("s3", "a glob in an object store", f"source {source.name}")
        self._name, self.shown, self._limit = source.name, source.glob, source.limits.bytes_per_file
        bucket, _, path = source.glob.removeprefix("s3://").partition("/")
        fixed, self._moving = fixed_part(Path(), path)
        with self._store_errors():
            self._objects = Objects(f"s3://{bucket}" if fixed == Path() else f"s3://{bucket}/{fixed.as_posix()}")

    def find(self, _known: Collection[str], is_wanted: Callable[[RemoteFile], bool]) -> Iterator[RemoteFile | NotRead]:
        """Yields the objects that match, and fetches the next wanted ones meanwhile."""
        return fetched_ahead(self._listed(), is_wanted, self._limit + 1)

    def _read(self, key: str, whole: int, size: int) -> bytes:
        try:
            with self._store_errors():
                body = self._objects.beginning(key, size, object_size=whole)
        except Unreachable:
            raise
        except AlmanacError as error:
            raise OSError(error.message) from error
        if body is None:
            raise FileNotFoundError(key)
        return body

    def _listed(self) -> Iterator[RemoteFile]:
        pattern, literal = GlobPattern(self._moving), re.split(r"[*?[]", self._moving)[0]
        with self._store_errors():
            for file in self._objects.listed(literal):
                if not file.key.endswith("/") and pattern.matches(file.key.split("/")):  # such is a folder, in consoles
                    yield RemoteFile(file.key, file.etag, file.size, partial(self._read, file.key, file.size))

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        """Names the source in what the store says."""
        try:
            yield
        except AlmanacError as error:
            hint = "the environment says who reads, and where: AWS_PROFILE or AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL; "
            hint += "ListBucket and GetObject are needed"
            kind = Unreachable if isinstance(error, StoreAway) else type(error)
            raise kind(f"{self.shown}: {error.message}", where=f"source {self._name}", hint=hint) from error
