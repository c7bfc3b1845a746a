"""Finds the files that a glob names, each once, whatever links lead to it.

Folders are walked as they are, and files are handed on while they are listed, so nothing is held of a file that has one
name. Links are followed afterwards, and only to what the walk has not met: a folder is entered once for what is left of
the glob, so links that lead in circles end.

A file with several names is taken under the one that the last crawl knew, else under one that is no link, else under
the shortest, else under the first in order. So a link that is added changes no id.
"""

import errno
import os
import stat
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from almanac.spiders.crawling.glob_pattern import GlobPattern, Rest, fixed_part

Reason = Literal["error", "gone", "outside_root", "broken_link", "link_loop", "not_a_file", "same_name"]
_KINDS = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
_REPLACED = "\ufffd"
_Id = tuple[int, int]  # device and inode


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file: `url` is its name below the glob's fixed part, `path` leads to it without a link. Only reading it tells
    whether it changed.
    """

    url: str
    path: str
    etag: ClassVar[str] = ""
    size: ClassVar[None] = None

    def read(self, size: int) -> bytes:
        """At most `size` bytes of a regular file; OSError for anything else that has taken its place, which is not
        waited for.
        """
        with os.fdopen(os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError("it is no file any more")
            return file.read(size)


@dataclass(frozen=True, slots=True)
class NotRead:
    """What the glob names and is not read, with the reason. `is_folder`: a folder that cannot be listed; its `url` ends
    with a slash, or is empty.
    """

    url: str
    reason: Reason
    detail: str
    is_folder: bool = False


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder to walk.

    Attributes:
        url: its path below the root, as reached; with a slash at its end unless it is the root.
        path: without links.
        rest: what is left of the glob below it.
        met: what is left of the glob on the path without links: files that match it were met by the first walk. Empty
            in that walk.
    """

    url: str
    path: str
    rest: Rest
    met: Rest = frozenset()


def find_files(
    base: Path, pattern: str, *, follow_links: bool = False, known: Collection[str] = ()
) -> Iterator[FoundFile | NotRead]:
    """Yields the files that match a glob relative to the folder `base`, each once, and what it names and is not read;
    in no order.

    Args:
        follow_links: also read what links lead to outside of the folder that the glob's fixed part names.
        known: URLs of the last crawl.
    """
    literal = base / pattern
    if literal.is_file():  # named by the declaration itself, so it may be a link
        yield FoundFile(literal.name, os.path.realpath(literal))
        return
    root, moving = fixed_part(base, pattern)
    odd: list[tuple[bytes, FoundFile]] = []
    for file in _Search(os.path.realpath(root), GlobPattern(moving), follow_links, known).run():
        if isinstance(file, FoundFile) and _REPLACED in file.url:
            odd.append((os.fsencode(file.path), file))
        else:
            yield file
    taken: set[str] = set()
    for _, file in sorted(odd, key=lambda pair: pair[0]):
        yield (
            file
            if file.url not in taken
            else NotRead(
                file.url, "same_name", "another file's name differs only in bytes that are not UTF-8; rename one"
            )
        )
        taken.add(file.url)


@dataclass(slots=True)
class _Search:
    root: str
    pattern: GlobPattern
    follow_links: bool
    known: Collection[str]
    links: list[_Folder] = field(default_factory=list)  # to folders, not followed yet
    entered: set[tuple[_Id, Rest]] = field(default_factory=set)  # folders that links led to
    taken: set[_Id] = field(default_factory=set)  # files that only links lead to
    # files with several names: the best of them, with its rank
    several: dict[_Id, tuple[tuple[object, ...], FoundFile]] = field(default_factory=dict)

    def run(self) -> Iterator[FoundFile | NotRead]:
        yield from self._walk(_Folder("", self.root, self.pattern.start))
        while self.links:
            links, self.links = self._in_order(self.links), []
            for link in links:
                yield from self._walk(link, is_linked=True)
        yield from (file for file_id, (_, file) in self.several.items() if file_id not in self.taken)

    def _in_order(self, links: list[_Folder]) -> list[_Folder]:
        urls = {link.url for link in links}
        known = (
            {parent for url in self.known for parent in _parents(url) if parent in urls} if len(links) > 1 else set()
        )
        return sorted(links, key=lambda link: (link.url not in known, link.url.count("/"), link.url))

    def _walk(self, top: _Folder, *, is_linked: bool = False) -> Iterator[FoundFile | NotRead]:
        waiting = [top]
        while waiting:
            folder = waiting.pop()
            try:
                if is_linked and not self._enters(folder):
                    continue
                with os.scandir(folder.path) as entries:
                    for entry in entries:
                        yield from self._look_at(entry, folder, waiting, is_linked=is_linked)
            except (FileNotFoundError, NotADirectoryError):  # removed meanwhile, with what was in it
                continue
            except OSError as error:
                yield NotRead(folder.url, "error", f"{folder.path}: {error.strerror or error}", is_folder=True)

    def _enters(self, folder: _Folder) -> bool:
        """Whether a folder that a link leads to may have files that were not met, and was not entered before."""
        place = (_id(Path(folder.path).stat()), folder.rest)
        if folder.rest <= folder.met or place in self.entered:
            return False
        self.entered.add(place)
        return True

    def _look_at(
        self, entry: os.DirEntry[str], folder: _Folder, waiting: list[_Folder], *, is_linked: bool
    ) -> Iterator[FoundFile | NotRead]:
        below, is_named = self.pattern.below(folder.rest, entry.name), self.pattern.names(folder.rest, entry.name)
        if not below and not is_named:
            return
        url = folder.url + _as_text(entry.name)
        try:
            if entry.is_symlink():
                yield from self._follow(url, entry.path, below, is_named=is_named)
            elif entry.is_dir(follow_symlinks=False):
                if below:
                    waiting.append(_Folder(f"{url}/", entry.path, below, self.pattern.below(folder.met, entry.name)))
            elif is_named:
                is_met = self.pattern.names(folder.met, entry.name)
                yield from self._take(
                    url, entry.path, entry.stat(follow_symlinks=False), is_linked=is_linked, is_met=is_met
                )
        except FileNotFoundError:
            yield NotRead(url, "gone", "it was removed while the folder was read")
        except OSError as error:
            yield NotRead(url, "error", error.strerror or str(error))

    def _take(
        self, url: str, path: str, status: os.stat_result, *, is_linked: bool, is_met: bool
    ) -> Iterator[FoundFile | NotRead]:
        """Hands on a file with one name, notes one with several; `is_met`: the first walk came upon it."""
        if is_met:
            return
        if not stat.S_ISREG(status.st_mode):
            yield NotRead(
                url, "not_a_file", f"it is {_KINDS.get(stat.S_IFMT(status.st_mode), 'no file')}, which is never opened"
            )
        elif status.st_nlink > 1:
            self._note(url, path, status, is_link=False)
        elif not is_linked:
            yield FoundFile(url, path)
        elif _id(status) not in self.taken:
            self.taken.add(_id(status))
            yield FoundFile(url, path)

    def _follow(self, url: str, path: str, below: Rest, *, is_named: bool) -> Iterator[NotRead]:
        """Notes what a link leads to: a folder to walk later, or a name of a file."""
        try:
            target = os.path.realpath(path, strict=True)
            status = Path(target).stat()
        except FileNotFoundError:
            if is_named:
                yield NotRead(
                    url, "broken_link", f"it leads to {_target(path)}, which is not there; mend or remove the link"
                )
            return
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            yield NotRead(
                url, "link_loop", f"it leads to {_target(path)}, and in the end back to itself; remove the link"
            )
            return
        is_folder = stat.S_ISDIR(status.st_mode)
        if not (below if is_folder else is_named):
            return
        inside = _below(target, self.root)
        if inside is None and not self.follow_links:
            detail = (
                f"it leads to {target}, outside of {self.root}; to read that, declare follow_links: true on the source"
            )
            yield NotRead(url, "outside_root", detail)
        elif is_folder:
            self.links.append(
                _Folder(f"{url}/", target, below, frozenset() if inside is None else self.pattern.after(inside))
            )
        elif not stat.S_ISREG(status.st_mode):
            yield NotRead(
                url,
                "not_a_file",
                f"it leads to {target}, {_KINDS.get(stat.S_IFMT(status.st_mode), 'no file')}, which is never opened",
            )
        elif inside is None or not self.pattern.matches(inside):  # else the walk comes upon the file itself
            self._note(url, target, status, is_link=True)

    def _note(self, url: str, path: str, status: os.stat_result, *, is_link: bool) -> None:
        rank = (url not in self.known, is_link, url.count("/"), url)
        best = self.several.get(_id(status))
        if best is None or rank < best[0]:
            self.several[_id(status)] = (rank, FoundFile(url, path))


def _id(status: os.stat_result) -> _Id:
    return status.st_dev, status.st_ino


def _below(path: str, root: str) -> list[str] | None:
    """The parts of a path below the root; None if it is not there."""
    if path == root:
        return []
    above = root.rstrip("/") + "/"
    return path.removeprefix(above).split("/") if path.startswith(above) else None


def _parents(url: str) -> Iterable[str]:
    return (url[: place + 1] for place, letter in enumerate(url) if letter == "/")


def _target(link: str) -> str:
    return _as_text(str(Path(link).readlink()))


def _as_text(name: str) -> str:
    """A name for people and URLs: bytes that are not UTF-8 become replacement characters."""
    return os.fsencode(name).decode("utf-8", "replace")
