"""Where the work of a command runs: in this process, or on Ray, which is started quietly and on the right cluster.

`ray` spreads the work over the machines of a cluster, or over the GPUs of one. `inline` does the same work with the
same results, without the seconds that Ray takes to start: for one machine (`jobs.runtime.processes`).

A bare `ray.init()` attaches to any cluster that it finds on the host. So the address is always given: "local" unless
--ray-address or RAY_ADDRESS names one. Inside `ray job submit` Ray itself sets RAY_ADDRESS.
"""

import logging
import os
import pickle
import re
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from ingest.errors import IncompleteError, PrivsieveError
from ingest.machine import default_variable, num_cores
from scoring.taxonomy import CARRIED_VARIABLES

Executor = Literal["ray", "inline"]
Answer = TypeVar("Answer")


def refuse_address(executor: Executor | None, ray_address: str | None) -> None:
    """Raise PrivsieveError if a cluster is named for work that is to stay in this process."""
    if executor == "inline" and ray_address is not None:
        raise PrivsieveError(
            "--executor inline works in this process and --ray-address names a cluster: leave one of them out"
        )


LOGICAL_CPUS_MIN = 4
"""Two logical CPUs would admit only one reader next to an actor; readers mostly wait, so they share the cores."""
CONNECT_LIMIT_S = 5.0
JOIN_LIMIT_S = 30.0
"""An attempt that fails after this time is the last one."""
JOIN_PAUSE_S = 2.0
LATE = "timed out during startup"
"""In the text of Ray's error if its node did not register in time."""
REASON_LENGTH = 200
"""Characters of Ray's own last line that are shown."""


def names_cluster(address: str | None) -> bool:
    """Return whether an option or `RAY_ADDRESS` says which Ray to use; inside of a submitted job Ray sets that."""
    return bool(address or os.environ.get("RAY_ADDRESS"))


def is_this_machine(address: str | None) -> bool:
    """Return whether `ray_session(address)` is of this machine alone."""
    return _resolved(address) == "local"


@contextmanager
def ray_session(address: str | None) -> Iterator[None]:
    """Run Ray for the length of the block: usage statistics off, its logs kept in its own folder. PrivsieveError if
    `address` (or RAY_ADDRESS) leads to no cluster that this process can join."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # without it Ray warns; no engine reads it
    # Ray would print the whole text of an error whose result is never asked for, such as one of its own statistics.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    # How many slices there are is known only after the pool has started.
    warnings.filterwarnings("ignore", message="The minimum number of concurrent actors")
    origin = "" if address or not os.environ.get("RAY_ADDRESS") else " (the variable RAY_ADDRESS)"
    address = _resolved(address)
    if address != "local":
        _check_answers(address, origin)
    import ray

    logging.getLogger("ray").setLevel(logging.ERROR)  # ray.init sets it, too, but warns of tokens before
    sigterm_before = signal.getsignal(signal.SIGTERM)
    with ExitStack() as session:
        session.enter_context(native_stderr_hidden())  # where C++ code writes
        session.callback(_shut_down)
        try:
            with _stdout_hidden():
                if address == "local":
                    _start()
                else:
                    with default_variable("RAY_gcs_server_port_wait_time_s", "1"):  # something answers already
                        _join(address)
                signal.signal(signal.SIGTERM, signal.default_int_handler)  # Ray's own handler would end silently
                _quiet()
                yield
        except BaseException as error:
            # A thread in which Ray Data reads ahead may ask Ray after its end, and Ray then ends the process: a command
            # writes its lines first.
            context = click.get_current_context(silent=True)
            if context is not None and (until_written := context.find_object(ExitStack)) is not None:
                until_written.push(session.pop_all())
            if isinstance(error, ray.exceptions.RayError):
                # The text of other libraries may hold content, so only the kind is shown. Expected failures travel as
                # data.
                raise IncompleteError(
                    f"a worker failed ({type(error).__name__}); run the same command again to continue"
                ) from None
            raise
        finally:
            signal.signal(signal.SIGTERM, sigterm_before or signal.SIG_DFL)


@contextmanager
def _stdout_hidden() -> Iterator[None]:
    """Hide the deaths of workers, which Ray prints to stdout whatever log_to_driver says."""
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        yield


def _shut_down() -> None:
    import ray

    with _stdout_hidden():
        ray.shutdown()


def _resolved(address: str | None) -> str:
    return address or os.environ.get("RAY_ADDRESS") or "local"


def _check_answers(address: str, origin: str) -> None:
    """Check that a head answers: Ray tries for minutes, silently. origin: what names the address, if no option does."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdecimal():
        raise PrivsieveError(
            f'Ray address "{address}"{origin}: wanted is HOST:PORT of a head (usually port 6379) or auto, on a '
            "machine of that cluster; from outside, submit the command with `ray job submit --address URL -- python -m "
            "jobs ...`"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_LIMIT_S).close()
    except (OSError, OverflowError) as error:
        raise PrivsieveError(
            f'Ray address "{address}"{origin}: nothing answers there ({error}); check --ray-address and RAY_ADDRESS'
        ) from None


def _start() -> None:
    """Start a Ray of this process's own; its node has 30 seconds to register, which a busy machine may exceed, so the
    next try finds the programs in the file cache. IncompleteError if it does not start."""
    num_cpus = max(LOGICAL_CPUS_MIN, 2 * num_cores())
    for tries_left in (2, 1, 0):
        try:
            with _loopback_only():
                _init("local", num_cpus=num_cpus, include_dashboard=False)
            return
        except Exception as error:  # Ray raises bare exceptions here
            if tries_left and LATE in str(error):
                continue
            raise IncompleteError(
                f"Ray did not start on this machine ({_reason(error)}); run the same command again if the machine was "
                "busy (scan and filter need no Ray with --executor inline)"
            ) from None


@contextmanager
def _loopback_only() -> Iterator[None]:
    """Make a Ray started inside listen on the loopback interface only, for which Ray has no public setting."""
    from ray._private import ray_constants

    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def _join(address: str) -> None:
    """Join a cluster. Try again if Ray gave up at once with a RuntimeError, as it does while the head is busy."""
    import ray

    begun_s = time.monotonic()
    while True:
        try:
            _init(address)
            return
        except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            ray.shutdown()
            refused = _refused(address, error)
            if refused is not None:
                raise refused from None
            if not isinstance(error, RuntimeError) or time.monotonic() - begun_s > JOIN_LIMIT_S:
                raise PrivsieveError(
                    f'Ray address "{address}": no cluster that this machine belongs to ({_reason(error)}); run the '
                    "command on a machine of the cluster or submit it with `ray job submit --address URL -- python -m "
                    "jobs ...`"
                ) from None
        time.sleep(JOIN_PAUSE_S)


def _init(address: str, num_cpus: int | None = None, include_dashboard: bool | None = None) -> None:
    import ray

    ray.init(
        address=address,
        num_cpus=num_cpus,
        include_dashboard=include_dashboard,
        log_to_driver=False,
        logging_level=logging.ERROR,
        job_config=_job_config(),
        runtime_env=_runtime_env(),
    )


def _job_config() -> Any:
    """Return where workers import from: the folder of this program, and not the one that the command is given in. Ray
    would put that one first, and a file in it with the name of a package would run in every worker. None for a
    submitted job, whose working directory is the program."""
    from ray.job_config import JobConfig

    if "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ:
        return None
    return JobConfig(_client_job=True, _py_driver_sys_path=[str(Path(__file__).resolve().parents[2])])


def _runtime_env() -> dict[str, Any] | None:
    """Return how workers get this process's taxonomy, in place of the file of a submitted job; None if published."""
    if not CARRIED_VARIABLES:
        return None
    os.environ["RAY_OVERRIDE_JOB_RUNTIME_ENV"] = "1"
    return {"env_vars": CARRIED_VARIABLES}


def _refused(address: str, error: Exception) -> PrivsieveError | None:
    """Return why the cluster will never let this process in, if Ray's own words show it."""
    text = f"{error} {error.__cause__}"
    if "Version mismatch" in text:
        theirs, ours = (" ".join(versions) for versions in re.findall(r"(Ray: \S+)\s+(Python: \S+)", text)[:2])
        return PrivsieveError(
            f'Ray address "{address}": the cluster runs {theirs}, this process {ours}; make them equal'
        )
    if "uthenticat" in text:
        return PrivsieveError(
            f'Ray address "{address}": the cluster refuses the token; set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH'
        )
    return None


def _reason(error: Exception) -> str:
    """Return kind and last line of an error of Ray's start, which knows addresses and paths but no image yet."""
    last_line = " ".join(str(error).strip().rpartition("\n")[2].split())
    shown = last_line if len(last_line) <= REASON_LENGTH else f"{last_line[:REASON_LENGTH]}…"
    return f"{type(error).__name__}: {shown}"


def _quiet() -> None:
    import ray.data

    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    # One row per block: a slice is a unit of work, and blocks of several would go to one actor together.
    context.target_max_block_size = 1


MAX_BLOCKS = 1000


def each_on_ray(
    work: Callable[[int], Answer], num: int, num_cpus: float | None = None
) -> Generator[Answer, None, None]:
    """Yield what `work` gives for each number below `num`, as it is done. Call this inside `ray_session`. work: must
    not raise, since an exception would arrive without its message."""
    import ray.data

    def worked(row: dict[str, Any]) -> dict[str, Any]:
        return {"answer": pickle.dumps(work(int(row["number"])))}

    numbers = ray.data.from_items([{"number": n} for n in range(num)], override_num_blocks=min(num, MAX_BLOCKS))
    for row in numbers.map(worked, num_cpus=num_cpus).iter_rows():
        yield pickle.loads(row["answer"])


_hiding = threading.Lock()
_num_hiding = 0


@contextmanager
def native_stderr_hidden() -> Iterator[None]:
    """Hide what C++ code writes to file descriptor 2, which no user can act on; Python's own stderr stays. If several
    threads have such a block, the first hides it for all, and it is shown again when that block ends."""
    global _num_hiding
    with _hiding:
        is_first = _num_hiding == 0
        _num_hiding += 1
    try:
        with _hidden() if is_first else nullcontext():
            yield
    finally:
        with _hiding:
            _num_hiding -= 1


@contextmanager
def _hidden() -> Iterator[None]:
    shown, python_stderr = os.dup(2), sys.stderr
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        if python_stderr is sys.__stderr__:
            sys.stderr = os.fdopen(os.dup(shown), "w", buffering=1)
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(shown, 2)
        os.close(shown)
        os.close(nowhere)
        if sys.stderr is not python_stderr:
            sys.stderr.close()
            sys.stderr = python_stderr


@contextmanager
def inline_session() -> Iterator[None]:
    """Hide what image libraries write about damaged files to stderr within the block, from Python and from C."""
    with native_stderr_hidden(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


@contextmanager
def command_session() -> Iterator[None]:
    """Let SIGTERM interrupt a command as Ctrl-C does. Functions that other programs call leave signals alone."""
    sigterm_before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, sigterm_before or signal.SIG_DFL)
