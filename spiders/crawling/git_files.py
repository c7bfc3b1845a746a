"""Files of a git repository, by the `git` program: a commit's trees are fetched, and the blobs that are to be read.

The repository is a temporary one: what is taken down, or is in no version any more, is in none of ours either. Its URL,
which may have a token, reaches git by the environment: no list of processes shows it, and no file keeps it. git runs no
hooks, enters no submodules, and asks nobody for anything.
"""

import os
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import ClassVar

from almanac.schemas.declaration.source import FilesSource
from almanac.schemas.errors import AlmanacError, CredentialRefused, OperationalError, Unreachable
from almanac.spiders.crawling.find_files import NotRead
from almanac.spiders.crawling.glob_pattern import GlobPattern, fixed_part

_THERE = "refs/almanac/there"
_CONFIG = {
    "remote.origin.promisor": "true",
    "remote.origin.partialclonefilter": "blob:none",
    "fetch.negotiationAlgorithm": "noop",
    "core.hooksPath": os.devnull,
    "gc.auto": "0",
    "maintenance.auto": "false",
    "credential.interactive": "false",
    "http.lowSpeedLimit": "1",
    "http.lowSpeedTime": "60",
}
_ENVIRONMENT = {
    "LC_ALL": "C",  # what it says of failures is read
    "GIT_ALLOW_PROTOCOL": "https:ssh:file",
    "GIT_TERMINAL_PROMPT": "0",
    "SSH_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
}
# Settings of the user's own; other variables of git say where a repository is, or what is traced.
_USERS = ("GIT_ASKPASS", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM", "GIT_SSH", "GIT_SSL")
_LONGEST_S = 1800  # of one command
_AT_ONCE = 2000  # blobs in a request
_LINK, _FILES = b"120000", (b"100644", b"100755", b"100664")
_LFS = b"version https://git-lfs.github.com/spec/"
_NO_REF = ("couldn't find remote ref", "not our ref")
_NO_RIGHT = (
    "Authentication failed", "could not read Username", "could not read Password", "Permission denied",
    "returned error: 401", "returned error: 403", "Host key verification failed",
)  # fmt: skip
_NO_REPOSITORY = ("not found", "does not appear to be a git repository", "does not exist")


@dataclass(frozen=True, slots=True)
class _Blob:
    """A file of the repository; the hash of its content is its ETag."""

    url: str
    etag: str
    place: "GitFiles"
    size: ClassVar[None] = None

    def read(self, size: int) -> bytes:
        """At most `size` bytes; OSError where git does not give them."""
        return self.place.read(self.etag, size)


class GitFiles:
    """The files of a repository that a source's glob names. `folder` is an empty one of its own.

    Raises OperationalError from `find` where the repository or the ref is not there, CredentialRefused without the
    right to read it, Unreachable where its host does not answer.
    """

    start = "the repository's top folder"

    def __init__(self, source: FilesSource, folder: Path) -> None:
        assert source.git is not None
        self._name, self._ref, self._at, self._user = source.name, source.git.ref, source.git.address, source.git.user
        fixed, moving = fixed_part(Path(), source.glob)
        self._below = "" if fixed == Path() else f"{fixed.as_posix()}/"
        self._pattern = GlobPattern(moving)
        self.shown = f"{source.glob} in {self._at} at {self._ref}"
        self._folder = folder
        self._reader: subprocess.Popen[bytes] | None = None
        config = {**_CONFIG, "remote.origin.url": source.git.url.get_secret_value()}
        if self._user:
            # A token alone is a user without a password, for which git would ask. Helpers would be told what to keep.
            whole = self._user if ":" in self._user else f"{self._user}:"
            config |= {
                "remote.origin.url": self._at.replace("https://", f"https://{whole}@", 1),
                "credential.helper": "",
            }
        own = {key: value for key, value in os.environ.items() if not key.startswith("GIT_") or key.startswith(_USERS)}
        self._environment = {**own, **_ENVIRONMENT, "GIT_DIR": str(folder), "GIT_CONFIG_COUNT": str(len(config))}
        for number, (key, value) in enumerate(config.items()):
            self._environment |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}

    def find(self, _known: Collection[str], is_wanted: Callable[[_Blob], bool]) -> Iterator["_Blob | NotRead"]:
        """Yields the files of the commit that the ref names now, and what the glob names and is not read."""
        self._git("init", "--quiet", "--bare", "--template=")
        self._fetch("--depth=1", "origin", f"+{self._ref}:{_THERE}")
        files = self._listed()
        while batch := list(islice(files, _AT_ONCE)):
            blobs = [file.etag for file in batch if isinstance(file, _Blob) and is_wanted(file)]
            if blobs:
                self._fetch("--stdin", "origin", stdin="\n".join(blobs))
            yield from batch

    def read(self, blob: str, size: int) -> bytes:
        """At most `size` bytes of a blob; OSError where git does not give it."""
        if self._reader is None or self._reader.poll() is not None:
            self._reader = subprocess.Popen(
                ["git", "cat-file", "--batch"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=self._folder,
                env=self._environment,
                start_new_session=True,
            )
        stdin, stdout = self._reader.stdin, self._reader.stdout
        assert stdin is not None and stdout is not None
        stdin.write(blob.encode() + b"\n")
        stdin.flush()
        head = stdout.readline().split()
        if len(head) != 3:
            raise OSError("git does not give its content")
        length = int(head[2])
        body = stdout.read(min(length, size))
        rest = length - len(body) + 1  # a line feed ends it
        while rest and (skipped := stdout.read(min(rest, 1 << 20))):
            rest -= len(skipped)
        if rest:
            raise OSError("git broke off")
        if body.startswith(_LFS):
            raise OSError("its content is in Git LFS, which is not read")
        return body

    def close(self) -> None:
        """Ends the process that reads."""
        if self._reader is not None:
            with suppress(OSError):
                self._reader.kill()
            self._reader.communicate()

    def _listed(self) -> Iterator[_Blob | NotRead]:
        below = ["--", self._below] if self._below else []
        taken: set[str] = set()
        for line in self._git("ls-tree", "-r", "-z", "--full-tree", _THERE, *below).split(b"\0")[:-1]:
            (mode, _, blob), path = line[: line.index(b"\t")].split(), line[line.index(b"\t") + 1 :]
            url = path.decode("utf-8", "replace").removeprefix(self._below)
            if not self._pattern.matches(url.split("/")):
                continue
            if mode not in _FILES:
                kind = "a link, and those of a repository are not followed" if mode == _LINK else "a submodule"
                yield NotRead(url, "not_a_file", f"it is {kind}")
            elif url in taken:
                finding = "another file's name differs only in bytes that are not UTF-8; rename one"
                yield NotRead(url, "same_name", finding)
            else:
                yield _Blob(url, blob.decode(), self)
            if "\ufffd" in url:
                taken.add(url)

    def _fetch(self, *what: str, stdin: str = "") -> None:
        self._git("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--filter=blob:none", *what, stdin=stdin)

    def _git(self, *arguments: str, stdin: str = "") -> bytes:
        """What git prints. Raises the errors of the class."""
        try:
            done = subprocess.run(
                ["git", *arguments],
                input=stdin.encode(),
                capture_output=True,
                cwd=self._folder,
                env=self._environment,
                timeout=_LONGEST_S,
                start_new_session=True,
                check=False,
            )
        except FileNotFoundError as error:
            raise self._failed(OperationalError, "git is not installed", "install git 2.31 or later") from error
        except subprocess.TimeoutExpired as error:
            raise self._failed(Unreachable, f"git took longer than {_LONGEST_S} s", "check the network") from error
        if done.returncode:
            raise self._refusal(done.stderr.decode("utf-8", "replace"))
        return done.stdout

    def _refusal(self, message: str) -> AlmanacError:
        if any(phrase in message for phrase in _NO_REF):
            finding = f"the repository has no ref '{self._ref}'"
            return self._failed(OperationalError, finding, "git.ref is a branch, a tag, or a whole commit id")
        finding = self._masked(" ".join(line.removeprefix("fatal: ") for line in message.strip().splitlines()))
        if any(phrase in message for phrase in _NO_RIGHT):
            hint = 'git: {url: "https://${TOKEN}@host/…"} with a token; or a key of the SSH agent, and a known host'
            return self._failed(CredentialRefused, f"the repository may not be read: {finding}", hint)
        if any(phrase in message for phrase in _NO_REPOSITORY):
            hint = "check git.url, and whether its user may read it: `git ls-remote URL`"
            return self._failed(OperationalError, f"there is no such repository: {finding}", hint)
        hint = "check the network and git.url: `git ls-remote URL`"
        return self._failed(Unreachable, f"the repository cannot be fetched: {finding}", hint)

    def _failed(self, kind: type[AlmanacError], finding: str, hint: str) -> AlmanacError:
        return kind(f"{self._at}: {finding}", where=f"source {self._name}", hint=hint)

    def _masked(self, message: str) -> str:
        """What git says, without user and password."""
        for secret in filter(None, (self._user, *self._user.split(":", 1))):
            message = message.replace(secret, "…")
        return message


@contextmanager
def git_files(source: FilesSource) -> Iterator[GitFiles]:
    """The files of a repository, in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="almanac-git-", ignore_cleanup_errors=True) as folder:
        place = GitFiles(source, Path(folder))
        try:
            yield place
        finally:
            place.close()
