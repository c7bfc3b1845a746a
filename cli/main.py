"""`almanac`: commands in, exit codes out. schemas/errors.py draws which error ends with which code.

What is imported here is imported for `--help` and for a mistyped option, too: commands import what they do when they do
it.
"""

import inspect
import os
import sys
import threading
import traceback
from collections.abc import Callable
from functools import wraps
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer import Exit
from typer.exceptions import TyperException

from almanac.cli import author, keep, operate, questions
from almanac.cli.demo import demo
from almanac.cli.doctor import doctor
from almanac.cli.explain import explain
from almanac.cli.mcp import mcp
from almanac.cli.options import Project
from almanac.cli.output import print_error, print_json, reserve_stdout
from almanac.cli.serve import serve
from almanac.cli.server import server
from almanac.cli.stores import on_store
from almanac.core.lifetime import interrupted_by_signals
from almanac.core.load import is_declared
from almanac.core.settings import quiet_engines, use_project
from almanac.schemas.errors import AlmanacError, StorageError, UsageError

INTERRUPTED = 130
_HELP = """Websites and documents in, a versioned and published vector index out, kept fresh.

Start with [bold]almanac demo[/bold]. Then: almanac init NAME, almanac validate NAME, almanac run NAME,
almanac ask NAME "…".

Exit codes: 0 done · 2 usage or declaration · 3 no records · 4 gate refused · 5 published, items rejected · 6 another
run holds the lock · 7 unreachable, disk or a damaged version · 130 interrupted · 1 a defect.
"""

app = typer.Typer(
    name="almanac",
    help=_HELP,
    no_args_is_help=True,
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
)
_PANELS: dict[str, list[tuple[str, Callable[..., int | None]]]] = {
    "Declare": [
        ("init", author.init),
        ("schema", author.schema),
        ("validate", author.validate),
        ("test-url", author.test_url),
        ("test-source", author.test_source),
    ],
    "Refresh": [("run", operate.run), ("plan", operate.plan), ("status", operate.status), ("server", server)],
    "Versions": [
        ("versions", keep.versions),
        ("diff", keep.diff),
        ("publish", keep.publish),
        ("rollback", keep.rollback),
        ("promote", keep.promote),
        ("verify", keep.verify),
        ("rebuild", keep.rebuild),
        ("compact", keep.compact),
        ("prune", keep.prune),
        ("forget", keep.forget),
        ("export", keep.export),
    ],
    "Ask": [("search", questions.search), ("ask", questions.ask), ("eval", questions.evaluate)],
    "Serve": [("serve", serve), ("mcp", mcp)],
    "Try": [("demo", demo), ("doctor", doctor), ("explain", explain)],
}


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from almanac.schemas.manifest import FORMAT

        sys.stdout.write(f"almanac {version('almanac')}, versions of format {FORMAT}\n")
        raise Exit


@app.callback()
def _almanac(
    project: Project = None,
    _: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="say which version this is")
    ] = False,
) -> None:
    """Options before the command."""
    if project is not None:
        use_project(project)


def _in_project(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with `--project`, which every one of them takes."""

    @wraps(command)
    def run_there(*arguments: Any, project: Any = None, **options: Any) -> Any:
        from almanac.cli.log_lines import configure_logs

        configure_logs()
        if project is not None:
            use_project(project)
        return command(*arguments, **options)

    signature = inspect.signature(command)
    parameter = inspect.Parameter("project", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Project)
    vars(run_there)["__signature__"] = signature.replace(parameters=[*signature.parameters.values(), parameter])
    run_there.__annotations__ = {**command.__annotations__, "project": Project}
    return run_there


for _panel, _commands in _PANELS.items():
    for _name, _command in _commands:
        # Its first paragraph as one line: the list of commands keeps line breaks.
        _summary = " ".join((_command.__doc__ or "").partition("\n\n")[0].split())
        app.command(_name, short_help=_summary, rich_help_panel=_panel)(_in_project(on_store(_name, _command)))


def main(arguments: list[str] | None = None) -> None:
    """The console script."""
    _fill_standard_descriptors()
    code = run(sys.argv[1:] if arguments is None else arguments)
    # The interpreter would wait for threads: Prefect's, which try to send what nobody takes, and one that loads a
    # model, after Ctrl-C or an error.
    if _is_prefect_gone() or any(thread.name == "embedder" for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _fill_standard_descriptors() -> None:
    """Opens /dev/null where stdin, stdout or stderr is closed: else the next file or socket would take its number, and
    a child would find it there.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def _is_prefect_gone() -> bool:
    if "prefect" not in sys.modules:
        return False
    from almanac.flows.availability import is_prefect_gone

    return is_prefect_gone()


def run(arguments: list[str]) -> int:
    """Runs one command and returns its exit code; no exception leaves here."""
    as_json = "--json" in arguments
    if as_json:
        reserve_stdout()
    quiet_engines()
    try:
        with interrupted_by_signals():
            code = app(args=arguments, standalone_mode=False)
    except AlmanacError as error:
        error.about(next(filter(is_declared, arguments[1:]), "KB"))
        print_error(error, as_json=as_json)
        return error.exit_code
    except Exit as finished:
        return finished.exit_code
    except TyperException as error:
        message = error.format_message().replace(": Value error, ", ": ", 1)  # Pydantic's prefix
        print_error(
            UsageError(message, where=f"almanac {' '.join(arguments)}", hint=_help_for(arguments)), as_json=as_json
        )
        return 2
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        return 0
    except SystemExit as error:  # what typer makes of a broken pipe
        return 0 if isinstance(error.__context__, BrokenPipeError) else int(error.code or 0)
    except OSError as error:
        place = str(error.filename or "")
        print_error(
            StorageError(
                error.strerror or str(error), where=place or None, hint="check the path, its permissions and the disk"
            ),
            as_json=as_json,
        )
        return StorageError.exit_code
    except Exception as error:
        if as_json:
            print_json(
                {
                    "error": {
                        "kind": "crash",
                        "message": f"{type(error).__name__}: {error}",
                        "where": None,
                        "hint": "a defect: please report it",
                    }
                }
            )
        sys.stderr.write("almanac: crashed; this is a defect, please report it with what follows\n")
        traceback.print_exc()
        return 1
    if code == INTERRUPTED:  # typer turns Ctrl-C into this code, too
        sys.stderr.write(
            "almanac: interrupted; what is published serves on, and the next run goes on from the pages and "
            "vectors that are done\n"
        )
        if as_json:
            print_json(
                {
                    "error": {
                        "kind": "interrupted",
                        "message": "interrupted",
                        "where": None,
                        "hint": "run again to go on",
                    }
                }
            )
    return code if isinstance(code, int) else 0


def _help_for(arguments: list[str]) -> str:
    """The command that says how a mistyped one is used."""
    named = {name for commands in _PANELS.values() for name, _ in commands}
    command = next((argument for argument in arguments if argument in named), None)
    return f"almanac {command} --help" if command is not None else "almanac --help lists the commands"


if __name__ == "__main__":
    main()
