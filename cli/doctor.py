"""`almanac doctor`: whether this machine can do the work, and what to do where it cannot."""

import typer

from almanac.cli.options import Data, Json
from almanac.cli.output import print_json, print_table, say
from almanac.schemas.errors import OperationalError

_SHOWN = {"ok": "ok", "note": "note", "wrong": "WRONG"}


def doctor(data: Data = None, as_json: Json = False) -> None:
    """Look at Python, packages, processor, disk, data directory, browser and Prefect: what is wrong, and the way out.
    Changes nothing.
    """
    from almanac.cli.checks import examine
    from almanac.core.settings import DataDir, Project

    project = Project.locate()
    folder = DataDir.locate(data, project)
    checks = examine(project, folder)
    wrong = [check for check in checks if check.state == "wrong"]
    if as_json:
        print_json(
            {
                "ok": not wrong,
                "project": str(project.root),
                "data": str(folder.root),
                "checks": [check.as_json() for check in checks],
            }
        )
    else:
        print_table(
            "This machine", ("", "", "found"), [(check.name, _SHOWN[check.state], check.found) for check in checks]
        )
        for check in checks:
            if check.hint:
                say(f"{check.name}: {check.hint}")
        say(f"{len(wrong)} of {len(checks)} are wrong" if wrong else "Nothing is wrong")
    if wrong:
        raise typer.Exit(OperationalError.exit_code)
