"""Objects of one bucket and prefix, by the S3 protocol: read, written once, or written on condition.

Credentials, region and endpoint come from the environment, as boto3 reads them (AWS_ACCESS_KEY_ID, AWS_PROFILE,
AWS_ENDPOINT_URL, …). boto3 is imported when the first store is opened.
"""

import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from almanac.core.durable import write_file
from almanac.core.extras import require_extra
from almanac.schemas.errors import AlmanacError, CredentialRefused, NotFound, StorageError, StoreAway, UsageError

_Taken = TypeVar("_Taken")
_URL = re.compile(r"s3://(?P<bucket>[^/]+)(?:/(?P<prefix>.*?))?/*")
PART = 16 << 20  # bytes; what is larger is uploaded in parts of this size
_CONNECT_S, _READ_S, _TRIES = 10, 60, 4
_BRIEF_CONNECT_S, _BRIEF_READ_S, _BRIEF_TRIES = 3, 10, 2
WORKERS = 16  # requests at the same time
_NO_ETAG = f'"{"0" * 32}"'
_REFUSED = {"PreconditionFailed", "412"}
_CONFLICT = {"ConditionalRequestConflict", "409"}
_CONFLICT_WAITS_S = (0.1, 0.3, 1.0)  # before a request is repeated that met another one for the same key
# before an object is asked for again whose content broke off
_BROKEN_WAITS_S, _BRIEF_BROKEN_WAITS_S = (0.2, 1.0, 3.0), (0.2,)
_ABSENT = {"NoSuchKey", "404", "NotFound"}
_UNCHANGED = {"NotModified", "304"}
_FORBIDDEN = {
    "AccessDenied",
    "403",
    "Forbidden",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "InvalidToken",
}


@dataclass(frozen=True, slots=True)
class Found:
    """An object as it was read. `etag` names this content; `age_s` is the time since it was written, by the store's
    clock.
    """

    content: bytes
    etag: str
    age_s: float


class Changed(Exception):
    """A file changed while it was uploaded; nothing was written."""


class Objects:
    """The objects below `s3://bucket/prefix`. Keys are relative to the prefix. Safe to share among threads.

    Raises, from every method: StoreAway where the store does not answer, NotFound for an unknown bucket,
    CredentialRefused without the right to do it, UsageError where the store does not know conditional writes,
    StorageError for any other refusal.

    Args:
        url: `s3://bucket/prefix`.
        is_brief: Whether a store that does not answer is soon taken for away, by somebody who can do without and asks
            again.
    """

    def __init__(self, url: str, *, is_brief: bool = False) -> None:
        found = _URL.fullmatch(url)
        if found is None:
            raise UsageError("is no place in an object store", where=url, hint="s3://BUCKET/PREFIX")
        self.url, self._bucket = url, found["bucket"]
        self._prefix = f"{found['prefix']}/" if found["prefix"] else ""
        self._broken_waits_s = _BRIEF_BROKEN_WAITS_S if is_brief else _BROKEN_WAITS_S
        require_extra("s3", "a data directory in an object store", url)
        with self._told(""):
            self._client = _client(is_brief=is_brief)

    def read(self, key: str, *, unless: str | None = None) -> Found | None:
        """Returns an object; None where there is none, or where it still has the ETag `unless`."""

        def take(reply: Any) -> Found:
            with self._told(key):
                return Found(reply["Body"].read(), reply["ETag"], _age(reply, reply["LastModified"]))

        try:
            return self._get(key, take, **({"IfNoneMatch": unless} if unless else {}))
        except (_Absent, _Unchanged):
            return None

    def _get(self, key: str, take: Callable[[Any], _Taken], **condition: str) -> _Taken:
        """Returns what `take` makes of the reply. Where its content breaks off, the object is asked for again: boto3
        repeats requests, and reads no content.
        """
        for wait_s in (*self._broken_waits_s, None):
            with self._told(key):
                reply = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key, **condition)
            try:
                return take(reply)
            except StoreAway:
                if wait_s is None:
                    raise
                time.sleep(wait_s)
        raise AssertionError("the last try returns or raises")

    def read_content(self, key: str, sha256: str) -> bytes:
        """Returns an object that is named by its content. Raises StorageError where it is missing or is not that
        content.
        """
        found = self.read(key)
        if found is None:
            raise self._damaged(key, "is missing")
        if hashlib.sha256(found.content).hexdigest() != sha256:
            raise self._damaged(key, "has another content than its name says")
        return found.content

    def fetch(self, key: str, sha256: str, path: Path, before_each: Callable[[], None] = lambda: None) -> None:
        """Writes an object that is named by its content to a file, atomically and durably. Raises as `read_content`.

        `before_each` is called before each piece of it; an exception that it raises ends the fetch.
        """

        def take(file: Any, reply: Any) -> str:
            digest, chunks = hashlib.sha256(), reply["Body"].iter_chunks(1 << 20)
            file.seek(0)
            file.truncate()
            while True:
                before_each()
                with self._told(key):
                    chunk = next(chunks, None)
                if chunk is None:
                    return digest.hexdigest()
                digest.update(chunk)
                file.write(chunk)

        def copy(file: Any) -> None:
            before_each()
            if self._get(key, partial(take, file)) != sha256:
                raise self._damaged(key, "has another content than its name says")

        try:
            write_file(path, copy)
        except _Absent as error:
            raise self._damaged(key, "is missing") from error

    def has(self, key: str) -> bool:
        try:
            with self._told(key):
                self._client.head_object(Bucket=self._bucket, Key=self._prefix + key)
                return True
        except _Absent:
            return False

    def write(self, key: str, content: bytes, *, replacing: str | None) -> str | None:
        """Writes an object on condition; returns its new ETag, None where the condition does not hold.

        The condition: `replacing` is the ETag of what is there; None: nothing is there. Where the same content is there
        already, it counts as written: so a request whose reply was lost may be repeated. Contents that compete must
        therefore differ.
        """
        condition = {"IfNoneMatch": "*"} if replacing is None else {"IfMatch": replacing}
        for wait_s in (*_CONFLICT_WAITS_S, None):
            try:
                with self._told(key):
                    reply = self._client.put_object(
                        Bucket=self._bucket, Key=self._prefix + key, Body=content, **condition
                    )
                    return str(reply["ETag"])
            except (_Refused, _Absent):
                break
            except _Conflict:  # says nothing about the condition, in S3; another store may mean that it does not hold
                if wait_s is not None:
                    time.sleep(wait_s)
        there = self.read(key)
        return there.etag if there is not None and there.content == content else None

    def write_blindly(self, key: str, content: bytes) -> None:
        """Writes an object, whatever is there."""
        with self._told(key):
            self._client.put_object(Bucket=self._bucket, Key=self._prefix + key, Body=content)

    def upload(self, key: str, sha256: str, path: Path) -> None:
        """Writes a file as the object that is named by its content, unless it is there. Raises Changed where the file
        is not that content any more.
        """
        with path.open("rb") as file:
            first = file.read(PART + 1)
            if len(first) <= PART:
                if hashlib.sha256(first).hexdigest() != sha256:
                    raise Changed
                if self.write(key, first, replacing=None) is None:
                    raise self._damaged(key, "has another content than its name says")
            elif not self.has(key):
                file.seek(0)
                self._upload_parts(key, sha256, file)

    def _upload_parts(self, key: str, sha256: str, file: Any) -> None:
        """A large file. The last request makes the object; two uploads that end at the same time write the same
        content.
        """
        named = {"Bucket": self._bucket, "Key": self._prefix + key}
        with self._told(key):
            upload = self._client.create_multipart_upload(**named)["UploadId"]
        try:
            digest = hashlib.sha256()
            parts: list[dict[str, object]] = []
            while content := file.read(PART):
                digest.update(content)
                with self._told(key):
                    reply = self._client.upload_part(**named, UploadId=upload, PartNumber=len(parts) + 1, Body=content)
                parts.append({"PartNumber": len(parts) + 1, "ETag": reply["ETag"]})
            if digest.hexdigest() != sha256:
                raise Changed
            with self._told(key):
                self._client.complete_multipart_upload(**named, UploadId=upload, MultipartUpload={"Parts": parts})
        except BaseException:
            with self._told(key):
                self._client.abort_multipart_upload(**named, UploadId=upload)
            raise

    def listed(self, below: str) -> Iterator[tuple[str, int, float]]:
        """Yields key, size and age in seconds of each object below a folder, in no order."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._prefix + below)
        with self._told(below):
            for page in pages:
                for one in page.get("Contents", []):
                    yield one["Key"].removeprefix(self._prefix), one["Size"], _age(page, one["LastModified"])

    def delete(self, key: str) -> None:
        """Deletes an object, if it is there."""
        with self._told(key):
            self._client.delete_object(Bucket=self._bucket, Key=self._prefix + key)

    def _damaged(self, key: str, finding: str) -> StorageError:
        return StorageError(
            f"an object {finding}",
            where=self._place(key),
            hint="restore it from a backup of the bucket; almanac rollback KB may do without it",
        )

    def _place(self, key: str) -> str:
        return f"s3://{self._bucket}/{self._prefix}{key}"

    @contextmanager
    def _told(self, key: str) -> Iterator[None]:
        """Converts the errors of boto3."""
        from botocore import exceptions as boto

        try:
            yield
        except boto.ClientError as error:
            raise self._refusal(key, error) from error
        except (
            boto.NoCredentialsError,
            boto.PartialCredentialsError,
            boto.CredentialRetrievalError,
            boto.ProfileNotFound,
            boto.TokenRetrievalError,
        ) as error:
            hint = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
            raise CredentialRefused(
                f"no credentials for the object store: {error}", where=self._place(key), hint=hint
            ) from error
        except (boto.ParamValidationError, boto.NoRegionError, boto.InvalidRegionError, ValueError) as error:
            hint = "check the name of the bucket, AWS_REGION and AWS_ENDPOINT_URL"
            raise UsageError(f"no such place: {str(error).strip()}", where=self._place(key), hint=hint) from error
        except (boto.BotoCoreError, OSError) as error:
            if isinstance(error, OSError) and error.filename is not None:  # our own disk
                raise
            hint = (
                "check the network and AWS_ENDPOINT_URL; what was done is kept in the working copy, and goes on "
                "with the next command"
            )
            raise StoreAway(f"the object store does not answer: {error}", where=self._place(key), hint=hint) from error

    def _refusal(self, key: str, error: Any) -> Exception:
        code, status = (
            str(error.response["Error"].get("Code")),
            error.response["ResponseMetadata"].get("HTTPStatusCode", 0),
        )
        where, finding = self._place(key), f"the object store refuses: {error}"
        if code == "NoSuchBucket":
            return NotFound(
                f"no such bucket: {self._bucket}", where=where, hint="make it, or check --data and AWS_ENDPOINT_URL"
            )
        if code in _UNCHANGED or status == 304:
            return _Unchanged(key)
        if code in _REFUSED or status == 412:
            return _Refused(key)
        if code in _CONFLICT or status == 409:
            return _Conflict(finding, where=where, hint="try again; what was done is kept in the working copy")
        if code in _FORBIDDEN or status in (401, 403):
            return CredentialRefused(
                finding,
                where=where,
                hint="the credentials need GetObject, PutObject, DeleteObject and ListBucket there",
            )
        if code in _ABSENT or status == 404:
            return _Absent(key)
        if code == "NotImplemented" or status == 501:
            return UsageError(
                finding, where=where, hint="Almanac needs a store with conditional writes (If-Match, If-None-Match)"
            )
        if status >= 500 or code in ("SlowDown", "RequestTimeout"):
            return StoreAway(finding, where=where, hint="try again; what was done is kept in the working copy")
        return StorageError(finding, where=where, hint="docs/object-stores.md says what a store has to know")


class _Absent(Exception):
    """There is no such object."""


class _Unchanged(Exception):
    """The object has the content that the reader knows."""


class _Refused(Exception):
    """The condition of a write does not hold."""


class _Conflict(StoreAway):
    """Another request for the same key was being served."""


def _age(reply: Any, modified: datetime) -> float:
    """Seconds since an object was written, by the clock of the store alone."""
    date = reply["ResponseMetadata"]["HTTPHeaders"].get("date")
    if not date:
        raise StorageError(
            "the object store tells no time",
            where="header Date",
            hint="docs/object-stores.md says what a store has to know",
        )
    return (parsedate_to_datetime(date) - modified).total_seconds()


_making = threading.Lock()  # boto3's session is not for several threads


def _client(*, is_brief: bool) -> Any:
    import boto3
    from botocore.config import Config

    config = Config(
        retries={"mode": "standard", "total_max_attempts": _BRIEF_TRIES if is_brief else _TRIES},
        connect_timeout=_BRIEF_CONNECT_S if is_brief else _CONNECT_S,
        read_timeout=_BRIEF_READ_S if is_brief else _READ_S,
        max_pool_connections=2 * WORKERS,
        # Not every S3-compatible store knows the newer checksums; content is compared with its SHA-256 anyway.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    with _making:
        return boto3.session.Session().client("s3", config=config)


def require_conditional_writes(objects: Objects, folder: str, nonce: str) -> None:
    """Tries out whether the store keeps conditions. Raises UsageError where it lets a write pass whose condition does
    not hold.
    """
    key = f"{folder}/probe-{nonce}"
    try:
        first = objects.write(key, f"{nonce} 1".encode(), replacing=None)
        passed = first is None or objects.write(key, f"{nonce} 2".encode(), replacing=None) is not None
        passed = passed or objects.write(key, f"{nonce} 3".encode(), replacing=_NO_ETAG) is not None
        if (
            passed
            or (found := objects.read(key)) is None
            or objects.write(key, f"{nonce} 4".encode(), replacing=found.etag) is None
        ):
            raise UsageError(
                "this object store has no conditional writes: two writers could overwrite each other",
                where=objects.url,
                hint=(
                    "take a store that keeps If-Match and If-None-Match, as S3 does, and MinIO, R2 and Ceph in "
                    "their later releases; or a local directory"
                ),
            )
    finally:
        with suppress(AlmanacError):  # a probe that is left does no harm, and what failed before says why
            objects.delete(key)
