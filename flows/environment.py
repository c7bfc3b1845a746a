"""Prefect's settings, set before Prefect is imported: its home in the data directory, and little output."""

import os

from almanac.core.settings import DataDir, quiet_engines
from almanac.schemas.errors import as_storage_error

_KEPT_DAYS = 30  # runs in the database of `almanac server`
HEARTBEAT_S = 30  # of a run, for the server; Prefect allows no shorter one


def prepare_prefect(data: DataDir) -> None:
    """Sets Prefect's home for this process and its children. A server that PREFECT_API_URL names is used unchanged."""
    quiet_engines()
    data.require_writable()
    with as_storage_error(data.root):
        data.make_private_folders()
    os.environ["ALMANAC_DATA"] = data.place
    defaults = {
        "PREFECT_HOME": str(data.prefect_home),
        "PREFECT_PROFILES_PATH": str(data.prefect_home / "profiles.toml"),
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",  # ours is started by flows/server/prefect_api.py
        # Steps log through "almanac"; Prefect keeps those lines for its UI, and its own chatter off the terminal.
        "PREFECT_LOGGING_EXTRA_LOGGERS": "almanac",
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
        "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
        "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(HEARTBEAT_S),
        # Of a server that stays: runs, logs, artifacts and events of so long ago go.
        "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
        "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": str(_KEPT_DAYS * 86_400),
    }
    for name, value in defaults.items():
        os.environ.setdefault(name, value)


def alert_webhook() -> str | None:
    """The URL to which alerts are posted, from ALMANAC_ALERT_WEBHOOK; None where it is not set."""
    return os.environ.get("ALMANAC_ALERT_WEBHOOK", "").strip() or None
