"""What can go wrong between us and a server, by name. Each fault takes an exchange and answers it badly."""

import gzip
import json
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from typing import Any

POISON = "poison"  # a text that holds this word is the one that such faults are about
FEW_TOKENS = 400  # of a request, by characters / 4, for the fault that takes no more


@dataclass
class Exchange:
    """A request and the answer that it would get. `answer` is JSON for embeddings and chat, `events` the parts of a
    streamed chat.
    """

    handler: BaseHTTPRequestHandler
    request: dict[str, Any]
    answer: dict[str, Any]
    events: list[dict[str, Any]]
    patience_s: float

    @property
    def texts(self) -> list[str]:
        given = self.request.get("input", [])
        return [given] if isinstance(given, str) else list(given)

    @property
    def is_poisoned(self) -> bool:
        return any(POISON in text for text in self.texts)

    def send(
        self,
        status: int,
        body: bytes,
        headers: Mapping[str, str] = {},
        *,
        kind: str = "application/json",
        length: int | None = None,
    ) -> None:
        self.handler.send_response(status)
        self.handler.send_header("Content-Type", kind)
        self.handler.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in headers.items():
            self.handler.send_header(name, value)
        self.handler.end_headers()
        self.handler.wfile.write(body)

    def send_json(self, answer: Any, status: int = 200) -> None:
        self.send(status, json.dumps(answer).encode())

    def send_stream(self, lines: list[bytes]) -> None:
        """Server-sent events, then the end of the connection."""
        self.handler.send_response(200)
        self.handler.send_header("Content-Type", "text/event-stream")
        self.handler.send_header("Connection", "close")
        self.handler.end_headers()
        for line in lines:
            self.handler.wfile.write(line)
            self.handler.wfile.flush()
        self.handler.close_connection = True

    def send_well(self) -> None:
        if self.request.get("stream"):
            self.send_stream([*(event_line(event) for event in self.events), b"data: [DONE]\n\n"])
        else:
            self.send_json(self.answer)

    def hang_up(self, *, reset: bool = False) -> None:
        connection = self.handler.connection
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.handler.close_connection = True
        if not reset:
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()


Fault = Callable[[Exchange], None]
_GZIP = {"Content-Encoding": "gzip"}


def event_line(event: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(event)}\n\n".encode()


def _status(status: int, body: Any = None, kind: str = "application/json", *, retry_after: str | None = None) -> Fault:
    reply_body = (
        {"object": "error", "message": f"status {status}", "type": "error", "code": status} if body is None else body
    )
    content = reply_body if isinstance(reply_body, bytes) else json.dumps(reply_body).encode()
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return lambda exchange: exchange.send(status, content, headers, kind=kind)


def _body(body: bytes) -> Fault:
    return lambda exchange: exchange.send(200, body)


def _changed(change: Callable[[list[dict[str, Any]]], object]) -> Fault:
    """The right answer, but for what `change` does to its vectors, {index, embedding} each."""

    def fault(exchange: Exchange) -> None:
        change(exchange.answer["data"])
        exchange.send_json(exchange.answer)

    return fault


def _first(**values: Any) -> Fault:
    return _changed(lambda data: data[0].update(values))


def _number(value: Any) -> Fault:
    return _changed(lambda data: data[0]["embedding"].__setitem__(3, value))


def _without(*keys: str) -> Fault:
    return lambda exchange: exchange.send_json(
        {key: value for key, value in exchange.answer.items() if key not in keys}
    )


def _when(is_struck: Callable[[Exchange], bool], fault: Fault) -> Fault:
    """The fault strikes some requests, the others are answered well."""
    return lambda exchange: fault(exchange) if is_struck(exchange) else exchange.send_well()


def _nan_for_poison(exchange: Exchange) -> None:
    for text, row in zip(exchange.texts, exchange.answer["data"], strict=True):
        if POISON in text:
            row["embedding"][0] = float("nan")
    exchange.send_json(exchange.answer)


def _without_poison(exchange: Exchange) -> None:
    taken = [row for text, row in zip(exchange.texts, exchange.answer["data"], strict=True) if POISON not in text]
    exchange.answer["data"] = [{**row, "index": number} for number, row in enumerate(taken)]
    exchange.send_json(exchange.answer)


def _shuffled(exchange: Exchange) -> None:
    exchange.answer["data"] = exchange.answer["data"][1::2] + exchange.answer["data"][::2]
    exchange.send_json(exchange.answer)


def _late(exchange: Exchange) -> None:
    time.sleep(exchange.patience_s)
    exchange.send_well()


def _slow(exchange: Exchange) -> None:
    """A byte now and then, each in time: only a limit on the whole notices."""
    body = json.dumps(exchange.answer).encode()
    exchange.send(200, b"", length=len(body))
    for byte in body[:40]:
        exchange.handler.wfile.write(bytes([byte]))
        exchange.handler.wfile.flush()
        time.sleep(exchange.patience_s / 20)
    exchange.hang_up()


def _cut_off(exchange: Exchange) -> None:
    body = json.dumps(exchange.answer).encode()
    exchange.send(200, body[: len(body) // 2], length=len(body))
    exchange.hang_up()


def _echo_key(exchange: Exchange) -> None:
    key = exchange.handler.headers.get("Authorization", "")
    exchange.send_json({"message": f"wrong key: {key}", "detail": key}, 401)


def _raw(content: bytes) -> Fault:
    def fault(exchange: Exchange) -> None:
        exchange.handler.wfile.write(content)
        exchange.hang_up()

    return fault


def _unsupported(option: str, finding: str) -> Fault:
    """Refuses an option as OpenAI's newer models do."""
    error = {"error": {"message": finding, "type": "invalid_request_error", "param": option}}
    return _when(lambda exchange: option in exchange.request, _status(400, error))


def _redirect_to(status: int, place: str) -> Fault:
    return lambda exchange: exchange.send(status, b"", {"Location": place})


def _too_many(exchange: Exchange) -> None:
    exchange.send_json(
        {
            "object": "error",
            "message": "Too many tokens in batch. Max is 16384 got 20000",
            "type": "invalid_request_error",
        },
        400,
    )


def _has_many_tokens(exchange: Exchange) -> bool:
    return len(exchange.texts) > 1 and sum(len(text) for text in exchange.texts) / 4 > FEW_TOKENS


def _choice(**values: Any) -> Fault:
    def fault(exchange: Exchange) -> None:
        exchange.answer["choices"][0].update(values)
        exchange.send_json(exchange.answer)

    return fault


def _content(content: Any) -> Fault:
    return _choice(message={"role": "assistant", "content": content})


def _stream(change: Callable[[list[bytes]], list[bytes]]) -> Fault:
    return lambda exchange: exchange.send_stream(
        change([*(event_line(event) for event in exchange.events), b"data: [DONE]\n\n"])
    )


def _break_stream(exchange: Exchange) -> None:
    exchange.send_stream([event_line(exchange.events[0]), b'data: {"id": "x", "choi'])
    exchange.hang_up(reset=True)


def _html(status: int = 200) -> Fault:
    return _status(
        status, b"<!DOCTYPE html><html><body>Welcome to the airport's network</body></html>", "text/html; charset=utf-8"
    )


_MODEL = {"object": "error", "message": "Invalid model: nonesuch", "type": "invalid_model", "code": "1500"}
_DETAIL = {"detail": [{"loc": ["body", "input"], "msg": "field required", "type": "value_error.missing"}]}

# Of any request.
COMMON: dict[str, Fault] = {
    "429": _status(429),
    "429_seconds": _status(429, retry_after="0.02"),
    "429_date": lambda exchange: _status(429, retry_after=formatdate(time.time(), usegmt=True))(exchange),
    "429_infinite": _status(429, retry_after="inf"),
    "429_nan": _status(429, retry_after="nan"),
    "429_negative": _status(429, retry_after="-5"),
    "429_garbage": _status(429, retry_after="soon, really"),
    "429_huge": _status(429, retry_after="1" + "0" * 400),
    "429_far_date": _status(429, retry_after="Fri, 31 Dec 9999 23:59:59 GMT"),
    "408": _status(408),
    "425": _status(425),
    "500": _status(500, b"Internal Server Error", "text/plain"),
    "502": _html(502),
    "503": _status(503, retry_after="0"),
    "504": _status(504, b"", "text/html"),
    "reset": lambda exchange: exchange.hang_up(reset=True),
    "closed": lambda exchange: exchange.hang_up(),
    "closed_mid_body": _cut_off,
    "no_http": _raw(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "late": _late,
    "slow_body": _slow,
    "truncated_json": lambda exchange: exchange.send(200, json.dumps(exchange.answer).encode()[:-40]),
    "html": _html(),
    "empty_body": _body(b""),
    "no_content": _status(204, b""),
    "json_null": _body(b"null"),
    "json_list": _body(b"[]"),
    "deep_json": _body(b"[" * 100_000),
    "not_utf8": _body(b'{"id": "\xff\xfe", "data": []}'),
    "wrong_content_type": lambda exchange: exchange.send(200, json.dumps(exchange.answer).encode(), kind="text/plain"),
    "broken_gzip": lambda exchange: exchange.send(
        200, gzip.compress(json.dumps(exchange.answer).encode())[:-30] + b"x" * 30, _GZIP
    ),
    "not_gzip": lambda exchange: exchange.send(200, json.dumps(exchange.answer).encode(), _GZIP),
    "error_as_200": _body(b'{"object": "error", "message": "overloaded"}'),
    "400_model": _status(400, _MODEL),
    "401": _status(401, {"detail": "Unauthorized"}),
    "401_echo": _echo_key,
    "402": _status(402, {"message": "no credit left"}),
    "403": _status(403),
    "404": _status(404, b"404 page not found", "text/plain"),
    "422": _status(422, _DETAIL),
    "422_odd": _status(422, {"detail": "no list"}),
    "redirect": _redirect_to(302, "https://elsewhere.invalid/v1/embeddings"),
    "redirect_same": _redirect_to(307, "/v1/embeddings/"),
}

EMBEDDING: dict[str, Fault] = {
    "no_data": _without("data"),
    "empty_data": _changed(lambda data: data.clear()),
    "too_few": _changed(lambda data: data.pop()),
    "too_many": _changed(lambda data: data.append({**data[-1], "index": len(data)})),
    "shuffled": _shuffled,
    "index_from_1": _changed(lambda data: [row.update(index=row["index"] + 1) for row in data]),
    "index_twice": _changed(lambda data: data[-1].update(index=0)),
    "index_negative": _first(index=-1),
    "index_missing": _changed(lambda data: data[0].pop("index")),
    "index_text": _first(index="first"),
    "no_index": _changed(lambda data: [row.pop("index") for row in data]),
    "no_id": _without("id"),
    "no_usage": _without("usage", "id"),
    "nan": _number(float("nan")),
    "infinity": _number(float("inf")),
    "null_number": _number(None),
    "text_number": _number("many"),
    "nested_number": _number([0.1]),
    "huge_number": _number(1e300),
    "huge_integer": _number(10**400),
    "null_vector": _first(embedding=None),
    "empty_vector": _first(embedding=[]),
    "text_vector": _first(embedding="AAAAAAAA"),
    "zero_vector": _changed(lambda data: data[0].update(embedding=[0.0] * len(data[0]["embedding"]))),
    "short_vector": _changed(lambda data: data[0]["embedding"].pop()),
    "not_unit": _changed(
        lambda data: [row.update(embedding=[7 * number for number in row["embedding"]]) for row in data]
    ),
    "other_dimension": _changed(lambda data: [row["embedding"].append(0.0) for row in data]),
    "400_too_many_tokens": _when(_has_many_tokens, _too_many),
    "413": _when(_has_many_tokens, _status(413, b"Payload Too Large", "text/plain")),
    "400_poison": _when(lambda exchange: exchange.is_poisoned, _status(400, {"message": "input cannot be read"})),
    "500_poison": _when(lambda exchange: exchange.is_poisoned, _status(500)),
    "nan_poison": _nan_for_poison,
    "left_out_poison": _without_poison,
}

# Of models that take other options than most.
OPTIONS: dict[str, Fault] = {
    "max_tokens_unsupported": _unsupported(
        "max_tokens",
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    ),
    "temperature_unsupported": _unsupported(
        "temperature",
        "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) is supported.",
    ),
    "reasoning": lambda exchange: next(
        (
            OPTIONS[name]
            for name in ("max_tokens_unsupported", "temperature_unsupported")
            if name.removesuffix("_unsupported") in exchange.request
        ),
        Exchange.send_well,
    )(exchange),
}

CHAT: dict[str, Fault] = {
    "no_choices": lambda exchange: exchange.send_json({**exchange.answer, "choices": []}),
    "no_message": _choice(message=None),
    "null_content": _content(None),
    "empty_content": _content(""),
    "tool_calls": _choice(
        message={
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}],
        }
    ),
    "parts": lambda exchange: _content([{"type": "text", "text": exchange.answer["choices"][0]["message"]["content"]}])(
        exchange
    ),
    "thinking": lambda exchange: _content(
        [
            {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
            {"type": "text", "text": exchange.answer["choices"][0]["message"]["content"]},
        ]
    )(exchange),
    "cut_at_length": _choice(finish_reason="length"),
    "finish_error": _choice(finish_reason="error"),
}

STREAM: dict[str, Fault] = {
    "stream_broken": _break_stream,
    "stream_without_end": _stream(lambda lines: lines[:1]),
    "stream_garbage": _stream(lambda lines: [lines[0], b"data: {not json\n\n", *lines[1:]]),
    "stream_not_utf8": _stream(lambda lines: [lines[0], b"data: \xff\xfe\n\n", *lines[1:]]),
    "stream_error": _stream(lambda lines: [lines[0], b'data: {"object": "error", "message": "overloaded"}\n\n']),
    "stream_empty": _stream(lambda _: []),
    "stream_nothing_said": _stream(lambda lines: lines[-1:]),
    "stream_comments": _stream(lambda lines: [part for line in lines for part in (b": keep-alive\n\n", line)]),
}

FAULTS: dict[str, Fault] = {**COMMON, **EMBEDDING, **CHAT, **STREAM, **OPTIONS}
assert len(FAULTS) == sum(map(len, (COMMON, EMBEDDING, CHAT, STREAM, OPTIONS)))
