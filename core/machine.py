"""Which machine this is, as far as process ids compare: two processes with the same answer see each other's ids."""

import platform
from functools import cache
from pathlib import Path

from almanac.schemas.hashing import short_hash


@cache
def machine_id() -> str:
    """Returns 16 hexadecimal digits for the kernel that is running and the namespace of process ids, so that containers
    of one machine differ.

    A name would not do: containers and copied machines share theirs. After a reboot it is another one. Where the system
    tells neither, it is made of the machine's name.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return short_hash([platform.node()])
    return short_hash([boot, str(namespace)])
