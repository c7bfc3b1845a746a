"""The machine's own Chromium: where it is, whether pages can be drawn with it, and how it is started.

Apart from what drives it, so that asking loads neither Scrapy nor Playwright.
"""

import os
import re
import subprocess
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

from almanac.core.extras import require_extra
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.errors import UsageError

HOW_TO_GET_CHROMIUM = "apt install chromium, or what your system calls Chromium or Google Chrome; it has to be on PATH"
HOW_TO_GET_SANDBOX = (
    "apt install chromium-sandbox, or let users make namespaces of their own: sysctl user.max_user_namespaces and "
    "kernel.apparmor_restrict_unprivileged_userns, and the seccomp profile of a container"
)
DOES_NOT_START = "Chromium does not start"
_NO_SANDBOX = re.compile(r"no usable sandbox|sandboxing failed", re.IGNORECASE)
_TRY_S = 60.0
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

# What Playwright does not pass itself. Each of these is a way to the network that does not lead through the proxy, or a
# request that no page made.
SWITCHES = [
    "--proxy-bypass-list=<-loopback>",  # loopback goes through the proxy, too, which refuses it
    # no name is looked up here, by DNS, mDNS or DNS over HTTPS; the proxy is an address
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
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


def require_browser(source: SiteSource) -> None:
    """Raises UsageError where the source's pages are to be drawn and the extra `render` or Chromium is missing."""
    if source.render is None:
        return
    where = f"sources.{source.name}.render"
    require_extra("render", "drawing pages", where)
    if find_chromium() is None:
        raise UsageError(
            "pages are drawn by Chromium, and there is none on PATH", where=where, hint=HOW_TO_GET_CHROMIUM
        )


def failure_to_start(chromium: str) -> str | None:
    """What Chromium says where it does not start; None if it shows a page. Takes about a second."""
    with TemporaryDirectory(prefix="almanac-browser-") as folder:
        switches = [
            "--headless",
            "--disable-gpu",
            *([] if has_sandbox() else ["--no-sandbox"]),
            f"--user-data-dir={folder}",
        ]
        command = [chromium, *switches, "--dump-dom", "data:text/html,<p>shown</p>"]
        try:
            tried = subprocess.run(
                command,
                env={**os.environ, "HOME": folder},
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_TRY_S,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    return None if "<p>shown</p>" in tried.stdout else tried.stderr.strip() or f"it ends with code {tried.returncode}"


def why_it_does_not_start(output: str) -> tuple[str, str]:
    """The finding and the way out, of what Chromium says where it does not start."""
    if _NO_SANDBOX.search(output):
        return f"{DOES_NOT_START}: this system gives user {os.geteuid()} no sandbox for it", HOW_TO_GET_SANDBOX
    return (
        f"{DOES_NOT_START}: {output[-1000:]}",
        "chromium --headless --dump-dom about:blank, as the user who crawls, shows whether it starts by itself",
    )


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
    descendants, waiting = [], [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        descendants += below
        waiting += below
    return descendants


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
