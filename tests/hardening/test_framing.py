"""`almanac serve` behind a proxy: a request of which the two could be of different opinions is the last of its
connection, as far as the parser tells (docs/security.md).
"""

from collections.abc import Iterator
from itertools import product
from random import Random

import pytest

from tests.hardening.framings import BODY, ROUTES, ambiguous, chunked, following, odd, request
from tests.hardening.tally import some, tallied
from tests.hardening.wire import exchanged, until
from tests.loopback.mistral import LoopbackMistral
from tests.proof.base import TORTURE
from tests.serve.conftest import Bases, serve_bases

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("hardening-framing")]


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory, mistral: LoopbackMistral) -> Bases:
    knowledge_bases = Bases(tmp_path_factory.mktemp("framing"), mistral)
    knowledge_bases.publish(knowledge_bases.notes)
    return knowledge_bases


@pytest.fixture(scope="module")
def port(bases: Bases) -> Iterator[int]:
    with serve_bases(bases, names=[bases.notes]) as client:
        yield client.base_url.port or 0
        assert 'status="500"' not in client.get("/metrics").text


def test_what_a_proxy_could_read_otherwise_is_refused(port: int) -> None:
    promise = "one reply or none, and a closed connection; nothing behind it is answered"
    with tallied("Framing of `almanac serve`: ambiguous requests", promise, 3_300) as tally:
        for what, sent in some(list(ambiguous(port)), 300):
            replies = exchanged(port, sent)
            tally.note(
                what, None if replies.is_last else f"{replies.statuses}, {'closed' if replies.is_closed else 'open'}"
            )
        assert exchanged(port, following(port)).statuses == (200,)


def test_what_is_odd_and_has_one_meaning_gets_one_reply_each(port: int) -> None:
    promise = (
        "as many replies as requests, in their order (trailers, chunk extensions, Upgrade, pipelining, absolute "
        "form, bodies of GET)"
    )
    with tallied("Framing of `almanac serve`: odd requests of one meaning", promise, 70) as tally:
        for what, sent, wanted in some(list(odd(port)), 40):
            replies = exchanged(port, sent)
            tally.note(what, None if replies.statuses == wanted and replies.is_closed else f"{replies.statuses}")


def test_behind_a_request_that_is_broken_nothing_is_answered(port: int) -> None:
    """Requests before it get their replies, in order; then the connection ends."""
    good = request(ROUTES[0], port, f"Content-Length: {len(BODY)}", BODY)
    broken = [sent for _, sent in ambiguous(port)]
    with tallied(
        "Framing of `almanac serve`: good requests before a broken one",
        "their own replies and no other, then a closed connection",
        900,
    ) as tally:
        for count, sent in product((1, 2, 5), Random(12).sample(broken, 300 if TORTURE else 20)):
            replies = exchanged(port, good * count + sent)
            own, others = replies.statuses[:count], replies.statuses[count:]
            is_fine = replies.is_closed and own == (200,) * count and len(others) <= 1 and 500 not in others
            tally.note(f"{count} before {sent[:200]!r}", None if is_fine else f"{replies.statuses}")


def test_who_leaves_anywhere_in_a_request_leaves_nothing_behind(bases: Bases) -> None:
    with (
        serve_bases(bases, names=[bases.notes]) as client,
        tallied("Connections of `almanac serve`: closed early", "the next is answered, nothing goes on", 300) as tally,
    ):
        port = client.base_url.port or 0
        requests = [
            request(ROUTES[0], port, f"Content-Length: {len(BODY)}", BODY),
            request(ROUTES[0], port, "Transfer-Encoding: chunked", chunked(BODY)),
        ]
        for place, sent in some([(end, message) for message in requests for end in range(len(message) + 1)], 60):
            exchanged(port, sent[:place], gone=True)
            tally.note(f"closed after {place} bytes", held=client.get("/health").status_code == 200)
        assert until(lambda: "in_flight 0.0" in client.get("/metrics").text)
        assert 'status="500"' not in client.get("/metrics").text
