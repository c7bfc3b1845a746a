"""Starts the process of a crawl. One may be started before there is a job for it: it imports Scrapy while the run
prepares, and waits.
"""

import atexit
import subprocess
import sys

_PROCESS = "almanac.spiders.crawling.crawl_process"
_waiting: list["subprocess.Popen[str]"] = []


def start_ahead() -> None:
    """Starts the process that the next crawl takes. If no crawl takes it, it ends with this process."""
    if not _waiting:
        _waiting.append(_started())
        atexit.register(_end)


def crawl_process() -> "subprocess.Popen[str]":
    """Returns a process that waits for its job on stdin, one that was started ahead if there is one."""
    while _waiting:
        process = _waiting.pop()
        if process.poll() is None:
            return process
        _close(process)
    return _started()


def _started() -> "subprocess.Popen[str]":
    return subprocess.Popen(
        # -P: no file in the current folder shadows a library. faulthandler: a crash in one of them says where.
        [sys.executable, "-P", "-X", "faulthandler", "-m", _PROCESS],
        stdin=subprocess.PIPE,  # closes when this process dies, which ends the crawl
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def _end() -> None:
    for process in _waiting:
        process.kill()
        process.wait()
        _close(process)
    _waiting.clear()


def _close(process: "subprocess.Popen[str]") -> None:
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()
