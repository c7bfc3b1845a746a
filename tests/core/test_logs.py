"""Loggers before structlog is imported: each event goes through the standard library, whichever thread has the first
one.
"""

import copy
import pickle
import subprocess
import sys

from almanac.core.logs import Logger, get_logger

_FIRST_EVENTS = """
import logging, sys, threading
from almanac.core.logs import get_logger, log_through_stdlib
logging.basicConfig(stream=sys.stderr, format="%(message)s")
log_through_stdlib()
assert "structlog" not in sys.modules
import structlog
configure, begun = structlog.configure, threading.Event()

def configured_slowly(**settings):
    structlog.configure = configure
    configure()  # begins by calling itself configured
    begun.set()
    import time
    time.sleep(0.2)
    configure(**settings)

structlog.configure = configured_slowly
log = get_logger("almanac.first")
one = threading.Thread(target=lambda: log.info("one"))
one.start()
begun.wait(20)
log.info("other")
one.join()
"""


def test_first_events_of_several_threads_go_through_the_standard_library() -> None:
    ran = subprocess.run([sys.executable, "-c", _FIRST_EVENTS], capture_output=True, text=True, check=True, timeout=60)
    assert (ran.stdout, sorted(ran.stderr.splitlines())) == ("", ["one", "other"])


def test_a_logger_can_be_copied_and_pickled() -> None:
    for made in (
        copy.copy(get_logger("almanac.x")),
        copy.deepcopy(get_logger("almanac.x")),
        pickle.loads(pickle.dumps(get_logger("almanac.x"))),
    ):
        assert isinstance(made, Logger)
        assert made._name == "almanac.x"
