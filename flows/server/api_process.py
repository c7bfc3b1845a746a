"""The process of Prefect's API: imports what Prefect's server is going to import, reads its job from stdin, and serves
until the command ends.

Its job is one line of JSON: `environment`, the variables to run with, and `log`, the file to write to. Prefect reads
its settings when it is imported, so that only other libraries are imported before there is a job.
"""

import json
import os
import socket
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from almanac.core.lifetime import die_with_parent, job_of_parent
from almanac.core.uncollected import uncollected

# Of all that Prefect's server imports, what takes longest and is not Prefect's own.
LIBRARIES = ("fastapi", "sqlalchemy.ext.asyncio", "docket")


def main(descriptor: int) -> None:
    """Serves on the socket of this descriptor, which listens."""
    die_with_parent()
    with uncollected():
        for name in LIBRARIES:
            with suppress(Exception):  # Prefect will tell what is missing, in its log
                import_module(name)
        job = json.loads(job_of_parent())
    os.environ.clear()
    os.environ.update(job["environment"])
    with Path(job["log"]).open("ab", buffering=0) as log:
        for standard in (1, 2):
            os.dup2(log.fileno(), standard)
    from almanac.flows.server.api_app import serve_api

    serve_api(socket.socket(fileno=descriptor))


if __name__ == "__main__":
    main(int(sys.argv[1]))
