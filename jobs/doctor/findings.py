"""What a check found."""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError

from ingest.errors import PrivsieveError


class ProblemError(Exception):
    """What is wrong and what to do, in one line."""


@dataclass(frozen=True)
class Finding:
    check: str
    """Name of the check, a word."""

    is_ok: bool

    text: str
    """What was found; of a problem, also what to do."""


def finding(name: str, check: Callable[[], str]) -> Finding:
    """Runs a check."""
    try:
        return Finding(name, True, check())
    except (ProblemError, PrivsieveError) as error:
        return Finding(name, False, str(error))
    except (OSError, subprocess.SubprocessError, PackageNotFoundError) as error:
        return Finding(name, False, f"could not be checked ({type(error).__name__})")
