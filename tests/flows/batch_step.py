"""A step for processes that share the work. It stands alone, and imports little: each of them imports this module to
find it.
"""

import errno
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from almanac.flows.pipeline.batches import at_batch
from almanac.schemas.errors import OperationalError

COUNT = 20  # batches


def do_batch(run: Any, folder: Path, number: int) -> int:
    """A batch that notes who did it."""
    what = json.loads((folder / "what.json").read_text()) if (folder / "what.json").exists() else {}
    with at_batch(run, f"batch {number}"):
        if number == what.get("batch"):
            with (folder / "tries").open("a") as tries:
                tries.write("x")
            _go_wrong(folder, number, what)
        time.sleep(0.02)
    (folder / f"{number}.done").write_text(str(os.getpid()))
    return number


def _go_wrong(folder: Path, number: int, what: dict[str, Any]) -> None:
    if what["does"] == "is a defect":
        from lxml import etree

        raise etree.XMLSyntaxError("cannot be sent to another process", 1, 1, 1)
    if what["does"] == "fills the disk":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "part.parquet")
    if what["does"] == "raises":
        raise OperationalError("this batch cannot be mapped", where=f"batch {number}", hint="mend it")
    if what["does"] == "hangs":
        time.sleep(300)
    if (folder / "tries").stat().st_size <= what["deaths"]:
        os.kill(os.getpid(), signal.SIGKILL)
