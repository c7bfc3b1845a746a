"""kill -9 of the whole command, process group and all, at random moments; recoveries are killed, too. At last it is let
run to its end.

Two kills by default, five hundred with ALMANAC_TORTURE=1. The site answers 304 where it can and counts what it is asked
for.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

from almanac.core.settings import DataDir
from almanac.index.vectors.vector_store import VectorStore
from almanac.index.verify.verifier import verify_version
from almanac.index.versions.lock import lock_holder
from almanac.index.versions.version_store import (
    current_version,
    read_manifest,
    require_files,
    version_dir,
    version_names,
)
from almanac.spiders.store.raw import RawStore
from tests.conftest import PATIENCE_S, ROOT
from tests.index.conftest import INFO
from tests.processes import carrying, command_line
from tests.proof.base import PROOF, TORTURE
from tests.proof.noting import noted
from tests.spiders.conftest import Site, loopback_site

__all__ = ["loopback_site"]

pytestmark = PROOF

_PAGES = 40
_PARAGRAPHS = 15  # of each page, each a record: several checkpoints
_PART = 500
_KILLS = 500 if TORTURE else 2
_IN_A_ROW = (3, 4) if TORTURE else (2,)

_DECLARATION = """
name: proof
sources:
  - name: site
    kind: site
    start_urls: ["{base}/"]
    match: '/p[0-9]+$'
    each: {{css: "p"}}
    yields: records
    id: "{{code}}"
    fields: {{code: {{css: "b", required: true}}, text: {{css: "i", required: true}}}}
    text: "{{text}}"
    politeness: {{allow_private: true, delay_s: 0, per_domain: 4, robots: false}}
gate: {{max_lost: null}}
"""


def _serve(site: Site, revision: int = 0) -> None:
    """A page that leads to all others. With another revision, a tenth of them say something else and one is gone."""
    pages = range(revision, _PAGES)
    site.page("/", "".join(f"<a href='/p{n}'>{n}</a>" for n in pages), headers={"ETag": f'"start {revision}"'})
    for n in range(_PAGES):
        page_revision = revision if n % 10 == 5 else 0
        text = "".join(
            f"<p><b>{n}-{m}</b><i>Item {m} of page {n} in revision {page_revision} says what no other does.</i></p>"
            for m in range(_PARAGRAPHS)
        )
        site.page(
            f"/p{n}",
            f"<html><body><h1>Page {n}</h1>{text}</body></html>",
            headers={"ETag": f'"{n} {page_revision}"'},
            delay_s=0.02,
        )
    for n in range(revision):
        site.page(f"/p{n}", status=404)


@dataclass
class Command:
    """`almanac run` on the data directory of a place, in a session of its own."""

    place: Path
    environment: dict[str, str]
    api: str  # whose API undisturbed runs use: starting one is a third of what they cost
    outcomes: Counter[str] = field(default_factory=Counter)

    @property
    def data(self) -> DataDir:
        return DataDir(self.place / "data")

    @property
    def embedded(self) -> list[str]:
        return noted(self.place / "embedded.txt")

    def start(self, **more: str) -> "subprocess.Popen[bytes]":
        variables = {
            **more,
            "ALMANAC_DATA": str(self.data.root),
            "ALMANAC_PROOF_EMBEDDED": str(self.place / "embedded.txt"),
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, "-m", "tests.proof.command", "run", str(self.place / "proof.yaml"), "--json"]
        with (self.place / "out.txt").open("wb") as out, (self.place / "err.txt").open("wb") as err:
            return subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **self.environment, **variables},
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def finish(self) -> dict[str, Any]:
        assert self.start(PREFECT_API_URL=self.api).wait(600) == 0, (self.place / "err.txt").read_text()[-3000:]
        report: dict[str, Any] = json.loads((self.place / "out.txt").read_text())
        return report

    def kill_after(self, seconds: float, *, with_own_api: bool) -> bool:
        """Whether it was still running."""
        # Most go by the API that is there: a kill has more to meet then than the start of one.
        process = self.start(**({} if with_own_api else {"PREFECT_API_URL": self.api}))
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return True
        assert code == 0, (self.place / "err.txt").read_text()[-3000:]
        return False

    def processes(self) -> list[str]:
        """What still runs on behalf of this place."""
        return [command_line(pid) for pid in carrying(f"ALMANAC_DATA={self.data.root}\0")]

    def stored(self) -> set[str]:
        """URLs of the pages that runs which were cut off have stored, since the last one that came to its end."""
        raw = RawStore(self.data.raw("proof", "site"))
        crawls = raw.crawls()
        ended = max((crawl for crawl in crawls if (self.data.runs("proof") / f"{crawl}.json").is_file()), default="")
        return {url for crawl in crawls if crawl > ended for url in raw.index(crawl).urls}


def test_killed_at_random_moments_a_run_ends_as_if_never_killed(
    tmp_path: Path, prefect_home: Path, prefect_api: str, loopback_site: Site
) -> None:
    chance, environment = random.Random(4), {"PREFECT_HOME": str(prefect_home)}
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "proof.yaml").write_text(_DECLARATION.format(base=loopback_site.base))
    first, refreshed = (
        _reference(Command(empty, environment, prefect_api), tmp_path / "first", loopback_site),
        tmp_path / "refreshed",
    )
    # which few kills may not come to
    killed, outcomes, again = 0, Counter[str](), cache(lambda: _reference(first, refreshed, loopback_site))
    rounds: list[tuple[Path, Callable[[], Command], int]] = [(empty, lambda: first, 0), (first.place, again, 1)]
    for origin, wanted_of, revision in cycle(rounds):
        if killed >= _KILLS:
            break
        wanted = wanted_of()
        _serve(loopback_site, revision)
        command = replace(first, place=Path(shutil.copytree(origin, tmp_path / f"killed-{killed}")), outcomes=Counter())
        killed += _kill_and_recover(command, wanted, loopback_site, chance, chance.choice(_IN_A_ROW))
        outcomes += command.outcomes
        shutil.rmtree(command.place)
    print(f"{killed} kills: {dict(outcomes)}")  # noqa: T201


def _reference(origin: Command, place: Path, site: Site) -> Command:
    """A run that nobody disturbs; how long it took stands in the file `seconds`."""
    _serve(site, revision=int("refreshed" in place.name))
    command = replace(origin, place=Path(shutil.copytree(origin.place, place)))
    began = time.monotonic()
    assert command.finish()["outcome"] == "published"
    (place / "seconds").write_text(str(time.monotonic() - began))
    return command


def _kill_and_recover(command: Command, wanted: Command, site: Site, chance: random.Random, times: int) -> int:
    """How often it was killed before it came to its end."""
    seconds = float((wanted.place / "seconds").read_text())
    killed = 0
    for _ in range(times):
        stored_before, requests_before = command.stored(), Counter(site.requests)
        store = VectorStore(command.data.vectors, INFO)
        embedded, vectors = len(command.embedded), len(list(store.keys()))
        was_killed = command.kill_after(chance.uniform(0.5, seconds), with_own_api=chance.random() < 0.25)
        _until_gone(command)
        killed += was_killed
        command.outcomes[_stage_of(command) if was_killed else "ended before"] += 1
        _require_whole(command)
        _require_not_asked_again(site, requests_before, stored_before)
        vectors_added = len(list(VectorStore(command.data.vectors, INFO).keys())) - vectors
        assert len(command.embedded) - embedded - vectors_added <= _PART
    stored_before, requests_before, embedded = command.stored(), Counter(site.requests), len(command.embedded)
    had = set(VectorStore(command.data.vectors, INFO).keys())
    report = command.finish()
    assert report["outcome"] in ("published", "unchanged")
    _require_not_asked_again(site, requests_before, stored_before)
    assert had.isdisjoint(command.embedded[embedded:])
    _until_gone(command)
    _require_same(command, wanted)
    return killed


def _until_gone(command: Command) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while left := command.processes():
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def _stage_of(command: Command) -> str:
    """How far it had come, for the report."""
    index_dir, processed = command.data.index("proof"), command.data.processed("proof")
    if any(not (path / "manifest.json").is_file() for path in (index_dir / "versions").glob("v*")):
        return "while building"
    if list(processed.glob(".staging/*/*")):
        return "between crawl and building"
    return "while crawling" if command.stored() else "before or after"


def _require_whole(command: Command) -> None:
    index_dir = command.data.index("proof")
    assert lock_holder(index_dir) is None
    live = current_version(index_dir)
    if live is not None:
        require_files(version_dir(index_dir, live), read_manifest(index_dir, live))


def _require_not_asked_again(site: Site, requests_before: Counter[str], stored: set[str]) -> None:
    again = {path for path in (site.requests - requests_before) if f"{site.base}{path}" in stored}
    assert not again


def _require_same(command: Command, wanted: Command) -> None:
    index_dir = command.data.index("proof")
    live, expected = (
        read_manifest(run.data.index("proof"), str(current_version(run.data.index("proof"))))
        for run in (command, wanted)
    )
    assert (live.digest, live.counts) == (expected.digest, expected.counts)
    assert verify_version(version_dir(index_dir, live.version), live, command.data.vectors, INFO) == []
    left = [
        path
        for path in command.data.root.rglob(".*")
        if path.name.endswith((".tmp", ".removed")) or path.parent.name == ".staging"
    ]
    assert left == []
    assert all((version_dir(index_dir, name) / "manifest.json").is_file() for name in version_names(index_dir))
    assert set(command.embedded) == set(wanted.embedded)
