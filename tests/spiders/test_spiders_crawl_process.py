"""The process of a crawl: how it reports, crashes, is killed, and ends with its parent."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from almanac.core.lifetime import tell_job
from almanac.core.settings import installation
from almanac.schemas.errors import OperationalError
from almanac.spiders.crawling import crawl
from almanac.spiders.crawling import crawl_start as start
from almanac.spiders.crawling.crawl import crawl_site
from almanac.spiders.crawling.crawl_job import Job
from almanac.spiders.store.raw import RawStore
from tests.conftest import PATIENCE_S
from tests.spiders.test_spiders_crawl import crawled, links, source

if TYPE_CHECKING:
    from tests.spiders.conftest import Site


def test_crawl_without_an_outcome_is_a_failure(
    loopback_site: "Site", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loopback_site.page("/", "x")
    monkeypatch.setattr(start, "subprocess", subprocess)  # started, not forked
    monkeypatch.setattr(crawl, "GRACE_S", -3599.9)  # the hard limit strikes before the process is ready
    with pytest.raises(OperationalError, match="left no stats"):
        crawled(loopback_site, tmp_path)


def test_a_crash_of_a_library_says_where(
    loopback_site: "Site", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loopback_site.page("/", "x", delay_s=30)
    monkeypatch.setattr(start, "subprocess", subprocess)  # started, not forked

    def crash(_done: int, _seen: int) -> None:
        for crawls in _crawls_of(os.getpid()) if loopback_site.requests else ():
            os.kill(crawls, signal.SIGSEGV)

    with pytest.raises(
        OperationalError,
        match=r"(?s)ended with signal SIGSEGV and left no stats; its stderr: Fatal Python error: .*crawl_process\.py",
    ) as crashed:
        crawl_site(source(loopback_site), RawStore(tmp_path), "r1", on_page=crash)
    assert "Extension modules" not in str(crashed.value)


def test_of_a_crash_the_place_is_told_and_not_the_other_threads() -> None:
    beginning = (
        "a warning\nFatal Python error: Segmentation fault\n\nThread 0x1 (most recent call first):\n  File one\n\n"
    )
    place = "Current thread 0x2 (most recent call first):\n  File two\n  File three"
    more = "\n\nThread 0x3 (most recent call first):\n  File four\n\nExtension modules: a, b (total: 2)\n"
    assert crawl._telling(f"{beginning}{place}{more}") == f"Fatal Python error: Segmentation fault\n{place}"
    assert crawl._telling(f"{place}{more}") == place
    assert crawl._telling("x" * 2000) == "x" * 1500


def test_progress_is_reported_and_an_exception_ends_the_process(
    loopback_site: "Site", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "subprocess", subprocess)  # started, not forked
    loopback_site.page("/", links(*(f"/{n}" for n in range(50))))
    pids: list[int] = []

    def interrupt(done: int, seen: int) -> None:
        if not done:  # told every second, also where nothing has arrived
            return
        assert done <= seen
        pids.extend(_crawls_of(os.getpid()))
        raise KeyboardInterrupt

    for n in range(50):
        loopback_site.page(f"/{n}", "x", delay_s=0.5)
    with pytest.raises(KeyboardInterrupt):
        crawl_site(source(loopback_site), RawStore(tmp_path), "r1", on_page=interrupt)
    assert pids and not any(map(_is_running, pids))


def test_killed_crawl_keeps_its_pages_and_goes_on_without_fetching_them_again(
    loopback_site: "Site", tmp_path: Path
) -> None:
    site = loopback_site
    site.page("/", links(*(f"/{n}" for n in range(40))))
    for n in range(40):
        site.page(f"/{n}", links(f"/{n}/below"), delay_s=0.05)
        site.page(f"/{n}/below", "x", delay_s=0.05)
    declared, raw = source(site, politeness={"per_domain": 2}), RawStore(tmp_path / "raw")
    job = Job(source=declared.model_dump(by_alias=True, mode="json", exclude_defaults=True), raw=raw.root, run_id="r1")
    command = [sys.executable, "-m", "almanac.spiders.crawling.crawl_process"]
    process = subprocess.Popen(command, cwd=installation(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    tell_job(process, job.model_dump_json())
    _wait_for(lambda: len(list(raw.pages("r1"))) >= 10)
    process.kill()
    process.communicate()
    arrived = {page.url.removeprefix(site.base) for page in raw.pages("r1")}
    assert 10 <= len(arrived) < 81 and not raw.stats_path("r1").exists()
    requests_before = site.requests.copy()
    outcome = crawl_site(declared, raw, "r1")
    assert outcome.pages.fetched == len(list(raw.pages("r1"))) == 81
    assert {path for path in arrived if site.requests[path] > requests_before[path]} == set()


def test_crawl_ends_when_its_parent_is_killed(loopback_site: "Site", tmp_path: Path) -> None:
    loopback_site.page("/", links(*(f"/{n}" for n in range(500))))
    for n in range(500):
        loopback_site.page(f"/{n}", "x", delay_s=0.2)
    program = (
        "import sys; from pathlib import Path; from almanac.schemas.declaration.source import SiteSource; from "
        "almanac.spiders.store.raw import RawStore;"
        "from almanac.spiders.crawling.crawl import crawl_site;"
        "crawl_site(SiteSource.model_validate_json(sys.argv[1]), RawStore(Path(sys.argv[2])), 'r1')"
    )
    declared = source(loopback_site).model_dump_json(by_alias=True, exclude_defaults=True)
    parent = subprocess.Popen([sys.executable, "-c", program, declared, str(tmp_path)], cwd=installation())
    _wait_for(lambda: loopback_site.requests["/"] > 0)
    children = _crawls_of(parent.pid)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    assert children
    _wait_for(lambda: not any(map(_is_running, children)))


def _wait_for(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def _crawls_of(parent: int) -> list[int]:
    """Ids of the crawl processes that a process has started and that still run."""
    process_ids = []
    for entry in Path("/proc").iterdir():
        try:
            state, ppid = (
                (entry / "stat").read_text().rpartition(")")[2].split()[:2] if entry.name.isdigit() else ("", "")
            )
            if (
                ppid == str(parent)
                and state != "Z"
                and b"almanac.spiders.crawling.crawl_process" in (entry / "cmdline").read_bytes()
            ):
                process_ids.append(int(entry.name))
        except OSError:  # it has just ended
            continue
    return process_ids


def _is_running(pid: int) -> bool:
    try:
        return b"almanac.spiders.crawling.crawl_process" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
