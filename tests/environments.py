"""Environments that already hold the packages, with pins, that a command of the docs would download.

uv links them from its cache in seconds; pip would take more than a minute of CPU time. What such a command still does
is check that all are there, and build and install the project.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

BUILDS_HERE = {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_BUILD_ISOLATION": "0"}
"""Settings with which pip fetches nothing. It reads the last as --no-build-isolation: it builds with the setuptools
that is there."""


def make_environment(folder: Path, *extras: str) -> None:
    """Make a virtual environment with pip, setuptools and the pinned packages that these extras need."""
    uv = [str(Path(sys.executable).with_name("uv")), "--quiet", "--system-certs"]
    subprocess.run([*uv, "venv", "--seed", "--python", sys.executable, folder], check=True)
    named = ["setuptools>=77", "-r", "pyproject.toml", *(f"--extra={extra}" for extra in extras)]
    pip = [*uv, "pip", "install", "--python", str(folder / "bin" / "python"), "-c", "constraints.txt"]
    subprocess.run([*pip, *named], cwd=ROOT, check=True)
