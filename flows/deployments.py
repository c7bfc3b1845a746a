"""What is deployed: all that the project's prefect.yaml says, and each declared knowledge base that it does not name, on the schedule of its declaration."""

import re
from pathlib import Path
from typing import Any

import structlog
from ruamel.yaml import YAML

from almanac.schemas.durable import write_file
from almanac.schemas.errors import AlmanacError, DeclarationError
from almanac.schemas.load import load_declaration
from almanac.schemas.settings import DataDir, Project

_FILE = "prefect.yaml"
_log = structlog.get_logger("almanac.server")


def deployment_files(project: Project, data: DataDir, pool: str) -> list[Path]:
    """The files for `prefect deploy`: the project's own, where there is one, and one that is written from declarations. None where nothing is declared.

    Raises DeclarationError where the project's own file is no YAML.
    """
    own = project.root / _FILE
    files = [own] if own.is_file() else []
    named = _knowledge_bases_of(own) if files else set()
    derived = [_deployment(path, pool) for path in project.declarations() if path.stem not in named]
    if derived:
        written = data.prefect_home / "deployments.yaml"
        write_file(written, lambda file: YAML(typ="safe").dump({"name": "almanac", "deployments": derived}, file))
        files.append(written)
    if not files:
        _log.warning("nothing is declared, so nothing is deployed", folder=str(project.knowledge), next="almanac init NAME, and start the server again")
    return files


def _knowledge_bases_of(file: Path) -> set[str]:
    try:
        deployments = (YAML(typ="safe").load(file) or {}).get("deployments") or []
        return {str((one.get("parameters") or {}).get("kb")) for one in deployments}
    except Exception as error:
        raise DeclarationError(f"cannot be read as deployments: {error}", where=str(file), hint="without that file, declarations decide") from error


def _deployment(path: Path, pool: str) -> dict[str, Any]:
    """The entry of one declaration; one that cannot be read has no schedule, and its runs say what is wrong with it."""
    flow = re.sub(r"[^A-Za-z0-9_-]", "-", path.stem).strip("_-")  # a dot would end the module's name, and an underscore begins no flow
    deployment: dict[str, Any] = {
        "name": "refresh",
        "entrypoint": f"almanac.flows.deployed.{flow}",
        "parameters": {"kb": path.stem},
        "tags": ["almanac", path.stem],
        "concurrency_limit": {"limit": 1, "collision_strategy": "ENQUEUE"},
        "work_pool": {"name": pool, "work_queue_name": "default"},
    }
    try:
        declaration = load_declaration(path.stem)
    except AlmanacError as error:
        _log.warning("a declaration cannot be read", file=str(path), error=str(error))
        return deployment
    schedules = [{"cron": declaration.schedule, "timezone": "UTC", "active": True}] if declaration.schedule else []
    return {**deployment, "description": declaration.title or declaration.name, "schedules": schedules}
