"""How to install what an extra of privsieve adds, where this privsieve is installed."""

import shlex
import sys
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement


def install_command(extra: str) -> str:
    """A command line that installs the packages of an extra into the environment that runs privsieve.

    It names the packages themselves: `privsieve[extra]` would be looked up in a package index, which may not have it.
    """
    packages = shlex.join(sorted(_packages(extra)))
    if (Path(sys.prefix) / "pipx_metadata.json").exists():
        return f"pipx inject privsieve {packages}"
    return f"{shlex.quote(sys.executable)} -m pip install {packages}"


def _packages(extra: str) -> set[str]:
    """Requirements of an extra, those of extras that it names included. The extra's name if privsieve is not installed,
    as in a job whose workers only have its files."""
    try:
        needed = [Requirement(text) for text in requires("privsieve") or []]
    except PackageNotFoundError:
        return {f"privsieve[{extra}]"}
    found = set[str]()
    for one in needed:
        if one.marker is None or one.marker.evaluate({"extra": ""}) or not one.marker.evaluate({"extra": extra}):
            continue
        if one.name == "privsieve":
            found |= {package for name in one.extras for package in _packages(name)}
        else:
            found.add(f"{one.name}{one.specifier}")
    return found
