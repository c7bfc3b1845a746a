"""A command that ends before its embedder is loaded, by Ctrl-C or with an error, does not wait for it."""

import subprocess
import sys

_COMMAND = """
import threading, time
from almanac.cli import main as cli

def end_early(arguments):
    threading.Thread(target=time.sleep, args=(60,), name="embedder").start()
    return 130

cli.run = end_early
print("told")
cli.main([])
"""


def test_a_command_that_has_ended_waits_for_no_embedder() -> None:
    ran = subprocess.run([sys.executable, "-c", _COMMAND], capture_output=True, text=True, check=False, timeout=40)
    assert (ran.returncode, ran.stdout) == (130, "told\n")
