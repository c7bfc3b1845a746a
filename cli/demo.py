"""`almanac demo`: the bundled site on loopback, the example knowledge bases, two questions to each."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import typer

from cli.options import Data
from cli.output import print_table, say
from schemas.reports import RunReport
from schemas.settings import DataDir, project_root

_PORT = 8765
_QUESTIONS = {
    "voyago": ("Can my six-year-old paddle a boat in the bay south of Hạ Long?", "What is the capital of Mongolia?"),
    "handbook": ("How many days of annual leave do I have?", "Who won the football match last night?"),
}


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serve_folder(folder: Path, port: int) -> Iterator[str]:
    """Serves a folder on loopback and gives its URL; another port when that one is taken."""
    handler = partial(_Quiet, directory=str(folder))
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError:
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def demo(data: Data = None) -> None:
    """Serve the bundled site on loopback, run the example knowledge bases, ask each two questions."""
    from flows.api import start_api

    folder = DataDir.locate(data)
    folder.require_writable()
    site = project_root() / "examples" / "voyago" / "site"
    wait_until_ready = start_api(folder)
    from flows.refresh import refresh, summary_line

    with serve_folder(site, _PORT) as url:
        os.environ["VOYAGO_URL"] = url
        say(f"The example site is served at {url}/ from {site.relative_to(project_root())}/\n")
        wait_until_ready()
        reports = [RunReport.model_validate(refresh(kb, str(folder.root), env="")) for kb in _QUESTIONS]
        for report in reports:
            say(summary_line(report))
        answers = [(kb, *_ask(kb, folder, questions)) for kb, questions in _QUESTIONS.items()]
    rows = [(r.kb, r.version, r.outcome.replace("_", " "), r.items.added, r.items.unchanged, r.items.quarantined, r.chunks.total) for r in reports]
    say()
    print_table("Runs", ("name", "version", "outcome", "new", "same", "rejects", "chunks"), rows)
    bad = [r.kb for r in reports if r.exit_code not in (0, 5)] + [kb for kb, answered, abstained in answers if not (answered and abstained)]
    if bad:
        say(f"The demo did not go as it should: {', '.join(bad)}")
        raise typer.Exit(1)
    say('Next: almanac ask voyago "…", almanac versions voyago, and knowledge/voyago.yaml for how it is declared.')


def _ask(kb: str, folder: DataDir, questions: tuple[str, str]) -> tuple[bool, bool]:
    """Asks a question that the content answers and one that it does not; both must come out so."""
    from query import open_index

    with open_index(kb, data=folder.root, env="") as index:
        replies = [index.ask(question) for question in questions]
    for question, answer in zip(questions, replies, strict=True):
        say(f"\n{kb} {answer.version} ? {question}\n  {answer.reply}")
        for source in answer.sources:
            say(f"    {source.marker} {source.title} – {source.url}")
    return replies[0].answered and "[1]" in replies[0].reply, not replies[1].answered
