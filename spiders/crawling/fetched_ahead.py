"""Files that are fetched from afar, several at a time, while others are read."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from almanac.spiders.crawling.find_files import NotRead

AT_ONCE = 8  # files that are fetched, and in memory


@dataclass(slots=True)
class RemoteFile:
    """A file of another machine, as `ReadableFile`. `fetch` reads at most so many bytes of it; `ahead` is its content,
    if it is fetched already.
    """

    url: str
    etag: str
    size: int | None
    fetch: Callable[[int], bytes]
    download: Future[bytes] | None = None

    def read(self, size: int) -> bytes:
        """At most `size` bytes. Raises FileNotFoundError, OSError where this file is refused, and what the place raises
        that does not answer.
        """
        return self.fetch(size) if self.download is None else self.download.result()[:size]


def fetched_ahead(
    files: Iterable[RemoteFile | NotRead], is_wanted: Callable[[RemoteFile], bool], size: int
) -> Iterator[RemoteFile | NotRead]:
    """Yields what was found, in its order, and fetches `size` bytes of the next wanted files meanwhile."""
    pool, queue = ThreadPoolExecutor(AT_ONCE), deque[RemoteFile | NotRead]()
    try:
        for file in files:
            if isinstance(file, RemoteFile) and is_wanted(file):
                file.download = pool.submit(file.fetch, size)
            queue.append(file)
            if len(queue) >= AT_ONCE:
                yield queue.popleft()
        yield from queue
    finally:
        pool.shutdown(cancel_futures=True)
