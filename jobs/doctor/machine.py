"""Python, packages, memory and disk of this machine."""

import os
import platform
import posixpath
import shutil
import tempfile
from importlib.metadata import PackageNotFoundError, metadata, requires
from importlib.metadata import version as package_version

from packaging.requirements import Requirement

from ingest.extras import install_command
from ingest.storage.place import Place, place
from jobs.doctor.findings import ProblemError
from scoring.memory import available_bytes

GIB = 2**30
MIN_MEMORY_BYTES = 2 * GIB
MIN_SHARED_BYTES = GIB
MIN_DISK_BYTES = GIB


def check_python() -> str:
    return f"{platform.python_version()} on {platform.system()} {platform.machine()}"


def check_packages(extra: str | None) -> str:
    """Everything that privsieve needs, and what its extra adds."""
    known_extra = extra if extra in (metadata("privsieve").get_all("Provides-Extra") or []) else ""
    num_fitting, wrong = 0, []
    for needed in map(Requirement, requires("privsieve") or []):
        if needed.marker is not None and not needed.marker.evaluate({"extra": known_extra or ""}):
            continue
        found = installed_version(needed.name)
        if found is not None and needed.specifier.contains(found, prereleases=True):
            num_fitting += 1
        else:
            wrong.append(f"{needed.name} is {found or 'not installed'}, wanted {needed.specifier}")
    if wrong:
        how = install_command(known_extra) if known_extra else "install privsieve again"
        raise ProblemError(f"{'; '.join(wrong)}: {how}")
    return f"privsieve {package_version('privsieve')} and the {num_fitting} packages that it needs"


def installed_version(package: str) -> str | None:
    try:
        return package_version(package)
    except PackageNotFoundError:
        return None


def check_memory(model_bytes: int) -> str:
    """model_bytes: of a model that runs on the CPU."""
    free, needed = available_bytes(), max(MIN_MEMORY_BYTES, model_bytes)
    found = f"{free / GIB:.1f} GiB available, {needed / GIB:.1f} GiB wanted for one engine"
    if free < needed:
        raise ProblemError(f"{found}; end other programs or take a larger machine")
    return found


def check_shared_memory() -> str:
    if not os.path.isdir("/dev/shm"):
        return "this system has none"
    free = shutil.disk_usage("/dev/shm").free
    if free < MIN_SHARED_BYTES:
        raise ProblemError(f"{free / GIB:.2f} GiB free, Ray wants 1 GiB; with Docker: --shm-size=2g")
    return f"{free / GIB:.1f} GiB free"


def check_disk(run_url: str | None) -> str:
    """Where Ray keeps its logs, and where the run is if that is on this machine."""
    folders = [os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()]
    run = None if run_url is None else place(run_url)
    if run is not None and run.is_local:
        folders.append(_nearest_folder(run))
    for folder in folders:
        usage = shutil.disk_usage(folder)
        if usage.free < max(MIN_DISK_BYTES, usage.total // 20):
            raise ProblemError(
                f"{folder}: {usage.free / GIB:.1f} of {usage.total / GIB:.0f} GiB free, and Ray wants a twentieth; "
                "free some, or set RAY_TMPDIR"
            )
    return ", ".join(f"{folder}: {shutil.disk_usage(folder).free / GIB:.0f} GiB free" for folder in folders)


def _nearest_folder(run: Place) -> str:
    folder = run.path
    while not os.path.isdir(folder):
        folder = posixpath.dirname(folder)
    return folder
