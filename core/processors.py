"""How many processors this process may keep busy: those that it is bound to, and of a container no more than its
quota.
"""

import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def processors() -> int:
    """Returns their number, at least 1."""
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = said_of_group("cpu.max").partition(" ")
    if quota.isdigit() and period.strip().isdigit():
        own = min(own, max(1, int(quota) // int(period)))
    return own


def said_of_group(name: str) -> str:
    """Returns what a file of this process's control group (version 2) says; empty where there is none."""
    try:
        return (_CGROUP / name).read_text()
    except OSError:
        return ""
