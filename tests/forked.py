"""Child processes of the product, forked from a process of the tests instead of started anew.

Importing Scrapy is nearly all that the crawl of a test's site costs, and importing Chroma nearly all that building and
verifying a small version costs; it says nothing about either. The child has a session, streams, a parent and an exit
code of its own, as one that is started has; unlike that, it finds modules as its parent has them, patched ones as well.
"""

import ctypes
import faulthandler
import gc
import json
import logging
import os
import re
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NoReturn
from unittest.mock import patch

_HIGHEST = 4096  # descriptors
_M_PERTURB = -6  # of glibc's mallopt, which reads GLIBC_TUNABLES only as a program starts
# what starts the children that are forked
_STARTING = ("almanac.spiders.crawling.crawl_start", "almanac.index.build.child_process")


class Forked(subprocess.Popen[str]):
    """For `python … -m MODULE [ARGUMENT]`, in a session of its own, with all three streams as pipes."""

    def _execute_child(self, args: list[str], *others: Any) -> None:
        pipes = others[9:15]  # stdin to read and write, stdout to read and write, stderr to read and write
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            _take_environment(others[5])
            _become(args[args.index("-m") + 1 :], (pipes[0], pipes[3], pipes[5]))
        self._child_created = True
        for descriptor in (pipes[0], pipes[3], pipes[5]):
            os.close(descriptor)


def import_crawls() -> None:
    """Imports what the process of a crawl does: Scrapy, and what Scrapy imports by its name as a crawl begins, also
    where the crawl's settings disable it.

    The latter, aiohttp and requests among it, is most of what a small crawl costs. None of it installs a reactor.
    """
    from scrapy.settings import default_settings
    from scrapy.utils.misc import load_object

    import almanac.spiders.crawling.crawl_process  # noqa: F401
    from almanac.spiders.crawling import crawl_settings

    for value in [*vars(default_settings).values(), *vars(crawl_settings).values()]:
        named = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else [value]
        for name in named:
            if isinstance(name, str) and name.startswith(("scrapy.", "almanac.")):
                load_object(name)
    assert "twisted.internet.reactor" not in sys.modules


@contextmanager
def forked_crawls() -> Iterator[None]:
    """Crawls are forked within the block."""
    import_crawls()  # so that children have it
    forking = SimpleNamespace(**{**vars(subprocess), "Popen": Forked})
    with patch("almanac.spiders.crawling.crawl_start.subprocess", forking):
        yield


def prepare_spares(count: int) -> None:
    """Forks children in advance, while this process has one thread: the first `count` that the product starts for
    crawls and versions are these.
    """
    spares = [_Spare() for _ in range(count)]

    class Spared(subprocess.Popen[Any]):
        """For `python … -m MODULE [ARGUMENT]`, in a session of its own."""

        def _execute_child(self, args: list[str], *others: Any) -> None:
            if not spares:
                super()._execute_child(args, *others)  # type: ignore[misc]
                return
            stdin, to_stdin, from_stdout, stdout, from_stderr, stderr = others[9:15]
            spare = spares.pop()
            spare.wake(args[args.index("-m") + 1 :], others[5], (stdin, stdout, stderr))
            self.pid = spare.pid
            self._child_created = True
            for theirs, ours in ((stdin, to_stdin), (stdout, from_stdout), (stderr, from_stderr)):
                if ours != -1:
                    os.close(theirs)

    forking = SimpleNamespace(**{**vars(subprocess), "Popen": Spared})
    for module in _STARTING:
        patch(f"{module}.subprocess", forking).start()


class _Spare:
    """A child that waits to hear which module it becomes, and ends where it hears nothing before its parent ends."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            self._ours.close()
            os.setsid()
            wake_message, streams, _, _ = socket.recv_fds(theirs, 1 << 20, 3)
            if not wake_message:
                os._exit(0)
            wanted = json.loads(wake_message)
            _take_environment(wanted["environment"])
            if perturb := re.search(r"malloc\.perturb=(\d+)", os.environ.get("GLIBC_TUNABLES", "")):
                ctypes.CDLL(None).mallopt(_M_PERTURB, int(perturb[1]))
            _become(wanted["arguments"], tuple(streams))
        theirs.close()

    def wake(self, arguments: list[str], environment: dict[str, str] | None, streams: tuple[int, int, int]) -> None:
        wake_message = {"arguments": arguments, "environment": dict(os.environ if environment is None else environment)}
        socket.send_fds(self._ours, [json.dumps(wake_message).encode()], streams)
        self._ours.close()


def _take_environment(environment: dict[str, str] | None) -> None:
    if environment is not None:
        os.environ.clear()
        os.environ.update(environment)


def _become(arguments: list[str], streams: tuple[int, ...]) -> NoReturn:
    """Turns this process into `python -m MODULE ARGUMENTS`."""
    module, code = arguments[0], 1
    try:
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
        os.closerange(3, _HIGHEST)
        gc.freeze()  # nothing of the tests is ended here
        for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(
                signal_number, signal.default_int_handler if signal_number is signal.SIGINT else signal.SIG_DFL
            )
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
        faulthandler.enable(2)  # pytest's has a descriptor that is closed by now
        sys.argv = list(arguments)
        logging.root.handlers.clear()
        sys.modules.pop("twisted.internet.reactor", None)
        sys.modules.pop(module, None)
        runpy.run_module(module, run_name="__main__")
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)
