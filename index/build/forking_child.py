"""A process that imports what jobs need, once, and forks a child for each: `python -m almanac.index.build.forking_child
MODULE…`.

Builder and verifier each take a second and a half of processor time to import Chroma. They stay processes of their own,
which share no client, no file and no thread: this one opens nothing and waits for the child that it has forked, before
it reads the next job. It has one thread of Python's; those of OpenBLAS and of Arrow's allocator know of forks.

A job is a line of JSON, {"module", "job", "aside"}, and a line `all` for its child follows it. The child answers on
stdout, and is followed by a line that tells its exit code, negative for a signal. It ends with this process, which ends
with its parent.
"""

import json
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from typing import Any, NoReturn

from almanac.core.lifetime import die_with_parent
from almanac.core.settings import quiet_engines
from almanac.index.build.child_process import ALL, ENDED, Message
from almanac.schemas.errors import AlmanacError

_PAUSE_S = 0.5  # after which a child looks again for what it waits for
_ASIDE = 10  # niceness of a child that works beside its parent: embedding is what the run waits for


def main() -> None:
    """Serves jobs until stdin ends."""
    die_with_parent()
    quiet_engines()
    # The pipe to the parent carries only messages: libraries print to stdout, and that is redirected to stderr.
    pipe = os.dup(1)
    os.dup2(2, 1)
    for name in sys.argv[1:]:
        import_module(name).prepare()
    while line := sys.stdin.buffer.readline():
        if not line.endswith(b"\n"):
            return
        if line.strip().decode() == ALL:  # for a child that has ended
            continue
        ours = os.getpid()
        child = os.fork()
        if child == 0:
            _become(ours, json.loads(line), pipe)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        # on a line of its own, whatever the child was saying
        os.write(pipe, f"\n{json.dumps({ENDED: code})}\n".encode())


def _become(parent: int, order: dict[str, Any], pipe: int) -> NoReturn:
    code = 1
    try:
        die_with_parent()
        if os.getppid() == parent:  # else it has died already
            if order["aside"]:
                os.nice(_ASIDE)
            code = _do(order["module"], order["job"], _listen(), pipe)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _listen() -> Iterator[bool]:
    """Yields twice a second, until the parent tells that all is there. The process ends with its stdin."""
    is_all = threading.Event()

    def listen() -> None:
        while sys.stdin.buffer.readline():
            is_all.set()
        os._exit(1)

    threading.Thread(target=listen, daemon=True, name="parent-watch").start()
    return iter(partial(is_all.wait, _PAUSE_S), True)


def _do(module: str, job: str, more: Iterator[bool], pipe: int) -> int:
    """Calls the module's `work`, reports an error to the parent, and returns the exit code of the process."""
    with os.fdopen(pipe, "w", encoding="utf-8") as messages:

        def send(message: Message) -> None:
            print(json.dumps(message), file=messages, flush=True)

        try:
            import_module(module).work(job, send, more)
        except AlmanacError as error:
            send({**error.as_json()})
            return error.exit_code
        except Exception:
            traceback.print_exc()
            return 1
    return 0


if __name__ == "__main__":
    main()
