"""A process that imports what steps need, once, and forks a child for each job: `python -m
almanac.index.build.forking_child MODULE…`.

Builder and verifier each take a second and a half of processor time to import Chroma. They stay processes of their own,
which share no client, no file and no thread: this one opens nothing and waits for the child that it has forked, before
it reads the next job. It has one thread of Python's; those of OpenBLAS and of Arrow's allocator know of forks.

A job is a line of JSON, {"module", "job"}. The child answers on the same pipe as one that was started does, and is
followed by a line that tells its exit code, negative for a signal. It ends with this process, which ends with its
parent.
"""

import json
import os
import sys
import traceback
from importlib import import_module
from typing import NoReturn

from almanac.core.lifetime import die_with_parent, watch_stdin
from almanac.core.settings import quiet_engines
from almanac.index.build.child_process import ENDED, do_job, keep_stdout


def main() -> None:
    """Serves jobs until stdin ends."""
    die_with_parent()
    quiet_engines()
    pipe = keep_stdout()
    for name in sys.argv[1:]:
        import_module(name).prepare()
    while line := sys.stdin.buffer.readline():
        if not line.endswith(b"\n"):
            return
        ours = os.getpid()
        child = os.fork()
        if child == 0:
            _become(ours, json.loads(line), pipe)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        # on a line of its own, whatever the child was saying
        os.write(pipe, f"\n{json.dumps({ENDED: code})}\n".encode())


def _become(parent: int, asked: dict[str, str], pipe: int) -> NoReturn:
    code = 1
    try:
        die_with_parent()
        if os.getppid() == parent:  # else it has died already
            watch_stdin()
            code = do_job(import_module(asked["module"]).work, asked["job"], pipe)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
