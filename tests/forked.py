"""Child processes of the product, forked from the process of the tests instead of started anew.

Importing Scrapy and Twisted is nearly all that the crawl of a test's site costs, and says nothing about the crawl. The child has a session, streams, a
parent and an exit code of its own, as one that is started has; unlike that, it finds modules as its parent has them, patched ones as well.
"""

import gc
import logging
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NoReturn
from unittest.mock import patch

_HIGHEST = 4096  # descriptors


class Forked(subprocess.Popen[str]):
    """For `python -P -m MODULE`, in a session of its own, with all three streams as pipes."""

    def _execute_child(self, args: list[str], *others: Any) -> None:
        pipes = others[9:15]  # stdin to read and write, stdout to read and write, stderr to read and write
        self.pid = os.fork()
        if self.pid == 0:
            _become(args[-1], pipes[0], pipes[3], pipes[5])
        self._child_created = True
        for descriptor in (pipes[0], pipes[3], pipes[5]):
            os.close(descriptor)


@contextmanager
def forked_crawls() -> Iterator[None]:
    """Crawls are forked within the block."""
    import almanac.spiders.crawling.crawl_process  # noqa: F401  # so that children have it

    forking = SimpleNamespace(**{**vars(subprocess), "Popen": Forked})
    with patch("almanac.spiders.crawling.crawl.subprocess", forking):
        yield


def _become(module: str, stdin: int, stdout: int, stderr: int) -> NoReturn:
    """Turns this process into `python -m module`."""
    code = 1
    try:
        os.setsid()
        for number, descriptor in enumerate((stdin, stdout, stderr)):
            os.dup2(descriptor, number)
        os.closerange(3, _HIGHEST)
        gc.freeze()  # nothing of the tests is ended here
        for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(one, signal.default_int_handler if one is signal.SIGINT else signal.SIG_DFL)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
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
