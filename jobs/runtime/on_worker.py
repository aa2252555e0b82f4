"""Runs a function on a machine of the cluster that has what it needs: packages, weights, a GPU. The machine where a
command is started may be a light head without them. What the function finds comes back as data."""

import pickle
import platform
import time
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

from ingest import __version__
from ingest.errors import EngineError, PrivsieveError
from jobs.runtime.progress import Feedback, Meter
from scoring.taxonomy import TAXONOMY

Found = TypeVar("Found")

NOTICE_AFTER_S = 120.0
"""Seconds without a machine until a notice says what is waited for. Machines of a cloud start within minutes."""


def on_worker(
    function: Callable[[], Found], num_cpus: float, num_gpus: float, feedback: Feedback, meter: Meter
) -> Found:
    """Run `function` once in a Ray task, and return what it returns. Call this inside `ray_session`.

    meter: shows the phase, such as "waiting for a machine with 1 free GPU". A PrivsieveError of the function is raised
    here, with the machine's name. EngineError if the machine has another privsieve than this one, or none, or if the
    process of the task ended.
    """
    import ray

    # A process that ends may have been on a machine that was taken away, so it is tried once more.
    options = {"num_cpus": num_cpus, "num_gpus": num_gpus, "max_retries": 1, "num_returns": "streaming"}
    task = ray.remote(**options)(machine_and_result).remote(program(), ray.cloudpickle.dumps(function))
    machine = "of the cluster"
    try:
        _await(task, num_cpus, num_gpus, feedback, meter)
        machine = ray.get(next(task))
        meter.phase(f"looking at machine {machine}, which fetches what it needs")
        while not _is_ready(task):
            pass
        result = ray.get(next(task))
    except ray.exceptions.RayError as error:
        raise EngineError(
            f"machine {machine}: the process that checked it failed ({type(error).__name__}), for example because it "
            f"has no privsieve {__version__}, memory ran out or the engine crashed; Ray keeps what it wrote there "
            "below /tmp/ray/session_latest/logs"
        ) from None
    if isinstance(result, PrivsieveError):  # returned, since Ray would drop the cause of an exception
        raise type(result)(f"machine {machine}: {result}")
    return cast(Found, result)


def _await(task: Any, num_cpus: float, num_gpus: float, feedback: Feedback, meter: Meter) -> None:
    gpus = f" and {num_gpus:g} free GPU{'s' if num_gpus > 1 else ''}" if num_gpus else ""
    wanted = f"a machine with {num_cpus:g} free CPU{gpus}"
    meter.phase(f"waiting for {wanted}")
    begun_s, is_told = time.monotonic(), False
    while not _is_ready(task):
        if time.monotonic() - begun_s > NOTICE_AFTER_S and not is_told:
            is_told = True
            feedback.notice(
                f"waiting for {wanted}; if the cluster starts none, ask for less with --engine-cpus and --engine-gpus, "
                "or look at `ray status`"
            )


def _is_ready(task: Any) -> bool:
    """Return whether the task has given something more. Waits for at most a second, so that Ctrl-C works in between."""
    import ray

    return bool(ray.wait([task], timeout=1.0)[0])


Program = tuple[str, str, str]
"""Version, code hash and taxonomy of this process's program."""


def program() -> Program:
    return __version__, code_hash(), TAXONOMY.version


def other_program(wanted: Program) -> str:
    """Return why this machine's program is not the one of the command; empty if it is."""
    version, code, taxonomy = program()
    if version != wanted[0]:
        return f"it has privsieve {version}, and the command is of {wanted[0]}: make them equal"
    if code != wanted[1]:
        return f"it has other code of privsieve {version} than the command: install the same on all machines"
    if taxonomy != wanted[2]:
        return (
            f"it uses the taxonomy {taxonomy}, and the command {wanted[2]}: unset PRIVSIEVE_TAXONOMY on the machine, "
            "which gets the taxonomy of the command"
        )
    return ""


def machine_and_result(wanted: Program, function: bytes) -> Iterator[Any]:
    """Yield this machine's name, and what the function returns or the PrivsieveError that it raises. function: pickled,
    since another program may not know it."""
    yield platform.node()
    try:
        if why := other_program(wanted):
            raise EngineError(why)
        yield pickle.loads(function)()
    except PrivsieveError as error:
        yield error


@cache
def code_hash() -> str:
    """Return the hash of the source files of the four rooms, word lists included: it tells working trees apart, unlike
    a version."""
    top = Path(__file__).parents[2]
    digest = sha256()
    for room in ("ingest", "scoring", "reports", "jobs"):
        for path in sorted((top / room).rglob("*")):
            if path.suffix in (".py", ".yaml", ".sql", ".txt"):
                content = path.read_bytes()
                digest.update(f"{path.relative_to(top).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()
