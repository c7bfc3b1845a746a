"""SIGTERM of a service manager, SIGHUP of a closed terminal: a command ends as by Ctrl-C, in every phase, with a report
and without its children.
"""

import json
import signal
import threading
import time
import weakref
from typing import TYPE_CHECKING

import pytest

from almanac.core.lifetime import interrupted_by_signals, uninterrupted
from almanac.index.versions.lock import lock_holder
from tests.conftest import PATIENCE_S
from tests.flows.commands import Commands
from tests.processes import carrying
from tests.proof.base import LONG

if TYPE_CHECKING:
    from tests.spiders.conftest import Site

_SITE = """
name: many
sources:
  - name: pages
    kind: site
    start_urls: ["{base}/"]
    match: '/[0-9]+$'
    yields: records
    fields: {{name: {{css: h1, required: true}}, text: {{css: p, required: true}}}}
    text: "{{name}}. {{text}}"
    politeness: {{allow_private: true, per_domain: 2}}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "moment", "is_reported"),
    [
        # its API starts: there is no run yet
        pytest.param(signal.SIGTERM, "prefect/api.log", False, id="SIGTERM as it starts"),
        # its builder runs
        pytest.param(signal.SIGTERM, "index/many/versions/v0001", True, id="SIGTERM as it builds", marks=LONG),
        pytest.param(signal.SIGHUP, "vectors/*/*.parquet", True, id="SIGHUP as it has embedded", marks=LONG),
    ],
)
def test_a_signal_ends_a_run_as_ctrl_c_does(
    commands: Commands, prefect_api: str, kind: signal.Signals, moment: str, is_reported: bool
) -> None:
    process = commands.start(
        **({"PREFECT_API_URL": prefect_api} if is_reported else {"PREFECT_HOME": str(commands.data.root / "prefect")})
    )
    commands.when(moment, process)
    process.send_signal(kind)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, json.loads(out)["error"]["kind"]) == (130, "interrupted"), err
    assert "Traceback" not in err
    assert _until_gone(commands) == []
    report = commands.last_report()
    assert (report["exit_code"], report["error"]["kind"]) == (130, "interrupted") if is_reported else report is None
    assert lock_holder(commands.data.index("many")) is None
    assert (
        list(commands.data.root.glob("index/many/versions/*"))
        == list(commands.data.root.glob("processed/many/.staging/*"))
        == []
    )
    assert commands.run_here()["outcome"] == "published_with_rejects"


def _until_gone(commands: Commands) -> list[int]:
    """What still runs after ten seconds: a child that had just been started ends as soon as it looks for its parent."""
    deadline = time.monotonic() + 10
    while (left := carrying(f"ALMANAC_DATA={commands.data.root}\0")) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def test_a_plan_that_is_terminated_ends_its_crawl_and_leaves_nothing(commands: Commands, loopback_site: "Site") -> None:
    loopback_site.page("/", "".join(f"<a href='/{n}'>{n}</a>" for n in range(100)))
    for n in range(100):
        loopback_site.page(
            f"/{n}", f"<h1>Page {n}</h1><p>It tells of subject number {n} and of no other.</p>", delay_s=0.5
        )
    commands.declared.write_text(_SITE.format(base=loopback_site.base))
    scratch = commands.declared.parent / "tmp"
    scratch.mkdir()
    process = commands.start("plan", str(commands.declared), "--json", TMPDIR=str(scratch))
    deadline = time.monotonic() + PATIENCE_S
    while loopback_site.requests.total() < 4:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.terminate()
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, json.loads(out)["error"]["kind"], "Traceback" in err) == (130, "interrupted", False), (
        err
    )
    assert _until_gone(commands) == []
    assert list(scratch.iterdir()) == []


def test_signals_interrupt_once_and_as_they_were_set_up() -> None:
    before = [signal.signal(signal_number, signal.SIG_DFL) for signal_number in (signal.SIGTERM, signal.SIGHUP)]
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
        with interrupted_by_signals():
            signal.raise_signal(signal.SIGHUP)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
            # a service manager that sends it twice does not break what the first one set off
            signal.raise_signal(signal.SIGTERM)
        assert [*map(signal.getsignal, (signal.SIGTERM, signal.SIGHUP))] == [signal.SIG_DFL, signal.SIG_IGN]
    finally:
        for signal_number, handler in zip((signal.SIGTERM, signal.SIGHUP), before, strict=True):
            signal.signal(signal_number, handler)


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_comes_in_a_callback_interrupts_all_the_same(kind: signal.Signals) -> None:
    """Python passes over what is raised there, and its imports have such callbacks."""

    class Thing:
        pass

    before = [signal.signal(signal_number, signal.SIG_DFL) for signal_number in (signal.SIGTERM, signal.SIGHUP)]
    try:
        with pytest.raises(KeyboardInterrupt), interrupted_by_signals():
            thing = Thing()
            reference = weakref.ref(thing, lambda _: signal.raise_signal(kind))
            del thing
            assert reference() is None
            threading.Event().wait(PATIENCE_S)
    finally:
        for signal_number, handler in zip((signal.SIGTERM, signal.SIGHUP), before, strict=True):
            signal.signal(signal_number, handler)


def test_what_has_to_be_whole_is_interrupted_afterwards() -> None:
    done: list[str] = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), uninterrupted():
            signal.raise_signal(signal.SIGINT)
            done.append("all of it")
    finally:
        signal.signal(signal.SIGINT, before)
    assert done == ["all of it"]
