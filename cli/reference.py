"""Writes docs/reference/: declaration.md from the models, commands.md from the commands; `--check` says whether they
are up to date.

usage: python -m almanac.cli.reference [--check]
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Any, get_args

from pydantic.fields import FieldInfo

from almanac.core.settings import installation
from almanac.schemas.declaration import Declaration  # fmt: skip
from almanac.schemas.declaration.answer import AnswerWords
from almanac.schemas.declaration.chunk import Chunk  # fmt: skip
from almanac.schemas.declaration.crawling import Follow, Limits, Listing, Pagination, Politeness
from almanac.schemas.declaration.credentials import Auth
from almanac.schemas.declaration.embed import Embed, Prompts  # fmt: skip
from almanac.schemas.declaration.expectations import Expectation, needs_of
from almanac.schemas.declaration.fields import FieldRule, Script, Selector
from almanac.schemas.declaration.gate import Gate, Validate  # fmt: skip
from almanac.schemas.declaration.generate import Generate  # fmt: skip
from almanac.schemas.declaration.git import Git
from almanac.schemas.declaration.login import Login
from almanac.schemas.declaration.model import DeclaredModel
from almanac.schemas.declaration.named_expectations import (
    declarable_expectations,
    known_expectation,
    refused_expectations,
)
from almanac.schemas.declaration.render import Click, Render
from almanac.schemas.declaration.retrieve import Rerank, Retrieve, Tags  # fmt: skip
from almanac.schemas.declaration.rows import CommandSource, PushedSource, RowsSource, SqlSource
from almanac.schemas.declaration.run import RunsOn
from almanac.schemas.declaration.source import FilesSource, SiteSource
from almanac.schemas.declaration.versions import Index, Retention  # fmt: skip
from almanac.schemas.declaration.workspace import Workspace

_SECTIONS: dict[str, tuple[type[DeclaredModel], str]] = {
    "The knowledge base": (Declaration, ""),
    "A site": (SiteSource, "sources[], kind: site"),
    "Files": (FilesSource, "sources[], kind: files"),
    "Git": (Git, "sources[].git"),
    "Rows of a function": (RowsSource, "sources[], kind: rows"),
    "Rows of a database": (SqlSource, "sources[], kind: sql"),
    "Rows of a program": (CommandSource, "sources[], kind: command"),
    "Pushed documents": (PushedSource, "sources[], kind: pushed"),
    "A field": (FieldRule, "fields.NAME"),
    "A selector": (Selector, "each, link, next, body"),
    "Script": (Script, "from"),
    "Follow": (Follow, "sources[].follow"),
    "Pagination": (Pagination, "sources[].pagination"),
    "Listing": (Listing, "sources[].listing"),
    "Limits": (Limits, "sources[].limits"),
    "Politeness": (Politeness, "sources[].politeness"),
    "Auth": (Auth, "sources[].politeness.auth"),
    "Login": (Login, "sources[].login"),
    "Render": (Render, "sources[].render"),
    "Click": (Click, "sources[].render.click[]"),
    "Validate": (Validate, "validate"),
    "An expectation": (Expectation, "validate.expect[]"),
    "Chunk": (Chunk, "chunk"),
    "Embed": (Embed, "embed"),
    "Prompts": (Prompts, "embed.prompts"),
    "Index": (Index, "index"),
    "Retrieve": (Retrieve, "retrieve"),
    "Tags": (Tags, "retrieve.tags"),
    "Rerank": (Rerank, "retrieve.rerank"),
    "Workspace": (Workspace, "retrieve.workspace"),
    "Generate": (Generate, "generate"),
    "Answer": (AnswerWords, "answer"),
    "Gate": (Gate, "gate"),
    "Retention": (Retention, "retention"),
    "Run": (RunsOn, "run"),
}
_COMMANDS = (
    "demo", "doctor", "init", "validate", "test-url", "test-source",
    "plan", "run", "status", "server", "versions", "diff", "publish",
    "rollback", "verify", "rebuild",
    "compact", "prune", "forget", "promote", "search", "ask", "eval", "export", "serve", "mcp",
)  # fmt: skip


def declaration_reference() -> str:
    """Markdown: every key with its type, default and meaning, in the order of the models."""
    lines = [
        "# The declaration",
        "",
        "A knowledge base is declared in one YAML file, `knowledge/<name>.yaml`. Unknown keys are errors. "
        "`${VAR}` and `${VAR:-default}` in any text are",
        "replaced from the environment, also behind another `$`; a `${` that begins neither is an error, and is "
        "written `${NONE:-$}{` where it is meant.",
        "Variables of `sources` have to be set where pages are fetched, and nowhere else: reading what is "
        "published needs none of them.",
        "This page is written by `make docs` from the models in `schemas/`.",
    ]
    for title, (model, place) in _SECTIONS.items():
        lines += ["", f"## {title}", "", *([f"`{place}`", ""] if place else []), cleandoc(model.__doc__ or ""), ""]
        lines += ["| key | values | default | meaning |", "|---|---|---|---|", *_rows(model)]
        if model is Expectation:
            lines += ["", *_named_expectations()]
    return "\n".join(lines) + "\n"


def _named_expectations() -> Iterator[str]:
    """A table of the expectations that can be declared by name."""
    levels = {
        "row": "single items",
        "column": "a column",
        "table": "the number of items",
        "names": "the names of fields",
    }
    yield "Names of Great Expectations that can be declared, with their arguments (required ones in bold):"
    yield ""
    yield "| expectation | judges | needs | arguments |"
    yield "|---|---|---|---|"
    for name in declarable_expectations():
        known = known_expectation(name)
        fields = ["`field`" if key == "column" else f"`{key}`" for key in known.fields]
        arguments = [f"**`{key}`**" if key in known.required else f"`{key}`" for key in known.arguments]
        yield f"| `{name}` | {levels[known.level]} | {needs_of(name)} | {', '.join([*fields, *arguments])} |"
    yield ""
    yield (
        "Not to be declared: "
        + "; ".join(f"`{name}` ({reason.partition(';')[0]})" for name, reason in refused_expectations().items())
        + "."
    )


def _rows(model: type[DeclaredModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        cells = (f"`{field.alias or name}`", _values(field), _default(field), field.description or "")
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _values(field: FieldInfo) -> str:
    return _type_name(field.annotation)


def _type_name(annotation: Any) -> str:
    if annotation is Any:
        return "anything"
    if isinstance(annotation, type) and not get_args(annotation):
        if issubclass(annotation, DeclaredModel):
            title = next((t for t, (m, _) in _SECTIONS.items() if m is annotation), annotation.__name__)
            return f"[{title.lower()}](#{title.lower().replace(' ', '-')})"
        return {
            "str": "text",
            "SecretStr": "text",
            "int": "integer",
            "float": "number",
            "bool": "true, false",
            "NoneType": "null",
            "dict": "mapping",
        }.get(annotation.__name__, annotation.__name__)
    arguments = get_args(annotation)
    origin = getattr(annotation, "__origin__", None)
    if origin is list:
        return f"list of {_type_name(arguments[0])}"
    if origin is dict:
        return f"name → {_type_name(arguments[1])}"
    if hasattr(annotation, "__metadata__"):
        return _type_name(arguments[0])
    if arguments and all(isinstance(a, str | bool | int) for a in arguments):
        return ", ".join(f"`{str(a).lower() if isinstance(a, bool) else a}`" for a in arguments)
    return " or ".join(dict.fromkeys(_type_name(a) for a in arguments)) if arguments else str(annotation).strip("'\"")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, DeclaredModel):
        return "its defaults"
    if isinstance(value, list | dict):
        return f"`{value}`" if value else "none"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"`{value}`"


def commands_reference() -> str:
    """Markdown: the help of every command, as a terminal of 100 columns shows it."""
    lines = [
        "# Commands",
        "",
        "This page is written by `make docs` from the commands' own help. [operating.md](../operating.md) tells what "
        "a run does.",
        "",
    ]
    for name in ((), *((c,) for c in _COMMANDS)):
        environment = {**os.environ, "COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1", "TERMINAL_WIDTH": "100"}
        command = [sys.executable, "-m", "almanac.cli.main", *name, "--help"]
        shown = subprocess.run(
            command, cwd=installation(), env=environment, capture_output=True, text=True, check=True
        ).stdout
        body = "\n".join(
            line.rstrip() for line in shown.replace("python -m almanac.cli.main", "almanac").strip("\n").splitlines()
        )
        lines += [f"## almanac {' '.join(name)}".rstrip(), "", "```", body, "```", ""]
    return "\n".join(lines)


def main() -> int:
    pages = {"declaration.md": declaration_reference(), "commands.md": commands_reference()}
    folder = installation() / "docs" / "reference"
    stale = [name for name, text in pages.items() if not _same(folder / name, text)]
    if "--check" in sys.argv:
        if stale:
            sys.stderr.write(f"out of date: {', '.join(stale)}; make docs writes them\n")
        return 1 if stale else 0
    for name in stale:
        (folder / name).write_text(pages[name], encoding="utf-8")
    return 0


def _same(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main())
