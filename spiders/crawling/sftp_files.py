"""Files of an SFTP server, by paramiko: sftp://reader@host/docs/**/*.pdf.

A file's time and size stand for its content. Who logs in is in the URL or `auth`, else in ~/.ssh/config; keys are those
of the agent and of ~/.ssh. A server that ~/.ssh/known_hosts does not know is not spoken to.
"""

import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from almanac.core.extras import require_extra
from almanac.schemas.declaration.source import FilesSource
from almanac.schemas.errors import AlmanacError, CredentialRefused, OperationalError, Unreachable
from almanac.spiders.crawling.fetched_ahead import RemoteFile
from almanac.spiders.crawling.find_files import NotRead
from almanac.spiders.crawling.glob_pattern import GlobPattern, Rest, fixed_part

_PATIENCE_S = 30


class SftpFiles:
    """The files of a server that a source's glob names, over one connection.

    Raises from `find` OperationalError where its first folder is not there, CredentialRefused where nobody is let in or
    the server is not known, Unreachable where it does not answer.
    """

    start = "the folder"

    def __init__(self, source: FilesSource, client: Any) -> None:
        self._source, self._client, self.shown = source, client, source.glob
        self._parts = urlsplit(source.glob.replace("?", "%3F").replace("#", "%23"))
        self._sftp: Any = None

    def find(self, _known: Collection[str], _is_wanted: Callable[[RemoteFile], bool]) -> Iterator[RemoteFile | NotRead]:
        """Yields the files that match, and links, which are not followed."""
        self._connect()
        path = unquote(self._parts.path)
        home = "/~/" if path.startswith("/~/") else "/"
        fixed, moving = fixed_part(Path(self._sftp.normalize("." if home != "/" else home)), path.removeprefix(home))
        top, pattern = f"{fixed.as_posix().rstrip('/')}/", GlobPattern(moving)
        waiting: list[tuple[str, Rest]] = [("", pattern.start)]
        while waiting:
            folder, rest = waiting.pop()
            try:
                for entry in self._sftp.listdir_attr(top + folder):
                    name, mode = f"{folder}{entry.filename}", entry.st_mode or 0
                    if stat.S_ISDIR(mode):
                        if left := pattern.below(rest, entry.filename):
                            waiting.append((f"{name}/", left))
                    elif pattern.names(rest, entry.filename):
                        if stat.S_ISREG(mode):
                            etag = f"{entry.st_mtime}-{entry.st_size}"
                            yield RemoteFile(name, etag, entry.st_size, partial(self._read, top + name))
                        else:
                            yield NotRead(name, "not_a_file", "it is a link, and those of a server are not followed")
            except OSError as error:
                if not folder:
                    finding = f"{top} cannot be listed: {error.strerror or error}"
                    raise self._failed(OperationalError, finding, "is it a path from the server's root?") from error
                yield NotRead(folder, "error", str(error.strerror or error), is_folder=True)

    def _read(self, path: str, size: int) -> bytes:
        with self._sftp.open(path, "rb") as file:
            file.prefetch(min(file.stat().st_size, size))
            body: bytes = file.read(size)
            return body

    def _connect(self) -> None:
        import paramiko

        host, auth, ssh_config = self._parts.hostname or "", self._source.auth, Path("~/.ssh/config").expanduser()
        own: Any = paramiko.SSHConfig.from_path(str(ssh_config)).lookup(host) if ssh_config.is_file() else {}
        try:
            self._client.load_system_host_keys()
            self._client.set_missing_host_key_policy(paramiko.RejectPolicy())
            self._client.connect(
                own.get("hostname", host),
                self._parts.port or int(own.get("port", 22)),
                auth.user.get_secret_value() if auth else self._parts.username or own.get("user"),
                auth.password.get_secret_value() if auth else None,
                key_filename=own.get("identityfile"),
                look_for_keys=auth is None,
                allow_agent=auth is None,
                timeout=_PATIENCE_S,
                banner_timeout=_PATIENCE_S,
                auth_timeout=_PATIENCE_S,
            )
            self._sftp = self._client.open_sftp()
            self._sftp.get_channel().settimeout(_PATIENCE_S)
        except paramiko.AuthenticationException as error:
            hint = 'auth: {user: "${USER}", password: "${PASSWORD}"}, or a key of the agent or of ~/.ssh'
            raise self._failed(CredentialRefused, f"nobody is let in: {error}", hint) from error
        except paramiko.BadHostKeyException as error:
            hint = "if it was changed on purpose: ssh-keygen -R the host, and connect once by ssh"
            raise self._failed(CredentialRefused, "the server's key is not the known one", hint) from error
        except paramiko.SSHException as error:
            if "known_hosts" in str(error):
                hint = f"connect to it once by `ssh {host}`; or add what `ssh-keyscan {host}` says to that file"
                raise self._failed(CredentialRefused, "~/.ssh/known_hosts does not know the server", hint) from error
            raise self._away(error) from error
        except (OSError, EOFError) as error:
            raise self._away(error) from error

    def _away(self, error: Exception) -> AlmanacError:
        hint = "check the network, host and port"
        return self._failed(Unreachable, f"the server does not answer: {error or type(error).__name__}", hint)

    def _failed(self, kind: type[AlmanacError], finding: str, hint: str) -> AlmanacError:
        return kind(f"{self.shown}: {finding}", where=f"source {self._source.name}", hint=hint)


@contextmanager
def sftp_files(source: FilesSource) -> Iterator[SftpFiles]:
    """The files of a server, as long as the block lasts."""
    require_extra("sftp", "a glob of sftp://", f"source {source.name}")
    import paramiko

    with paramiko.SSHClient() as client:
        yield SftpFiles(source, client)
