"""A child process that ends with its parent, however that one ends."""

import os
import signal
import sys
import threading

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """SIGKILL when the parent dies (Linux), and a watch on stdin where that is not to be had or came too late.

    The parent holds the child's stdin open as a pipe and never writes.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="parent-watch").start()
