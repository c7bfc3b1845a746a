"""A server on loopback that speaks Mistral's API, and OpenAI's, which is alike: embeddings, chat completions, streamed
ones too, and every fault of faults.py.

usage: python -m tests.loopback.mistral [--port N] [--fault NAME] [--times N] [--dimension N] [--obeys] [--faults]

Vectors follow from the words of a text alone, so that texts which share words lie near each other. A chat answers with
the first sentence of the passage that is marked [1], or else with the last message; or it does what anybody in the
prompt says (obedient.py). Any key will do, but there must be one.
"""

import argparse
import hashlib
import json
import re
import sys
import threading
from dataclasses import dataclass, field
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from tests.loopback.faults import FAULTS, Exchange
from tests.loopback.obedient import obey

_ALWAYS = 1_000_000_000
_PASSAGE = re.compile(r"\[1\][\s:]*(.+?[.!?。]|.+)", re.DOTALL)


def embed_text(text: str, dimension: int) -> list[float]:
    """A unit vector: the sum of one for each word."""
    vector = np.zeros(dimension)
    for word in re.findall(r"\w+", text.casefold()) or [text]:
        vector += _word_vector(word, dimension)
    return [round(float(number), 7) for number in vector / np.linalg.norm(vector)]


@lru_cache(maxsize=10_000)
def _word_vector(word: str, dimension: int) -> Any:
    seed = int.from_bytes(hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()[:8], "big")
    return np.random.default_rng(seed).normal(size=dimension)


def reply_to(messages: list[dict[str, Any]]) -> str:
    passages = [match for message in messages if (match := _PASSAGE.search(str(message["content"])))]
    return f"{passages[-1][1].strip()} [1]" if passages else f"You said: {messages[-1]['content']}"


@dataclass
class LoopbackMistral:
    """Serves within a `with` block, in a thread. `fault` strikes the next `times` requests; `requests` holds the
    bodies of all, `headers` their headers; `says` is what chats answer.

    With `obeys`, chats do what stands in the prompt.
    """

    port: int = 0
    dimension: int = 1024
    fault: str | None = None
    times: int = _ALWAYS
    patience_s: float = 1.0  # how long what is late takes
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list, repr=False)  # of every request, by names in lower case
    needs_key: bool = True
    says: str | None = None
    obeys: bool = False

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"mistral": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def strike(self, fault: str | None, times: int = _ALWAYS) -> None:
        """From now on, with this fault."""
        with self._lock:
            self.fault, self.times = fault, times
            self.requests.clear()

    def takes(self, request: dict[str, Any]) -> str | None:
        """Notes a request, and says which fault strikes it."""
        with self._lock:
            self.requests.append(request)
            if self.fault is None or self.times <= 0:
                return None
            self.times -= 1
            return self.fault

    def serve(self) -> None:
        self._server.serve_forever(poll_interval=0.02)

    def __enter__(self) -> "LoopbackMistral":
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def address_of(server: LoopbackMistral, provider: str) -> dict[str, str]:
    """What a declaration says for a provider's client to ask this server, with the key in MISTRAL_API_KEY."""
    if provider == "mistral":
        return {"server_url": server.url}
    return {"base_url": f"{server.url}/v1", "key": "${MISTRAL_API_KEY}"}


class _Handler(BaseHTTPRequestHandler):
    mistral: LoopbackMistral
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits 40 ms for an acknowledgement

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.mistral.headers.append({name.lower(): value for name, value in self.headers.items()})
        exchange = Exchange(self, request, *self._answers(request), patience_s=self.mistral.patience_s)
        if self.mistral.needs_key and not self.headers.get("Authorization", "").removeprefix("Bearer "):
            exchange.send_json({"detail": "Unauthorized"}, 401)
        elif fault := self.mistral.takes(request):
            try:
                FAULTS[fault](exchange)
            except OSError:  # the client has gone
                self.close_connection = True
        else:
            exchange.send_well()

    def _answers(self, request: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        if self.path == "/v1/embeddings":
            return self._embeddings(request), []
        if self.path == "/v1/chat/completions":
            return self._chat(request)
        return {}, []

    def _embeddings(self, request: dict[str, Any]) -> dict[str, Any]:
        texts = [request["input"]] if isinstance(request["input"], str) else request["input"]
        data = [
            {"object": "embedding", "index": row, "embedding": embed_text(text, self.mistral.dimension)}
            for row, text in enumerate(texts)
        ]
        tokens = sum(1 + len(text) // 4 for text in texts)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0}
        return {"id": "embd-1", "object": "list", "model": request["model"], "data": data, "usage": usage}

    def _chat(self, request: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        reply = self.mistral.says or (obey if self.mistral.obeys else reply_to)(request["messages"])
        usage = {"prompt_tokens": 9, "completion_tokens": len(reply) // 4, "total_tokens": 9 + len(reply) // 4}
        completion = {"id": "cmpl-1", "created": 1700000000, "model": request["model"]}
        choice = {"index": 0, "message": {"role": "assistant", "content": reply}, "finish_reason": "stop"}
        words = re.findall(r"\S+\s*", reply)
        events: list[dict[str, Any]] = [
            {
                **completion,
                "object": "chat.completion.chunk",
                "choices": [{"index": 0, "delta": {"role": "assistant", "content": word}, "finish_reason": None}],
            }
            for word in words
        ]
        events.append(
            {
                **completion,
                "object": "chat.completion.chunk",
                "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "stop"}],
                "usage": usage,
            }
        )
        return {**completion, "object": "chat.completion", "choices": [choice], "usage": usage}, events

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  its parent's name
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--fault", choices=sorted(FAULTS))
    parser.add_argument("--times", type=int, default=_ALWAYS, help="requests that the fault strikes; default: all")
    parser.add_argument("--dimension", type=int, default=1024)
    parser.add_argument("--patience", type=float, default=120.0, help="seconds that what is late takes")
    parser.add_argument("--obeys", action="store_true", help="do what the prompt says, whoever says it")
    parser.add_argument("--faults", action="store_true", help="list the faults")
    options = parser.parse_args()
    if options.faults:
        sys.stdout.write("\n".join(FAULTS) + "\n")
        return
    server = LoopbackMistral(
        options.port, options.dimension, options.fault, options.times, options.patience, obeys=options.obeys
    )
    sys.stdout.write(f"{server.url}\n")
    sys.stdout.flush()
    server.serve()


if __name__ == "__main__":
    main()
