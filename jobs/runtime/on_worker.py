"""Runs a function on a machine of the cluster that has what it needs: packages, weights, a GPU.

The machine where a command is started may be a light head without them. What the function finds comes back as data.
"""

import math
import pickle
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeVar

from ingest import __version__
from ingest.errors import EngineError, PrivsieveError
from jobs.runtime.machines import refuse_without_room
from jobs.runtime.progress import SILENT, Feedback, Meter, weights_shown
from scoring.assessment import EngineOptions
from scoring.engines import engine_module
from scoring.taxonomy import TAXONOMY
from scoring.weights.sources import find_weights

Found = TypeVar("Found")

NOTICE_AFTER_S = 120.0
"""Seconds without a machine until a notice says what is waited for. Machines of a cloud start within minutes."""

SAY_EVERY_S = 1.0


@dataclass(frozen=True)
class Said:
    """A line of a function that is still at work."""

    text: str

    is_notice: bool = False
    """Whether the user should read it although the work goes on; else it says what is being prepared."""

    is_logged: bool = True
    """Whether a log gets a line, too."""


class _Relay(Meter):
    """Passes on what is being prepared."""

    def __init__(self, said: SimpleQueue[Said]):
        super().__init__("weights", None, time.monotonic)
        self._said = said

    def phase(self, text: str, *, is_logged: bool = True) -> None:
        self._said.put(Said(text, is_logged=is_logged))


@dataclass(frozen=True)
class OnWorker(Generic[Found]):
    """What a function returned, and where."""

    machine: str
    """Host name."""

    found: Found


def on_worker(
    function: Callable[[], Found],
    num_cpus: float,
    num_gpus: float,
    feedback: Feedback,
    meter: Meter,
    limit_s: float = math.inf,
    before: Callable[[], Iterator[Said]] | None = None,
) -> OnWorker[Found]:
    """Run `function` once in a Ray task. Call this inside `ray_session`.

    meter: shows the phase, such as "waiting for a machine with 1 free GPU". before: what the same task does first; what
    it yields is shown. A PrivsieveError of either is raised here, with the machine's name. EngineError if the machine
    has another privsieve than this one, or none, or if the process of the task ended. PrivsieveError if no machine has
    what is asked for and none will come, or none came within `limit_s` seconds.
    """
    import ray

    # A process that ends may have been on a machine that was taken away, so it is tried once more.
    options = {"num_cpus": num_cpus, "num_gpus": num_gpus, "max_retries": 1, "num_returns": "streaming"}
    task = ray.remote(**options)(said_and_result).remote(program(), ray.cloudpickle.dumps((before, function)))
    machine = "of the cluster"
    try:
        _await(task, num_cpus, num_gpus, limit_s, feedback, meter)
        machine = ray.get(next(task))
        meter.phase(f"looking at machine {machine}")
        while True:
            while not _is_ready(task):
                pass
            item = ray.get(next(task))
            if isinstance(item, PrivsieveError):  # returned, since Ray would drop the cause of an exception
                raise type(item)(f"machine {machine}: {item}")
            if not isinstance(item, Said):
                return OnWorker(machine, item)
            if item.is_notice:
                feedback.notice(f"machine {machine}: {item.text}")
            else:
                meter.phase(f"machine {machine}: {item.text}", is_logged=item.is_logged)
    except ray.exceptions.RayError as error:
        raise EngineError(
            f"machine {machine}: the process that checked it failed ({type(error).__name__}), for example because it "
            f"has no privsieve {__version__}, memory ran out or the engine crashed; Ray keeps what it wrote there "
            "below /tmp/ray/session_latest/logs"
        ) from None


def _await(task: Any, num_cpus: float, num_gpus: float, limit_s: float, feedback: Feedback, meter: Meter) -> None:
    """Wait for a machine."""
    gpus = f" and {num_gpus:g} free GPU{'s' if num_gpus > 1 else ''}" if num_gpus else ""
    wanted = f"a machine with {num_cpus:g} free CPU{gpus}"
    meter.phase(f"waiting for {wanted}")
    begun_s, is_told = time.monotonic(), False
    while not _is_ready(task):
        refuse_without_room(num_cpus, num_gpus)
        waited_s = time.monotonic() - begun_s
        if waited_s > limit_s:
            raise EngineError(
                f"{wanted} did not come within {limit_s / 60:.0f} min; `ray status` shows what the cluster waits for"
            )
        if waited_s > NOTICE_AFTER_S and not is_told:
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


def said_and_result(wanted: Program, functions: bytes) -> Iterator[Any]:
    """Yield this machine's name, what `before` says, and what the function returns, or the PrivsieveError that one of
    them raises. functions: `before` and the function, pickled, since another program may not know them."""
    yield platform.node()
    try:
        if why := other_program(wanted):
            raise EngineError(why)
        before, function = pickle.loads(functions)
        if before is not None:
            yield from before()
        yield function()
    except PrivsieveError as error:
        yield error


def fetch_with_progress(engine: str, options: EngineOptions, *, with_weights: bool = True) -> Iterator[Said]:
    """Fetch the model and the adapter to this machine, and yield how far it is. Does nothing for other engines.

    with_weights: else only the small files of a model of the hub are fetched. EngineError or StorageError if they
    cannot be fetched.
    """
    if engine_module(engine).requirements(options).local_model is None:
        return
    said = SimpleQueue[Said]()
    errors: list[PrivsieveError] = []

    def fetch() -> None:
        try:
            with weights_shown(Feedback(SILENT.meter, lambda line: said.put(Said(line, is_notice=True))), _Relay(said)):
                for given, what in ((options.model, "model"), (options.adapter, "adapter")):
                    if given is not None:
                        find_weights(given, what, with_weights=with_weights)
        except PrivsieveError as error:  # raised again in the thread that waits; others, by the engine itself
            errors.append(error)

    # Only the fetch has a thread of its own: engines may need the main thread, for signals.
    thread = Thread(target=fetch, daemon=True)
    thread.start()
    while thread.is_alive() or not said.empty():
        thread.join(SAY_EVERY_S)
        lines = [said.get() for _ in range(said.qsize())]
        yield from (line for line in lines if line.is_notice or line.is_logged or line is lines[-1])
    if errors:
        raise errors[0]


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
