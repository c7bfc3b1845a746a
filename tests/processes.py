"""Which processes there are, and what is mapped, read from /proc: what `ps` and `pgrep` print depends on the terminal,
the locale and the letters of a path.
"""

from collections.abc import Iterator
from pathlib import Path


def children_of(pid: int) -> list[int]:
    """The processes that a process started and that still run."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def carrying(text: str) -> list[int]:
    """The processes in whose environment this stands: the one that was started with it, and every child of that."""
    return [int(process.name) for process in _all() if text.encode() in _read(process / "environ")]


def command_line(pid: int) -> str:
    """Empty for a process that has ended."""
    return _read(Path(f"/proc/{pid}/cmdline")).replace(b"\0", b" ").decode(errors="replace")


def is_read_singly(path: Path) -> bool:
    """Whether this process has told the system that it reads a mapped file page by page. Raises ValueError for a file
    that it has not mapped.
    """
    flags, is_of_file = [], False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        first, *others = line.split()
        if "-" in first:  # a mapping's addresses
            is_of_file = line.endswith(f" {path}")
        elif is_of_file and first == "VmFlags:":
            flags.append("rr" in others)
    if not flags:
        raise ValueError(f"{path} is not mapped")
    return any(flags)


def _all() -> Iterator[Path]:
    return (path for path in Path("/proc").iterdir() if path.name.isdecimal())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def find_fingerprints() -> None:
    """Has the fingerprints of the stages at hand before a process forks: each run needs them, and finding them takes .2
    s.
    """
    from almanac.flows.pipeline.fingerprints import read_code
    from almanac.index.build.job import row_layout

    read_code()
    row_layout()
