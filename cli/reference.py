"""Writes docs/reference/: declaration.md from the models, commands.md from the commands, words.md from the words that
they print; `--check` says whether they are up to date.

usage: python -m almanac.cli.reference [--check]
"""

import sys
from collections import Counter
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Any, get_args

from pydantic.fields import FieldInfo
from rich.markup import render
from typer.core import TyperGroup, TyperOption
from typer.main import get_command

from almanac.cli.explain import printed_words
from almanac.cli.main import app
from almanac.core.settings import installation
from almanac.schemas.declaration import Declaration  # fmt: skip
from almanac.schemas.declaration.answer_section import AnswerWords
from almanac.schemas.declaration.api_section import ApiSection
from almanac.schemas.declaration.chunk_section import Chunk  # fmt: skip
from almanac.schemas.declaration.crawling import Follow, Limits, Listing, Pagination, Politeness
from almanac.schemas.declaration.credentials import Auth, OAuth
from almanac.schemas.declaration.declared_expectations import Expectation, needs_of
from almanac.schemas.declaration.embed_section import Embed, Prompts  # fmt: skip
from almanac.schemas.declaration.field_rules import FieldRule, Script, Selector
from almanac.schemas.declaration.gate_section import Gate, Validate  # fmt: skip
from almanac.schemas.declaration.generate import Generate  # fmt: skip
from almanac.schemas.declaration.git import Git
from almanac.schemas.declaration.item_rules import ItemRules
from almanac.schemas.declaration.login import Login
from almanac.schemas.declaration.model import DeclaredModel
from almanac.schemas.declaration.named_expectations import (
    declarable_expectations,
    known_expectation,
)
from almanac.schemas.declaration.render import Click, Render
from almanac.schemas.declaration.request_section import Request
from almanac.schemas.declaration.retrieve import Rerank, Retrieve, Tags  # fmt: skip
from almanac.schemas.declaration.row_sources import (
    CommandSource,
    PushedSource,
    RowLimits,
    RowSource,
    RowsSource,
    SqlSource,
)
from almanac.schemas.declaration.run_section import RunsOn
from almanac.schemas.declaration.source import FileLimits, FilesSource, SiteSource
from almanac.schemas.declaration.versions import Index, Retention  # fmt: skip
from almanac.schemas.declaration.workspace import Workspace

_SECTIONS: dict[str, tuple[type[DeclaredModel], str]] = {
    "The knowledge base": (Declaration, ""),
    "Every source": (ItemRules, "sources[]"),
    "A site": (SiteSource, "sources[], kind: site"),
    "Files": (FilesSource, "sources[], kind: files"),
    "Git": (Git, "sources[].git"),
    "Limits of files": (FileLimits, "sources[].limits, kind: files"),
    "Rows": (RowSource, "sources[], kind: rows, sql, command, pushed"),
    "Rows of a function": (RowsSource, "sources[], kind: rows"),
    "Rows of a database": (SqlSource, "sources[], kind: sql"),
    "Rows of a program": (CommandSource, "sources[], kind: command"),
    "Pushed documents": (PushedSource, "sources[], kind: pushed"),
    "Limits of rows": (RowLimits, "sources[].limits, kind: rows, sql, command, pushed"),
    "A field": (FieldRule, "fields.NAME"),
    "A selector": (Selector, "each, link, next, body"),
    "Script": (Script, "from"),
    "Follow": (Follow, "sources[].follow"),
    "Pagination": (Pagination, "sources[].pagination"),
    "Listing": (Listing, "sources[].listing"),
    "Limits": (Limits, "sources[].limits"),
    "Politeness": (Politeness, "sources[].politeness"),
    "Auth": (Auth, "sources[].politeness.auth"),
    "OAuth": (OAuth, "sources[].politeness.oauth"),
    "Login": (Login, "sources[].login"),
    "Request": (Request, "sources[].request"),
    "Render": (Render, "sources[].render"),
    "Click": (Click, "sources[].render.click[]"),
    "Validate": (Validate, "validate"),
    "An expectation": (Expectation, "validate.expect[]"),
    "Chunk": (Chunk, "chunk"),
    "An API": (ApiSection, "embed, generate"),
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
_TITLES = {model: title for title, (model, _) in _SECTIONS.items()}
_BOUNDS = "`min_value`, `max_value`, `strict_min`, `strict_max`"
_MANY = 4  # commands that take an option alike, from which on it stands at the top


def declaration_reference() -> str:
    """Markdown: every key with its values, default and meaning, in the order of the models. What several sections have
    alike stands in that of their base alone.
    """
    lines = [
        "# The declaration",
        "",
        "A knowledge base is declared in one YAML file, `knowledge/<name>.yaml`. Unknown keys are errors. "
        "`${VAR}` and `${VAR:-default}` in any text are",
        "replaced from the environment, also behind another `$`; a `${` that begins neither is an error, and is "
        "written `${NONE:-$}{` where it is meant.",
        "Variables of `sources` have to be set where pages are fetched, and nowhere else: reading what is "
        "published needs none of them.",
        "",
        "Behind each key stand its values and its default in brackets. This page is written by `make docs` from the "
        "models in `schemas/`.",
    ]
    for title, (model, place) in _SECTIONS.items():
        lines += ["", f"## {title}", "", *([f"`{place}`", ""] if place else []), cleandoc(model.__doc__ or "")]
        if bases := [base for base in _bases(model) if base in _TITLES]:
            lines += ["", f"Has the keys of {' and '.join(map(_link, bases))}, too."]
        lines += ["", *_keys(model)]
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
    yield "Names of Great Expectations that can be declared, with what they need and their arguments (required ones in"
    yield "bold; `field`, which most take, is left out)."
    by_level: dict[str, list[str]] = {}
    for name in declarable_expectations():
        known = known_expectation(name)
        fields = [f"`{key}`" for key in known.fields if key != "column"]
        arguments = [f"**`{key}`**" if key in known.required else f"`{key}`" for key in known.arguments]
        names = ", ".join([*fields, *arguments]).replace(_BOUNDS, "bounds")
        needs = "" if (needs := needs_of(name)) == "anything" else f" ({needs})"
        by_level.setdefault(levels[known.level], []).append(f"- `{name}`{needs}{names and f': {names}'}")
    for level, lines in by_level.items():
        yield from ("", f"Of {level}:", "", *lines)
    yield ""
    yield f"Bounds are {_BOUNDS}. An error says why others cannot be declared."
    yield ""


def _bases(model: type[DeclaredModel]) -> list[type[DeclaredModel]]:
    return [base for base in model.__mro__[1:] if issubclass(base, DeclaredModel)]


def _link(model: type[DeclaredModel]) -> str:
    title = _TITLES.get(model, model.__name__)
    return f"[{title[0].lower()}{title[1:]}](#{title.lower().replace(' ', '-')})"


def _keys(model: type[DeclaredModel]) -> Iterator[str]:
    above = {name: field for base in _bases(model) if base in _TITLES for name, field in base.model_fields.items()}
    for name, field in model.model_fields.items():
        if name not in above or _describe_key(name, field) != _describe_key(name, above[name]):
            yield _describe_key(name, field)


def _describe_key(name: str, field: FieldInfo) -> str:
    values, default = _type_name(field.annotation), _default(field)
    form = f"{values}; {default}" if default and values else values or default
    return f"- `{field.alias or name}` ({form}){f': {field.description}' if field.description else ''}"


def _type_name(annotation: Any) -> str:
    if annotation is Any:
        return "anything"
    if isinstance(annotation, type) and not get_args(annotation):
        if issubclass(annotation, DeclaredModel):
            return _link(annotation)
        return {
            "str": "text",
            "SecretStr": "text",
            "int": "integer",
            "float": "number",
            "bool": "",
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
    arguments = (
        tuple(a for a in arguments if a is not type(None)) or arguments
    )  # null is a value wherever it is the default
    return " or ".join(dict.fromkeys(_type_name(a) for a in arguments)) if arguments else str(annotation).strip("'\"")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or isinstance(value, DeclaredModel):
        return ""
    if isinstance(value, list | dict):
        return f"default `{value}`" if value else ""
    return f"default `{str(value).lower() if isinstance(value, bool) else value}`"


def commands_reference() -> str:
    """Markdown: the help of every command. What many commands take alike stands once, at the top."""
    program = get_command(app)
    assert isinstance(program, TyperGroup)
    commands = program.commands
    uses = Counter(_parameter(parameter) for command in commands.values() for parameter in command.params)
    shared = [line for line, number in uses.items() if number >= _MANY]
    lines = [
        "# Commands",
        "",
        "This page is written by `make docs` from the commands' own help, which `almanac COMMAND --help` prints. "
        "[Operating](../operating.md) has them by task.",
        *_paragraphs(program.help),
        "",
        "What many commands take, each where its first line has it (`--project` all of them):",
        "",
        *shared,
    ]
    for name, command in commands.items():
        options_below = {
            parameter.name
            for parameter in command.params
            if isinstance(parameter, TyperOption) and _parameter(parameter) not in shared
        }
        taken = [
            parameter
            for parameter in command.params
            if parameter.name != "project" and (parameter.name not in options_below or parameter.required)
        ]
        usage = " ".join(["almanac", name, *map(_in_usage, taken), *(["[…]"] if options_below else [])])
        own = [line for line in map(_parameter, command.params) if line not in shared]
        lines += ["", f"## almanac {name}", "", f"`{usage}`", *_paragraphs(command.help), *(["", *own] if own else [])]
    return "\n".join(lines) + "\n"


def _paragraphs(help_text: str | None) -> Iterator[str]:
    """The paragraphs of a help text, each behind an empty line, without marks for terminals."""
    for paragraph in render(cleandoc(help_text or "")).plain.split("\n\n"):
        yield from ("", " ".join(paragraph.split()))


def _value(parameter: Any) -> str:
    """What stands for the value of an argument or option; an empty text where it takes none."""
    if getattr(parameter, "is_flag", False):
        return ""
    return parameter.metavar or "|".join(map(str, get_args(parameter.type_descriptor.annotation))) or "TEXT"


def _in_usage(parameter: Any) -> str:
    usage = " ".join(filter(None, (parameter.opts[0] if isinstance(parameter, TyperOption) else "", _value(parameter))))
    return usage if parameter.required or usage.startswith("[") else f"[{usage}]"


def _parameter(parameter: Any) -> str:
    option = ", ".join((*parameter.opts, *parameter.secondary_opts)) if isinstance(parameter, TyperOption) else ""
    default = parameter.default if isinstance(parameter.default, str | int) and parameter.show_default else None
    default_note = "" if default is None or isinstance(default, bool) else f" (default {default})"
    return f"- `{' '.join(filter(None, (option, _value(parameter))))}`: {parameter.help}{default_note}"


def words_reference() -> str:
    """Markdown: every word that commands print, as `almanac explain` explains it."""
    lines = [
        "# Words that commands print",
        "",
        "What each means, and what to do. In the terminal, `almanac explain WORD`, which also says what prints it.",
        "",
    ]
    for word in sorted(printed_words(), key=lambda word: word.name):
        name = f"**{word.name}**" + (f" (`{word.json}` in JSON)" if word.json else "")
        advice = "" if word.do == "Nothing." else f" *{word.do}*"
        lines.append(f"- {name}: {word.means}{advice}")
    return "\n".join(lines) + "\n"


def main() -> int:
    pages = {
        "declaration.md": declaration_reference(),
        "commands.md": commands_reference(),
        "words.md": words_reference(),
    }
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
