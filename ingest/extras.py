"""The command that installs an extra of privsieve into the environment in which it runs."""

import shlex
import sys
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

GPU_EXTRAS = ("vllm", "tune")


def install_command(extra: str) -> str:
    """A command line that installs the packages of an extra into the environment that runs privsieve.

    It names the packages themselves: `privsieve[extra]` would be looked up in a package index, which may not have it.
    """
    packages = shlex.join(sorted(_packages(extra)))
    # A checkout has the tested versions next to the rooms; an installed package does not.
    tested = Path(__file__).parents[1] / ("constraints-gpu.txt" if extra in GPU_EXTRAS else "constraints.txt")
    pins = f"-c {shlex.quote(str(tested))} " if tested.exists() else ""
    if (Path(sys.prefix) / "pipx_metadata.json").exists():
        return f"pipx inject privsieve {packages}"
    return f"{shlex.quote(sys.executable)} -m pip install {pins}{packages}"


def _packages(extra: str) -> set[str]:
    """Return the requirements of an extra and of the extras that it names; its own name if privsieve is not installed,
    as in a job whose workers only have its files."""
    from packaging.requirements import Requirement  # only errors need it

    try:
        needed = [Requirement(text) for text in requires("privsieve") or []]
    except PackageNotFoundError:
        return {f"privsieve[{extra}]"}
    packages = set[str]()
    for requirement in needed:
        if (
            requirement.marker is None
            or requirement.marker.evaluate({"extra": ""})
            or not requirement.marker.evaluate({"extra": extra})
        ):
            continue
        if requirement.name == "privsieve":
            packages |= {package for name in requirement.extras for package in _packages(name)}
        else:
            packages.add(f"{requirement.name}{requirement.specifier}")
    return packages
