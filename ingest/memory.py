"""Memory that is free, and memory that a process takes. Exact on Linux only."""

import os
from contextlib import suppress
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def available_bytes(cgroup: Path = CGROUP) -> int:
    """Return the memory that a new process can take without swapping, on this machine or in this container.

    Without /proc it is all of the machine's memory. The limit of a container is memory.max of cgroup v2, less
    memory.current. That counts cached files too; those not read lately (inactive_file) can be dropped and are added
    back, as Kubernetes does.
    """
    num_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, KeyError), open("/proc/meminfo") as file:
        lines = dict(line.split(":", 1) for line in file)
        num_bytes = int(lines["MemAvailable"].split()[0]) * 1024
    with suppress(OSError, ValueError):  # memory.max is the word "max" if there is no limit
        limit, used = (int((cgroup / name).read_text()) for name in ("memory.max", "memory.current"))
        with suppress(OSError):
            stat = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
            used -= int(stat.get("inactive_file", 0))
        num_bytes = min(num_bytes, max(0, limit - used))
    return num_bytes


def resident_bytes(pid: int) -> int:
    """Return the memory of a process; 0 if unavailable."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0
