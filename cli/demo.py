"""`almanac demo`: the bundled site on loopback, the example knowledge bases, and what each finds of its golden
questions.
"""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from almanac.cli.options import Data
from almanac.cli.output import print_table, say
from almanac.core.load import load_declaration
from almanac.core.settings import DataDir, Project, installation, use_project
from almanac.schemas.errors import DeclarationError

if TYPE_CHECKING:
    from almanac.schemas.reports import Recall

_PORT = 8765
_QUESTIONS = {  # for each, one that its content answers and one that it does not
    "voyago": ("Can my six-year-old paddle a boat in the bay south of Hạ Long?", "What is the capital of Mongolia?"),
    "products": (
        "Is a plug in the box of the watch, and how long does it take to charge?",
        "Which colours does the electric bicycle come in?",
    ),
    "handbook": ("How many days of annual leave do I have?", "Who won the football match last night?"),
    "workspace": ("What are the best practices for AI ethics?", "How do I bake sourdough bread?"),
    "versailles": ("Quel est le tarif pour un enfant de 10 ans ?", "Comment réparer un moteur de bateau à vapeur ?"),
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
    """Serve the bundled site on loopback, run the example knowledge bases, ask them their golden questions."""
    from almanac.flows.server.prefect_api import start_api

    project, here = _with_examples(Project.locate()), Path.cwd()
    use_project(project.root)
    folder = DataDir.locate(data, project)
    folder.require_writable()
    site = project.root / "examples" / "voyago" / "site"
    chosen = _installed_examples()
    wait_until_ready = start_api(folder)
    from almanac.flows.refresh import get_ready, refresh
    from almanac.flows.reporting.report_tables import summary_line

    get_ready()

    with serve_folder(site, _PORT) as url:
        os.environ["VOYAGO_URL"] = url
        say(
            f"The example site is served at {url}/ from "
            f"{site.relative_to(here) if site.is_relative_to(here) else site}/\n"
        )
        wait_until_ready()
        reports = [refresh(load_declaration(kb, ""), folder.place) for kb in chosen]
        for report in reports:
            say(summary_line(report))
        answers = {kb: _ask(kb, folder, _QUESTIONS[kb]) for kb in chosen}
    runs = [
        (
            r.kb,
            r.version,
            r.outcome.replace("_", " "),
            r.items.added,
            r.items.unchanged,
            r.items.quarantined,
            r.chunks.total,
        )
        for r in reports
    ]
    say()
    print_table("Runs", ("name", "version", "outcome", "new", "same", "rejects", "chunks"), runs)
    print_table(
        "Golden questions", ("name", "questions", "k", "recall@k"), [_measured(kb, *answers[kb]) for kb in chosen]
    )
    bad = [r.kb for r in reports if r.exit_code not in (0, 5)] + [
        kb for kb, (is_well, _, _) in answers.items() if not is_well
    ]
    if bad:
        say(f"The demo did not go as it should: {', '.join(bad)}")
        raise typer.Exit(1)
    where = "" if here.is_relative_to(project.root) else f"cd {project.root}; "
    first = chosen[0]
    say(
        f'Next: {where}almanac ask {first} "…", almanac versions {first}, and knowledge/{first}.yaml for how it '
        "is declared."
    )


def _installed_examples() -> list[str]:
    """The examples whose embedder is installed; says which are left out, and what installs theirs."""
    from almanac.index.embedding.embedder import describe_embedder

    chosen: list[str] = []
    left_out: dict[str, list[str]] = {}
    for kb in _QUESTIONS:
        try:
            describe_embedder(load_declaration(kb, env="").embed)
            chosen.append(kb)
        except DeclarationError as error:
            left_out.setdefault(f"{error}", []).append(kb)
    for reason, kbs in left_out.items():
        say(f"Left out: {', '.join(kbs)}. {reason}\n")
    return chosen


def _with_examples(project: Project) -> Project:
    """A project that declares the examples. Where this one does not, they are copied: into it where it declares nothing
    else, or into a folder of their own.
    """
    ours = installation() / "knowledge"
    declared = {path.name for path in project.declarations() if path.read_bytes() == _content(ours / path.name)}
    if project.root != installation() and declared < {path.name for path in project.declarations()}:
        return _with_examples(Project(project.root / "almanac-demo"))
    if not declared >= {path.name for path in Project(installation()).declarations()}:
        for name in ("examples", "knowledge"):  # in this order: what is declared has its content
            shutil.copytree(installation() / name, project.root / name, dirs_exist_ok=True, copy_function=_copy_if_new)
        say(f"The examples are declared in {project.knowledge}, and their content lies in {project.root / 'examples'}")
    return project


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _copy_if_new(source: str, target: str) -> None:
    if not Path(target).exists():
        shutil.copyfile(source, target)


def _ask(kb: str, folder: DataDir, questions: tuple[str, str]) -> "tuple[bool, Recall, int]":
    """Whether the one question is answered and the other is not; what is found of the golden questions, among how many
    hits.
    """
    from almanac.query import open_index
    from almanac.query.evaluation.golden import load_golden, measure_recall

    with open_index(kb, data=folder.place, env="") as index:
        replies = [index.ask(question) for question in questions]
        recall = measure_recall(
            index.declaration, index.version(), index.embedder.embed_queries, load_golden(index.declaration)
        )
    for question, answer in zip(questions, replies, strict=True):
        say(f"\n{kb} {answer.version} ? {question}\n  {answer.reply}")
        for source in answer.sources:
            say(f"    {source.marker} {source.title} – {source.url}")
    is_well = replies[0].answered and "[1]" in replies[0].reply and not replies[1].answered
    return is_well, recall, index.declaration.retrieve.k


def _measured(kb: str, _is_well: bool, recall: "Recall", k: int) -> tuple[object, ...]:
    recalled = f"{recall.recall:.0%}" if recall.recall is not None else None
    return (kb, recall.questions, k, recalled)
