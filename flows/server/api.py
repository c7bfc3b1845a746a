"""Prefect's API as a child process of one command, used if PREFECT_API_URL names no server.

Prefect's own ephemeral server is not used: it outlives a kill -9 of its parent, and Ctrl-C stops it before the run has
reported its end. This child does neither, and it starts before the parent imports anything that takes long
(`api_ahead`).
"""

import http.client
import json
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial

from almanac.core.durable import create
from almanac.core.lifetime import tell_job
from almanac.core.settings import DataDir
from almanac.flows.availability import be_impatient, server_is_ours
from almanac.flows.environment import prepare_prefect
from almanac.flows.server.api_ahead import api_process
from almanac.schemas.errors import OperationalError, PrefectGone

_START_TIMEOUT_S = 120  # the first start in a data directory also makes the database
_REPLY_TIMEOUT_S = 10  # of a server that is there already
Ready = Callable[[], None]


def start_api(data: DataDir) -> Ready:
    """Starts the API and returns a function that waits until the API answers. Import the flow between the two calls.
    The API stops with this process.
    """
    be_impatient()
    prepare_prefect(data)
    if url := os.environ.get("PREFECT_API_URL"):
        return partial(_require_reply, url.rstrip("/"))
    log_path = data.prefect_home / "api.log"
    create(log_path).close()
    child, port = api_process()
    server_is_ours(child.kill)
    url = os.environ["PREFECT_API_URL"] = f"http://127.0.0.1:{port}/api"
    tell_job(child, json.dumps({"environment": dict(os.environ), "log": str(log_path)}))

    def wait_until_ready() -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not answers(f"{url}/health"):
            if child.poll() is not None or time.monotonic() > deadline:
                tail = log_path.read_text(errors="replace")[-1000:].strip()
                free = f"{shutil.disk_usage(log_path.parent).free / 1e6:,.1f} MB of its disk are free"
                found = (
                    f"within {_START_TIMEOUT_S} s"
                    if child.returncode is None
                    else f"and ended with code {child.returncode}"
                )
                raise OperationalError(
                    f"Prefect's API did not start {found}: {tail or 'it said nothing'}",
                    where=str(log_path),
                    hint=f"run again; {free}",
                )
            time.sleep(0.1)

    return wait_until_ready


def _require_reply(url: str) -> None:
    """Raises PrefectGone unless something answers at the URL within ten seconds, be it with a refusal."""
    deadline = time.monotonic() + _REPLY_TIMEOUT_S
    while _status(f"{url}/health") is None:
        if time.monotonic() > deadline:
            hint = "start that server, or unset PREFECT_API_URL: the run then starts an API of its own"
            raise PrefectGone("nothing answers at PREFECT_API_URL", where=url, hint=hint)
        time.sleep(0.5)


def answers(url: str) -> bool:
    """Whether a server answers at this URL with success."""
    return _status(url) == 200


def _status(url: str) -> int | None:
    """The status of a server's answer; None if nobody is there, the address is none, or what is there speaks no
    HTTP.
    """
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except (OSError, ValueError, http.client.HTTPException):
        return None
