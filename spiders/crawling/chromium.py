"""The machine's own Chromium: where it is, whether pages can be drawn with it, and how it is started.

Apart from what drives it, so that asking loads neither Scrapy nor Playwright.
"""

import os
from importlib.util import find_spec
from pathlib import Path
from shutil import which

from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.errors import UsageError

HOW_TO_INSTALL = "pip install 'almanac[render]', with requirements.lock as constraints"
HOW_TO_GET_CHROMIUM = "apt install chromium, or what your system calls Chromium or Google Chrome; it has to be on PATH"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_DRIVERS = ("scrapy_playwright", "playwright")

# What Playwright does not pass itself. Each of these is a way to the network that does not lead through the proxy, or a request that no page made.
SWITCHES = [
    "--proxy-bypass-list=<-loopback>",  # loopback goes through the proxy, too, which refuses it
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",  # no name is looked up here, by DNS, mDNS or DNS over HTTPS; the proxy is an address
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-sync",
    "--dns-prefetch-disable",
    "--no-pings",
    "--no-first-run",
    "--disable-extensions",
    "--disable-gpu",
    "--mute-audio",
]


def find_chromium() -> str | None:
    """The path of the machine's Chromium or Chrome; None if there is none on PATH."""
    return next((path for name in _NAMES if (path := which(name))), None)


def missing_driver() -> str | None:
    """The first package of the extra `render` that is not installed; None if all are."""
    return next((name.replace("_", "-") for name in _DRIVERS if find_spec(name) is None), None)


def require_browser(source: SiteSource) -> None:
    """Raises UsageError where the source's pages are to be drawn and the extra `render` or Chromium is missing."""
    if source.render is None:
        return
    where = f"sources.{source.name}.render"
    if (missing := missing_driver()) is not None:
        raise UsageError(f"pages are drawn with the extra 'render', and {missing} is not installed", where=where, hint=HOW_TO_INSTALL)
    if find_chromium() is None:
        raise UsageError("pages are drawn by Chromium, and there is none on PATH", where=where, hint=HOW_TO_GET_CHROMIUM)


def has_sandbox() -> bool:
    """Whether Chromium is started with its sandbox: it has none for root."""
    return os.geteuid() != 0


def processes_below(pid: int) -> list[int]:
    """The processes that this one has started, and those that they have."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            above = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, IndexError):  # it has ended meanwhile
            continue
        children.setdefault(above, []).append(int(stat.parent.name))
    found, waiting = [], [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def resident_bytes(pids: list[int]) -> int:
    """What the processes have in memory of their own; what they share with others is not counted."""
    pages = 0
    for pid in pids:
        try:
            resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[1:3]
        except (OSError, ValueError):
            continue
        pages += int(resident) - int(shared)
    return pages * os.sysconf("SC_PAGE_SIZE")
