"""How requests to an API are packed, spaced and tried again."""

import math
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from almanac.core.retry_after import read_retry_after
from almanac.core.settings import installation
from almanac.index.api.batching import MAX_INPUTS, MAX_TOKENS, estimate_tokens, pack_requests
from almanac.index.api.rate_limit import RateLimit
from almanac.index.api.retry import Retry

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("3", 3),
        ("0", 0),
        ("1.5", 1.5),
        ("inf", math.inf),
        ("1" + "0" * 400, math.inf),
        ("-5", None),
        ("nan", None),
        ("soon", None),
        ("", None),
        (None, None),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90),
        (format_datetime(NOW - timedelta(days=1), usegmt=True), 0),
        ("Thu, 01 Jan 2026 00:00:07 -0000", 7),
        ("Thu, 99 Foo 2026 99:99:99 GMT", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert read_retry_after(header, NOW) == seconds


@given(st.text(), st.integers(0, 10_000))
def test_no_header_makes_anybody_wait_longer_than_the_cap(header: str, attempt: int) -> None:
    retry = Retry(base_s=1, cap_s=8, retry_after_cap_s=20)
    assert 0 < retry.delay_s(attempt, header) <= 20
    assert retry.delay_s(attempt) <= 8


def test_waits_double_with_some_chance_in_them() -> None:
    retry = Retry(base_s=1, cap_s=8)
    for attempt, longest in enumerate([1, 2, 4, 8, 8]):
        waits = {retry.delay_s(attempt) for _ in range(200)}
        assert longest / 2 <= min(waits) < max(waits) <= longest
        assert len(waits) > 100
    assert retry.delay_s(0, "inf") == retry.retry_after_cap_s
    assert retry.delay_s(0, "5") == 5


@given(st.lists(st.integers(0, MAX_TOKENS * 2), max_size=600))
def test_requests_hold_every_text_once_in_order_and_keep_both_limits(tokens: list[int]) -> None:
    requests = list(pack_requests(tokens))
    assert [row for request in requests for row in request] == list(range(len(tokens)))
    for request in requests:
        assert 0 < len(request) <= MAX_INPUTS
        assert len(request) == 1 or sum(tokens[row] for row in request) <= MAX_TOKENS
    for earlier, following in pairwise(requests):
        assert len(earlier) == MAX_INPUTS or sum(tokens[row] for row in earlier) + tokens[following[0]] > MAX_TOKENS, (
            "two requests would go as one"
        )


@given(st.text())
def test_estimate_lies_between_words_and_bytes(text: str) -> None:
    """Whatever the script. With its vocabulary's fallback to bytes, no text has more tokens than bytes."""
    estimate = estimate_tokens(text)
    assert len(text.split()) <= estimate <= len(text.encode("utf-8", "surrogatepass")) + 2


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        # As SentencePiece with 32,000 pieces cuts them, the begin mark among them.
        ("Hello, how are you?", 7),
        ("The quick brown fox jumps over the lazy dog.", 13),
    ],
)
def test_estimate_is_from_above_and_not_by_far(text: str, tokens: int) -> None:
    assert tokens <= estimate_tokens(text) <= 2.5 * tokens


def test_limit_spaces_requests_and_tokens(tmp_path: Path) -> None:
    now, slept = [1000.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)

    by_request = RateLimit(tmp_path / "a", requests_per_second=2, clock=lambda: now[0], sleep=sleep)
    assert [by_request.wait() for _ in range(3)] == [0, 0.5, 1.0]
    assert slept == [0.5, 1.0]
    now[0] += 100
    assert by_request.wait() == 0
    by_tokens = RateLimit(tmp_path / "b", tokens_per_minute=6000, clock=lambda: now[0], sleep=sleep)
    assert [by_tokens.wait(tokens) for tokens in (1000, 100, 0)] == [0, 10, 0]
    assert by_tokens.wait(1) == 11
    assert RateLimit(tmp_path / "c").wait(1_000_000) == 0
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("left", ["", "torn", "nan", "1e300", "999999999999"])
def test_limit_lives_on_after_a_torn_file_and_a_clock_that_was_set_back(tmp_path: Path, left: str) -> None:
    (tmp_path / "a").write_text(left)
    assert RateLimit(tmp_path / "a", requests_per_second=1, clock=lambda: 1000.0, sleep=lambda _: None).wait() == 0


ASKING = """
import sys, time
from pathlib import Path
from almanac.index.api.rate_limit import RateLimit
limit = RateLimit(Path(sys.argv[1]), requests_per_second=50)
for _ in range(10):
    limit.wait()
    print(time.time(), flush=True)
"""
HOLDING = """
import fcntl, sys, time
with open(f"{sys.argv[1]}.lock", "ab") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
def test_processes_keep_the_limit_together_and_a_killed_holder_blocks_nobody(tmp_path: Path) -> None:
    def start(code: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "limit")], cwd=installation(), stdout=subprocess.PIPE, text=True
        )

    holder = start(HOLDING)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    asking = [start(ASKING) for _ in range(3)]
    time.sleep(0.1)
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    times = sorted(float(line) for process in asking for line in process.communicate(timeout=30)[0].split())
    assert len(times) == 30
    assert times[-1] - times[0] >= 28 / 50, "30 requests at 50 a second take .58 s"
