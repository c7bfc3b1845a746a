"""Where files are: in folders of this machine, in a git repository, in a bucket, on a web or SFTP server. What reads
files knows no more of it than this.
"""

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from almanac.schemas.declaration.source import FilesSource
from almanac.spiders.crawling.find_files import FoundFile, NotRead, find_files
from almanac.spiders.crawling.git_files import git_files
from almanac.spiders.crawling.sftp_files import sftp_files
from almanac.spiders.crawling.web_files import WebFiles


class ReadableFile(Protocol):
    """A file of some place."""

    @property
    def url(self) -> str:
        """Its name below the glob's fixed part."""

    @property
    def etag(self) -> str:
        """Names its content: with other content it has another one. Empty where only reading tells."""

    @property
    def size(self) -> int | None:
        """Bytes; None where only reading tells."""

    def read(self, size: int) -> bytes:
        """At most `size` bytes. Raises FileNotFoundError where it was removed meanwhile, OSError where it cannot be
        read, and an AlmanacError where nothing of the place can be.
        """


class FilePlace(Protocol):
    """Where a source's files are. `shown` names the place for messages, `start` what its glob is relative to."""

    @property
    def shown(self) -> str: ...

    @property
    def start(self) -> str: ...

    def find(
        self, known: Collection[str], is_wanted: Callable[[ReadableFile], bool], /
    ) -> Iterator[ReadableFile | NotRead]:
        """Yields the files that match, each once, and what the glob names and is not read, in no order.

        `known` are the URLs of the last crawl. `is_wanted` tells which files are going to be read, so that a place far
        away may fetch many of them at once; others may be read, too.
        """


@dataclass(frozen=True)
class LocalFiles:
    """Files of this machine; the glob is relative to the folder `base`."""

    source: FilesSource
    base: Path
    start = "the declaration's folder"

    @property
    def shown(self) -> str:
        return os.path.normpath(self.base / self.source.glob)

    def find(
        self, known: Collection[str] = (), _is_wanted: Callable[[ReadableFile], bool] | None = None
    ) -> Iterator[FoundFile | NotRead]:
        return find_files(self.base, self.source.glob, follow_links=self.source.follow_links, known=known)


@contextmanager
def place_of(source: FilesSource, base: Path) -> Iterator[FilePlace]:
    """The place of a source's files, as long as the block lasts."""
    if source.git is not None:
        with git_files(source) as repository:
            yield repository
    elif source.is_local:
        yield LocalFiles(source, base)
    elif source.glob.startswith("sftp:"):
        with sftp_files(source) as server:
            yield server
    elif source.glob.startswith("http"):
        yield WebFiles(source)
    else:
        from almanac.spiders.crawling.bucket_files import BucketFiles  # boto3, which is an extra

        yield BucketFiles(source)
