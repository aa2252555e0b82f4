"""Facts about this machine: how extras are installed in its environment, its cores and memory (exact on Linux only)."""

import math
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.abc import MetaPathFinder
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

GPU_EXTRAS = ("vllm", "tune")


@contextmanager
def default_variable(name: str, value: str) -> Iterator[None]:
    """Within the block, set an environment variable, unless the user has set it."""
    if name in os.environ:
        yield
        return
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]


def install_command(extra: str) -> str:
    """Return a command line that installs the packages of an extra into the environment that runs privsieve. It names
    the packages themselves: `privsieve[extra]` would be looked up in a package index, which may not have it."""
    packages = shlex.join(sorted(_packages(extra)))
    # A checkout has the tested versions next to the rooms; an installed package does not.
    tested = Path(__file__).parents[1] / ("constraints-gpu.txt" if extra in GPU_EXTRAS else "constraints.txt")
    pins = f"-c {shlex.quote(str(tested))} " if tested.exists() else ""
    if (Path(sys.prefix) / "pipx_metadata.json").exists():
        return f"pipx inject privsieve {packages}"
    return f"{shlex.quote(sys.executable)} -m pip install {pins}{packages}"


def _packages(extra: str) -> set[str]:
    """Return the requirements of an extra, with those it names; its own name if privsieve is not installed."""
    from packaging.requirements import Requirement  # only errors need it

    try:
        needed = [Requirement(text) for text in requires("privsieve") or []]
    except PackageNotFoundError:
        return {f"privsieve[{extra}]"}
    packages = set[str]()
    for requirement in needed:
        marker = requirement.marker
        if marker is None or marker.evaluate({"extra": ""}) or not marker.evaluate({"extra": extra}):
            continue
        if requirement.name == "privsieve":
            packages |= {package for name in requirement.extras for package in _packages(name)}
        else:
            packages.add(f"{requirement.name}{requirement.specifier}")
    return packages


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


def num_cores(cgroup: Path = CGROUP) -> int:
    """Return the number of cores that this process may use, as far as the system shows them: in a container, its time
    limit in whole cores (cpu.max of cgroup v2)."""
    number = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # cpu.max begins with the word "max" if there is no limit
        quota, period = map(int, (cgroup / "cpu.max").read_text().split())
        number = min(number, max(1, math.ceil(quota / period)))
    return number


def resident_bytes(pid: int) -> int:
    """Return the memory of a process; 0 if unavailable."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def family_bytes(pid: int) -> int:
    """Return the memory of a process and of all that it started; what they share counts for each."""
    num_bytes = resident_bytes(pid)
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            num_bytes += sum(family_bytes(int(child)) for child in file.read_text().split())
    return num_bytes


class _WithoutPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


def keep_pandas_away() -> None:
    """Let pyarrow find no pandas, which it would import to make its first array of a list. That takes longer than most
    commands, and Ctrl-C has no effect meanwhile. Who imports pandas later gets it."""
    import pyarrow as pa

    finder = _WithoutPandas()
    sys.meta_path.insert(0, finder)
    pa.array([None])
    sys.meta_path.remove(finder)
