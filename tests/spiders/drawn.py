"""Runs the process of a crawl on a network of its own: `python -m tests.spiders.drawn JOBFILE`.

`public` names loopback addresses that are taken for public ones, for a test machine has no others. `names` maps a host
name to the addresses that it has when it is looked up, one look-up after the other; the last one stays. With `bare`,
pages have all that Chromium gives them: nothing is taken away by scripts. `browser` has other values for the limits of
spiders/crawling/browser.py.
"""

import json
import socket
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

from twisted.internet._resolver import GAIResolver

from almanac.schemas.declaration.private_hosts import private_kind
from almanac.spiders.crawling import addresses, browser, crawl_process, drawing
from almanac.spiders.crawling.crawl_job import Job

_look_up = socket.getaddrinfo
_begin = GAIResolver.__init__


def _main(instructions: dict[str, Any]) -> int:
    names: dict[str, list[str]] = instructions["names"]

    def look_up(host: Any, *others: Any, **keys: Any) -> Any:
        if host in names:
            left = names[host]
            host = left.pop(0) if len(left) > 1 else left[0]
        return _look_up(host, *others, **keys)

    def begin(self: Any, reactor: Any, pool: Any = None) -> None:
        _begin(self, reactor, pool, look_up)

    with (
        patch.object(GAIResolver, "__init__", begin),
        patch.object(drawing, "_WITHOUT", "" if instructions["bare"] else drawing._WITHOUT),
        patch.dict(vars(browser), instructions["browser"]),
        patch.object(
            addresses,
            "private_kind",
            lambda address: None if address in instructions["public"] else private_kind(address),
        ),
    ):
        return crawl_process.crawl(Job.model_validate(instructions["job"]))


if __name__ == "__main__":
    sys.exit(_main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
