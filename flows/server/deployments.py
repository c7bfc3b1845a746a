"""The deployments of a project: those of its prefect.yaml, and one on its declared schedule for every other declared
knowledge base.
"""

import asyncio
import hashlib
import re
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from cronsim import CronSim
from ruamel.yaml import YAML

from almanac.core.durable import write_file
from almanac.core.load import load_as_served
from almanac.core.logs import get_logger
from almanac.core.overlays import overlays_of
from almanac.core.settings import DataDir, Project, environment
from almanac.schemas.errors import AlmanacError, DeclarationError

_FILE = "prefect.yaml"
_COMPARED = 50  # starts, from now on: of a daily schedule more than a month
_log = get_logger("almanac.server")


def deployment_files(project: Project, data: DataDir, pool: str) -> list[Path]:
    """The files for `prefect deploy`: the project's own prefect.yaml if there is one, and a generated one. Empty if
    nothing is declared.

    Raises DeclarationError if the project's own file is not valid YAML.
    """
    own = project.root / _FILE
    files = [own] if own.is_file() else []
    named = _knowledge_bases_of(own)
    derived = [_deployment(path, pool) for path in project.declarations() if path.stem not in named]
    if derived:
        written = data.prefect_home / "deployments.yaml"
        write_file(written, lambda file: YAML(typ="safe").dump({"name": "almanac", "deployments": derived}, file))
        files.append(written)
    if not files:
        _log.warning(
            "nothing is declared, so nothing is deployed",
            folder=str(project.knowledge),
            next="almanac init NAME, and start the server again",
        )
    return files


def deployed_names(project: Project) -> set[str]:
    """The knowledge bases that the deployment files name."""
    return _knowledge_bases_of(project.root / _FILE) | {path.stem for path in project.declarations()}


def _knowledge_bases_of(file: Path) -> set[str]:
    if not file.is_file():
        return set()
    try:
        deployments = (YAML(typ="safe").load(file) or {}).get("deployments") or []
        return {str((deployment.get("parameters") or {}).get("kb")) for deployment in deployments}
    except Exception as error:
        raise DeclarationError(
            f"cannot be read as deployments: {error}", where=str(file), hint="without that file, declarations decide"
        ) from error


def _deployment(path: Path, pool: str) -> dict[str, Any]:
    """The deployment of one declaration. An unreadable one gets no schedule; its runs report the error."""
    env, _ = environment()
    parameters = {"kb": path.stem} if not env or env in overlays_of(path) else {"kb": path.stem, "env": ""}
    deployment: dict[str, Any] = {
        "name": "refresh",
        "entrypoint": f"almanac.flows.deployed.{_flow_name(path.stem)}",
        "parameters": parameters,
        "tags": ["almanac", path.stem],
        "concurrency_limit": {"limit": 1, "collision_strategy": "ENQUEUE"},
        "work_pool": {"name": pool, "work_queue_name": "default"},
    }
    try:
        declaration = load_as_served(path, env)
    except AlmanacError as error:
        _log.warning("a declaration cannot be read", file=str(path), error=str(error))
        return deployment
    schedules = (
        [{"cron": declaration.schedule, "timezone": "UTC", "active": True}]
        if _is_understood(declaration.schedule, path)
        else []
    )
    return {**deployment, "description": declaration.title or declaration.name, "schedules": schedules}


def _flow_name(stem: str) -> str:
    """The flow's name: the file's name, made a Python identifier; where that changes it, a hash keeps names
    distinct.
    """
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", stem):
        return stem
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("_-")
    return f"{readable or 'kb'}-{hashlib.sha256(stem.encode()).hexdigest()[:6]}"


def _is_understood(cron: str | None, path: Path) -> bool:
    """Whether Prefect reads the cron expression as the declaration does. Dialects differ in seconds, `L`, and day of
    month together with weekday.
    """
    if cron is None:
        return False
    from prefect.server.schemas.schedules import CronSchedule

    now = datetime.now(UTC)
    meant = list(islice(CronSim(cron, now), _COMPARED))
    try:
        dates = asyncio.run(CronSchedule(cron=cron, timezone="UTC").get_dates(_COMPARED, start=now))
    except ValueError as error:
        _log.warning(
            "Prefect does not understand a schedule: its runs start by hand",
            file=str(path),
            schedule=cron,
            error=str(error),
        )
        return False
    if [when.timestamp() for when in dates] != [when.timestamp() for when in meant]:
        _log.warning(
            "Prefect would start runs at other times than declared: they start by hand", file=str(path), schedule=cron
        )
        return False
    return True
