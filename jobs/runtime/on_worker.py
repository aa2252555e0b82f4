"""Runs a function on a machine of the cluster that has what it needs: packages, weights, a GPU.

The machine where a command is started may be a light head without them. What the function finds comes back as data.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Generic, TypeVar

from ingest.errors import EngineError, PrivsieveError
from jobs.runtime.progress import Feedback

Found = TypeVar("Found")

NOTICE_AFTER_S = 120.0
"""Seconds without a machine after which a notice says what is waited for. Machines of a cloud start within minutes."""


@dataclass(frozen=True)
class OnWorker(Generic[Found]):
    """What a function returned, and where."""

    machine: str
    """Host name."""

    found: Found


def on_worker(
    function: Callable[[], Found], num_cpus: float, num_gpus: float, feedback: Feedback, waits: Callable[[str], None]
) -> OnWorker[Found]:
    """Runs `function` once in a Ray task; to be called inside of `ray_session`.

    waits: receives the phase, such as "waiting for a machine with 1 free GPU". A PrivsieveError of the function is
    raised here, with the machine's name. EngineError where the machine has another privsieve than this one, or none.
    """
    import ray

    remote = ray.remote(num_cpus=num_cpus, num_gpus=num_gpus, max_retries=3)
    wanted = f"a machine with {num_cpus:g} free CPU{_and_gpus(num_gpus)}"
    waits(f"waiting for {wanted}")
    identity = remote(_identity()).remote()
    if not _done_within(identity, NOTICE_AFTER_S):
        feedback.notice(
            f"waiting for {wanted}; if the cluster starts none, ask for less with --engine-cpus and --engine-gpus, or "
            "look at `ray status`"
        )
    machine, version, code = ray.get(identity)
    if code != code_hash():
        raise EngineError(_other_program(machine, version, code))
    waits(f"looking at machine {machine}")
    # A result or an error, since Ray would drop the cause of an exception.
    result = ray.get(remote(_caught).remote(function))
    if isinstance(result, PrivsieveError):
        raise type(result)(f"machine {machine}: {result}")
    return OnWorker(machine, result)


def _identity() -> Callable[[], tuple[str, str | None, str]]:
    """Returns a function that Ray sends as it is, so that it also runs where privsieve cannot be imported.

    It gives the machine's name, its version of privsieve and the hash of its code; without a version, what is wrong.
    """

    def identity() -> tuple[str, str | None, str]:
        import platform

        try:
            from jobs import hidden_room

            if hidden := hidden_room():
                return platform.node(), None, hidden
            from ingest import __version__
        except ImportError:
            return platform.node(), None, ""
        try:
            from jobs.runtime.on_worker import code_hash
        except ImportError:  # of an older version
            return platform.node(), __version__, ""
        return platform.node(), __version__, code_hash()

    return identity


def _caught(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except PrivsieveError as error:
        return error


def _done_within(task: Any, seconds: float) -> bool:
    import ray

    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:  # in steps, so that Ctrl-C is heard
        if ray.wait([task], timeout=1.0)[0]:
            return True
    return False


def _and_gpus(num_gpus: float) -> str:
    if not num_gpus:
        return ""
    return f" and {num_gpus:g} free GPU{'s' if num_gpus > 1 else ''}"


def _other_program(machine: str, version: str | None, code: str) -> str:
    """Why the program of the machine is not this one. code: what is wrong there, if it has no version."""
    from ingest import __version__

    if version is None and code:
        return f"machine {machine}: {code}"
    if version is None:
        return f"machine {machine} has no privsieve: install {__version__} there, as on the machine of this command"
    if version != __version__:
        return f"machine {machine} has privsieve {version}, and this command is of {__version__}: make them equal"
    return (
        f"machine {machine} has other code of privsieve {version} than this command: install the same on all machines"
    )


@cache
def code_hash() -> str:
    """Hash of the source files of the four rooms: tells the code of a working tree, which no version number does."""
    top = Path(__file__).parents[2]
    digest = sha256()
    for room in ("ingest", "scoring", "reports", "jobs"):
        for path in sorted((top / room).rglob("*")):
            if path.suffix in (".py", ".yaml", ".sql"):
                content = path.read_bytes()
                digest.update(f"{path.relative_to(top).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()
