"""Objects of one bucket and prefix, by the S3 protocol: read, written once, or written on condition.

Credentials, region and endpoint come from the environment, as boto3 reads them (AWS_ACCESS_KEY_ID, AWS_PROFILE,
AWS_ENDPOINT_URL, …). boto3 is imported when the first store is opened.
"""

import hashlib
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

from almanac.core.durable import write_file
from almanac.core.extras import require_extra
from almanac.schemas.errors import AlmanacError, CredentialRefused, NotFound, StorageError, StoreAway, UsageError

_Taken = TypeVar("_Taken")
_URL = re.compile(r"s3://(?P<bucket>[^/]+)(?:/(?P<prefix>.*?))?/*")
PART = 16 << 20  # bytes; what is larger is uploaded in parts
WORKERS = 16  # requests at the same time
_WAITS_S = (0.2, 1.0, 3.0)  # before an object is asked for again whose content broke off, or that others were writing
_TRY_AGAIN = "try again; what was done is kept in the working copy"
_SEE = "docs/scale.md says what a store has to know"


class StoredObject(NamedTuple):
    """An object as it was read. `etag` names this content; `age_s` is the time since it was written, by the store's
    clock.
    """

    content: bytes
    etag: str
    age_s: float


class Listed(NamedTuple):
    """An object as a listing has it."""

    key: str
    size: int
    age_s: float
    etag: str


class Changed(Exception):
    """A file changed while it was uploaded; nothing was written."""


class _Refused(Exception):
    """A condition does not hold, or there is no such object."""


class _Conflict(StoreAway):
    """Another request for the same key was being served."""


class Objects:
    """The objects below `s3://bucket/prefix`. Keys are relative to the prefix. Safe to share among threads.

    Raises, from every method: StoreAway where the store does not answer, NotFound for an unknown bucket,
    CredentialRefused without the right to do it, UsageError where the store does not know conditional writes,
    StorageError for any other refusal. With `is_brief`, a store that does not answer is soon taken for away.
    """

    def __init__(self, url: str, *, is_brief: bool = False) -> None:
        match = _URL.fullmatch(url)
        if match is None:
            raise UsageError("is no place in an object store", where=url, hint="s3://BUCKET/PREFIX")
        self.url, self._bucket = url, match["bucket"]
        self._prefix = f"{match['prefix']}/" if match["prefix"] else ""
        self._waits_s = _WAITS_S[:1] if is_brief else _WAITS_S
        require_extra("s3", "a data directory in an object store", url)
        with self._convert_errors(""):
            environment = tuple(sorted(variable for variable in os.environ.items() if variable[0].startswith("AWS_")))
            self._client = _client(environment, is_brief=is_brief)

    def _named(self, key: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + key}

    def read(self, key: str, *, unless: str | None = None) -> StoredObject | None:
        """Returns an object; None where there is none, or where it still has the ETag `unless`."""

        def take(reply: Any) -> StoredObject:
            return StoredObject(b"".join(self._chunks(key, reply)), reply["ETag"], _age(reply, reply["LastModified"]))

        with suppress(_Refused):
            return self._get(key, take, **({"IfNoneMatch": unless} if unless else {}))
        return None

    def beginning(self, key: str, size: int, *, object_size: int) -> bytes | None:
        """Returns at most `size` bytes of an object of `object_size` bytes; None where there is none."""
        part = {"Range": f"bytes=0-{size - 1}"} if object_size > size else {}
        with suppress(_Refused):
            return self._get(key, lambda reply: b"".join(self._chunks(key, reply))[:size], **part)
        return None

    def read_content(self, key: str, sha256: str) -> bytes:
        """Returns an object that is named by its content. Raises StorageError where it is missing or is not that
        content.
        """
        stored = self.read(key)
        if stored is None or hashlib.sha256(stored.content).hexdigest() != sha256:
            raise self._damaged(key, is_missing=stored is None)
        return stored.content

    def fetch(self, key: str, sha256: str, path: Path, before_each: Callable[[], None] = lambda: None) -> None:
        """Writes an object that is named by its content to a file, atomically and durably. Raises as `read_content`.

        `before_each` is called before each piece of it; an exception that it raises ends the fetch.
        """

        def copy(file: IO[bytes]) -> None:
            def take(reply: Any) -> str:
                digest = hashlib.sha256()
                file.seek(0)
                file.truncate()
                for chunk in self._chunks(key, reply):
                    before_each()
                    digest.update(chunk)
                    file.write(chunk)
                return digest.hexdigest()

            before_each()
            if self._get(key, take) != sha256:
                raise self._damaged(key)

        try:
            write_file(path, copy)
        except _Refused as error:
            raise self._damaged(key, is_missing=True) from error

    def _get(self, key: str, take: Callable[[Any], _Taken], **parameters: str) -> _Taken:
        """Returns what `take` makes of the reply. Where its content breaks off, the object is asked for again: boto3
        repeats requests, and reads no content.
        """
        for wait_s in (*self._waits_s, None):
            with self._convert_errors(key):
                reply = self._client.get_object(**self._named(key), **parameters)
            try:
                return take(reply)
            except StoreAway:
                if wait_s is None:
                    raise
                time.sleep(wait_s)
        raise AssertionError("the last try returns or raises")

    def _chunks(self, key: str, reply: Any) -> Iterator[bytes]:
        with self._convert_errors(key):
            yield from reply["Body"].iter_chunks(1 << 20)

    def write(self, key: str, content: bytes, *, replacing: str | None) -> str | None:
        """Writes an object on condition; returns its new ETag, None where the condition does not hold.

        The condition: `replacing` is the ETag of what is there; None: nothing is there. Where the same content is there
        already, it counts as written: so a request whose reply was lost may be repeated. Contents that compete must
        therefore differ.
        """
        condition = {"IfNoneMatch": "*"} if replacing is None else {"IfMatch": replacing}
        for wait_s in (*self._waits_s, None):
            try:
                with self._convert_errors(key):
                    return str(self._client.put_object(**self._named(key), Body=content, **condition)["ETag"])
            except _Refused:
                break
            except _Conflict:  # says nothing about the condition, in S3; another store may mean that it does not hold
                if wait_s is not None:
                    time.sleep(wait_s)
        there = self.read(key)
        return there.etag if there is not None and there.content == content else None

    def write_content(self, key: str, content: bytes) -> None:
        """Writes an object that is named by its content, unless it is there."""
        if self.write(key, content, replacing=None) is None:
            raise self._damaged(key)

    def upload(self, key: str, sha256: str, path: Path) -> None:
        """Writes a file as the object that is named by its content, unless it is there. Raises Changed where the file
        is not that content any more.
        """
        from boto3.s3.transfer import TransferConfig

        with path.open("rb") as file:
            compared = _Compared(file, sha256)
            if path.stat().st_size <= PART:
                content = compared.read()
                compared.read()
                self.write_content(key, content)
                return
            with suppress(_Refused), self._convert_errors(key):
                self._client.head_object(**self._named(key))
                return
            config = TransferConfig(multipart_threshold=PART, multipart_chunksize=PART, use_threads=False)
            with self._convert_errors(key):
                self._client.upload_fileobj(compared, **self._named(key), Config=config)

    def listed(self, below: str) -> Iterator[Listed]:
        """Yields each object whose key begins so, in no order."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._prefix + below)
        with self._convert_errors(below):
            for page in pages:
                for entry in page.get("Contents", []):
                    key, age_s = entry["Key"].removeprefix(self._prefix), _age(page, entry["LastModified"])
                    yield Listed(key, entry["Size"], age_s, entry["ETag"])

    def delete(self, key: str) -> None:
        """Deletes an object, if it is there."""
        with self._convert_errors(key):
            self._client.delete_object(**self._named(key))

    def require_conditional_writes(self, folder: str) -> None:
        """Tries out whether the store keeps conditions. Raises UsageError where it lets a write pass whose condition
        does not hold.
        """
        key = f"{folder}/probe-{secrets.token_hex(8)}"
        try:
            etag = self.write(key, b"1", replacing=None)
            passed = [self.write(key, b"2", replacing=None), self.write(key, b"3", replacing=f'"{"0" * 32}"')]
            if etag is None or passed != [None, None] or self.write(key, b"4", replacing=etag) is None:
                raise UsageError(
                    "this object store has no conditional writes: two writers could overwrite each other",
                    where=self.url,
                    hint="take a store that keeps If-Match and If-None-Match, as S3 does, and MinIO, R2 and Ceph in "
                    "their later releases; or a local directory",
                )
        finally:
            with suppress(AlmanacError):  # a probe that is left does no harm, and what failed before says why
                self.delete(key)

    def _damaged(self, key: str, *, is_missing: bool = False) -> StorageError:
        finding = "an object is missing" if is_missing else "an object has another content than its name says"
        hint = "restore it from a backup of the bucket; almanac rollback KB may do without it"
        return StorageError(finding, where=f"{self.url}/{key}", hint=hint)

    @contextmanager
    def _convert_errors(self, key: str) -> Iterator[None]:
        """Converts the errors of boto3."""
        from botocore import exceptions as boto

        unknown = boto.NoCredentialsError, boto.PartialCredentialsError, boto.CredentialRetrievalError
        where = f"{self.url}/{key}"
        try:
            yield
        except boto.ClientError as error:
            raise self._refusal(where, error) from error
        except (*unknown, boto.ProfileNotFound, boto.TokenRetrievalError) as error:
            hint = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
            raise CredentialRefused(f"no credentials for the object store: {error}", where=where, hint=hint) from error
        except (boto.ParamValidationError, boto.NoRegionError, boto.InvalidRegionError, ValueError) as error:
            hint = "check the name of the bucket, AWS_REGION and AWS_ENDPOINT_URL"
            raise UsageError(f"no such place: {str(error).strip()}", where=where, hint=hint) from error
        except boto.BotoCoreError as error:
            hint = f"check the network and AWS_ENDPOINT_URL; {_TRY_AGAIN}"
            raise StoreAway(f"the object store does not answer: {error}", where=where, hint=hint) from error

    def _refusal(self, where: str, error: Any) -> Exception:
        code = str(error.response["Error"].get("Code"))
        status = error.response["ResponseMetadata"].get("HTTPStatusCode", 0)
        kind: type[AlmanacError] = StorageError
        finding, hint = f"the object store refuses: {error}", _SEE
        if code == "NoSuchBucket":
            kind, finding = NotFound, f"no such bucket: {self._bucket}"
            hint = "make it, or check --data and AWS_ENDPOINT_URL"
        elif status in (304, 404, 412):
            return _Refused(where)
        elif status in (401, 403) or code in ("ExpiredToken", "InvalidToken"):
            kind, hint = CredentialRefused, "they need GetObject, PutObject, DeleteObject and ListBucket there"
        elif status == 501:
            kind, hint = UsageError, "Almanac needs a store with conditional writes (If-Match, If-None-Match)"
        elif status == 409:
            kind, hint = _Conflict, _TRY_AGAIN
        elif status >= 500 or code in ("SlowDown", "RequestTimeout"):
            kind, hint = StoreAway, _TRY_AGAIN
        return kind(finding, where=where, hint=hint)


class _Compared:
    """A file that is uploaded: at its end, Changed is raised where it was not the content that was meant, so that an
    upload in parts is never completed.
    """

    def __init__(self, file: IO[bytes], sha256: str) -> None:
        self._file, self._sha256, self._digest = file, sha256, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        content = self._file.read(size)
        self._digest.update(content)
        if size and not content and self._digest.hexdigest() != self._sha256:
            raise Changed
        return content


def _age(reply: Any, modified: Any) -> float:
    """Seconds since an object was written, by the clock of the store alone."""
    date = reply["ResponseMetadata"]["HTTPHeaders"].get("date")
    if not date:
        raise StorageError("the object store tells no time", where="header Date", hint=_SEE)
    return float((parsedate_to_datetime(date) - modified).total_seconds())


_making = threading.Lock()  # boto3's session is not for several threads


@cache
def _client(_environment: tuple[tuple[str, str], ...], *, is_brief: bool) -> Any:
    """A client for what the environment says, which takes a third of a second to make."""
    import boto3
    from botocore.config import Config

    config = Config(
        retries={"mode": "standard", "total_max_attempts": 2 if is_brief else 4},
        connect_timeout=3 if is_brief else 10,
        read_timeout=10 if is_brief else 60,
        max_pool_connections=2 * WORKERS,
        # Not every S3-compatible store knows the newer checksums; content is compared with its SHA-256 anyway.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    with _making:
        return boto3.session.Session().client("s3", config=config)
