"""Files of a web server that lists its folders, and of an SFTP server."""

import base64
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from almanac.schemas.declaration.source import FilesSource
from almanac.schemas.errors import CredentialRefused, NoRecords, OperationalError, Unreachable
from almanac.spiders.crawling.previous_crawls import PreviousCrawls
from almanac.spiders.crawling.read_files import read_files
from almanac.spiders.store.raw import RawStore

USER, PASSWORD = "reader", "s3cr3t&2718"


class _Web:
    """A server that lists the folders of `root`, and notes what is asked."""

    def __init__(self, root: Path) -> None:
        self.root, self.requests, self.etags = root, list[str](), False
        self.answers: dict[str, tuple[int, dict[str, str]]] = {}
        self.base, self.password = "", ""

    def source(self, glob: str, **keys: Any) -> FilesSource:
        return FilesSource.model_validate({"name": "f", "kind": "files", "glob": f"{self.base}/{glob}", **keys})


@pytest.fixture
def web(tmp_path: Path) -> Iterator[_Web]:
    site = _Web(tmp_path / "site")
    site.root.mkdir()

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002, ARG002  # the base class's signature
            return

        def send_head(self) -> Any:
            site.requests.append(f"{self.command} {self.path}")
            wanted = base64.b64encode(f"{USER}:{site.password}".encode()).decode()
            if site.password and self.headers.get("Authorization") != f"Basic {wanted}":
                self.send_error(401)
                return None
            if (answer := site.answers.get(self.path)) is not None:
                self.send_response(answer[0])
                for header in answer[1].items():
                    self.send_header(*header)
                self.end_headers()
                return None
            return super().send_head()

        def end_headers(self) -> None:
            path = Path(self.translate_path(self.path))
            if site.etags and path.is_file():
                self.send_header("ETag", f'"{hash(path.read_bytes())}"')
            super().end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(site.root)))
    site.base = f"http://127.0.0.1:{server.server_address[1]}"
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield site
    server.shutdown()
    server.server_close()


def _write(root: Path, files: dict[str, str], *, at: int = 1_700_000_000) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (at, at))


def _stored(raw: RawStore, run_id: str) -> dict[str, str]:
    return {page.url: page.body.decode() for page in raw.pages(run_id)}


_FILES = {
    "docs/a.md": "# A",
    "docs/deep/über & co.md": "# B",
    "docs/deep/c.txt": "c",
    "docs/.hidden.md": "x",
    "z.md": "z",
}


@pytest.mark.parametrize("etags", [True, False])
def test_only_files_of_a_web_server_that_changed_are_fetched(web: _Web, tmp_path: Path, *, etags: bool) -> None:
    web.etags = etags
    _write(web.root, _FILES)
    raw, source = RawStore(tmp_path / "raw"), web.source("docs/**/*.md")
    first = read_files(source, tmp_path, raw, "r1")
    assert _stored(raw, "r1") == {"a.md": "# A", "deep/über & co.md": "# B"} and first.pages.fetched == 2
    (web.root / "docs/a.md").unlink()
    _write(web.root, {"docs/deep/über & co.md": "# C", "docs/new.md": "# New"}, at=1_700_000_009)
    web.requests.clear()
    second = read_files(source, tmp_path, raw, "r2", previous=PreviousCrawls(concluded="r1"))
    assert _stored(raw, "r2") == {"deep/über & co.md": "# C", "new.md": "# New"} and second.vanished == ["a.md"]
    web.requests.clear()
    third = read_files(source, tmp_path, raw, "r3", previous=PreviousCrawls(concluded="r2"))
    assert (third.pages.unchanged, third.pages.fetched) == (2, 0)
    assert sorted(request for request in web.requests if request.startswith("GET")) == ["GET /docs/", "GET /docs/deep/"]
    assert raw.index("r3").fingerprint == raw.index("r2").fingerprint


def test_a_file_may_be_named_where_nothing_is_listed(web: _Web, tmp_path: Path) -> None:
    _write(web.root, {"docs/plan.md": "# Plan"})
    read_files(web.source("docs/plan.md"), tmp_path, RawStore(tmp_path / "raw"), "r1")
    assert web.requests == ["HEAD /docs/plan.md", "GET /docs/plan.md"]
    with pytest.raises(NoRecords, match="gone"):
        read_files(web.source("docs/other.md"), tmp_path, RawStore(tmp_path / "raw"), "r1")


def test_what_a_server_refuses_keeps_what_it_had(web: _Web, tmp_path: Path) -> None:
    """A file, a whole folder; and what is listed, and is not there, is gone."""
    names = ["a", "b", "c/d", "e", "f"]
    _write(web.root, {f"{name}.md": name for name in names})
    raw, source = RawStore(tmp_path / "raw"), web.source("**/*.md")
    read_files(source, tmp_path, raw, "r1")
    elsewhere = {"Location": "http://other.test/b.md"}
    web.answers |= {"/a.md": (403, {}), "/b.md": (302, elsewhere), "/c/": (403, {}), "/e.md": (404, {})}
    second = read_files(source, tmp_path, raw, "r2", previous=PreviousCrawls(concluded="r1"))
    assert _stored(raw, "r2") == {"a.md": "a", "b.md": "b", "c/d.md": "c/d", "f.md": "f"} and second.pages.gone == 1
    assert {failure.url: failure.detail for failure in second.failures if failure.reason == "error"} == {
        "a.md": "the server answers 403",
        "b.md": "the server answers 302, and leads to http://other.test/b.md",
        "c/d.md": "the server answers 403",
    }


def test_what_is_no_url_in_a_folder_or_a_redirect_costs_nothing_else(web: _Web, tmp_path: Path) -> None:
    _write(web.root, {"a.md": "a", "b.md": "b", "c/index.html": '<a href="http://[">?</a> <a href="d.md">d</a>'})
    _write(web.root, {"c/d.md": "d"})
    web.answers["/b.md"] = (302, {"Location": "http://["})
    raw = RawStore(tmp_path / "raw")
    outcome = read_files(web.source("**/*.md"), tmp_path, raw, "r1")
    assert _stored(raw, "r1") == {"a.md": "a", "c/d.md": "d"}
    assert [failure.detail for failure in outcome.failures] == ["it leads to no URL: Invalid IPv6 URL"]


def test_a_body_that_is_cut_short_is_no_file(web: _Web, tmp_path: Path) -> None:
    _write(web.root, {"a.md": "a", "b.md": "b"})
    web.answers["/a.md"] = (200, {"Content-Length": "100", "Connection": "close"})
    outcome = read_files(web.source("*.md"), tmp_path, RawStore(tmp_path / "raw"), "r1")
    assert [failure.detail for failure in outcome.failures] == ["its content breaks off"]


def test_a_server_that_cannot_be_listed_ends_the_run(web: _Web, tmp_path: Path) -> None:
    raw = RawStore(tmp_path / "raw")
    with pytest.raises(OperationalError, match=r"/none/ cannot be listed: the server answers 404"):
        read_files(web.source("none/*.md"), tmp_path, raw, "r1")
    web.password = PASSWORD
    with pytest.raises(CredentialRefused, match="answers 401"):
        read_files(web.source("*.md"), tmp_path, raw, "r1")
    web.base = "http://127.0.0.1:9"
    with pytest.raises(Unreachable, match="refused"):
        read_files(web.source("*.md"), tmp_path, raw, "r1")


class _Sftp:
    """A server by OpenSSH, for a user of this machine with a key; its home is `home`."""

    def __init__(self, home: Path, port: int) -> None:
        self.home, self.port = home, port

    def source(self, glob: str, **keys: Any) -> FilesSource:
        declared = {"name": "f", "kind": "files", "glob": f"sftp://127.0.0.1:{self.port}{glob}", **keys}
        return FilesSource.model_validate(declared)


@pytest.fixture
def sftp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Sftp]:
    pytest.importorskip("paramiko")
    program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("no OpenSSH server is installed here")
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    for key in (tmp_path / "host", home / ".ssh/id_ed25519"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    shutil.copy(home / ".ssh/id_ed25519.pub", tmp_path / "known")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    port = _free_port()
    options = {
        "HostKey": tmp_path / "host",
        "AuthorizedKeysFile": tmp_path / "known",
        "Port": port,
        "ListenAddress": "127.0.0.1",
        "Subsystem": "sftp internal-sftp",
        "StrictModes": "no",
        "PidFile": "none",
        "UsePAM": "no",
        "PasswordAuthentication": "no",
    }
    (tmp_path / "sshd_config").write_text("".join(f"{key} {value}\n" for key, value in options.items()))
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    with subprocess.Popen([program, "-D", "-f", str(tmp_path / "sshd_config")], stderr=subprocess.DEVNULL) as server:
        while (known := _host_key(port)) == "":
            assert server.poll() is None
            time.sleep(0.05)
        (home / ".ssh/known_hosts").write_text(known)
        try:
            yield _Sftp(home, port)
        finally:
            server.terminate()


def _free_port() -> int:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _host_key(port: int) -> str:
    command = ["ssh-keyscan", "-t", "ed25519", "-p", str(port), "127.0.0.1"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


@pytest.mark.slow
def test_only_files_of_an_sftp_server_that_changed_are_fetched(sftp: _Sftp, tmp_path: Path) -> None:
    from almanac.spiders.crawling.sftp_files import SftpFiles

    root = tmp_path / "site"
    _write(root, _FILES)
    (root / "docs/link.md").symlink_to("a.md")
    raw, source = RawStore(tmp_path / "raw"), sftp.source(f"{root}/docs/**/*.md")
    first = read_files(source, tmp_path, raw, "r1")
    assert _stored(raw, "r1") == {"a.md": "# A", "deep/über & co.md": "# B"}
    assert [(failure.url, failure.reason) for failure in first.failures] == [("link.md", "not_a_file")]
    (root / "docs/a.md").unlink()
    _write(root, {"docs/deep/über & co.md": "# C", "docs/new.md": "# New"}, at=1_700_000_009)
    second = read_files(source, tmp_path, raw, "r2", previous=PreviousCrawls(concluded="r1"))
    assert _stored(raw, "r2") == {"deep/über & co.md": "# C", "new.md": "# New"} and second.vanished == ["a.md"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SftpFiles, "_read", lambda *_: pytest.fail("it is read again"))
        third = read_files(source, tmp_path, raw, "r3", previous=PreviousCrawls(concluded="r2"))
    assert (third.pages.unchanged, third.pages.fetched) == (2, 0)


@pytest.mark.slow
def test_an_sftp_server_that_cannot_be_read_is_told(sftp: _Sftp, tmp_path: Path) -> None:
    raw = RawStore(tmp_path / "raw")
    with pytest.raises(OperationalError, match="/none/ cannot be listed: No such file"):
        read_files(sftp.source("/none/*.md"), tmp_path, raw, "r1")
    with pytest.raises(CredentialRefused, match="nobody is let in") as raised:
        auth = {"user": USER, "password": PASSWORD}
        read_files(sftp.source("/etc/*.md", auth=auth), tmp_path, raw, "r1")
    assert PASSWORD not in str(raised.value)
    (sftp.home / ".ssh/known_hosts").write_text("")
    with pytest.raises(CredentialRefused, match="known_hosts does not know"):
        read_files(sftp.source("/etc/*.md"), tmp_path, raw, "r1")
    sftp.port = _free_port()
    with pytest.raises(Unreachable, match="does not answer"):
        read_files(sftp.source("/etc/*.md"), tmp_path, raw, "r1")
