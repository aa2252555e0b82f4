"""Ray nodes on this machine, on ports and in a folder of their own, for tests that do not ask how Ray is started.

`ray stop` would end every cluster of the machine, so the processes started here are ended by their process group.
"""

import json
import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from scoring.sql.limits import is_left_behind
from tests.making import Folders, Patch

# How long an example takes says more about the machine than about the code. The same examples each time: a test that
# fails does so because of the change at hand.
settings.register_profile("any machine", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# Answers must not depend on a program that this machine may have.
os.environ.setdefault("PRIVSIEVE_TESSERACT", "")

# As commands do, before NumPy is loaded: see `jobs.cli.main`.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A process keeps the first token that Ray sees in it, so this one must stand before any session of the tests.
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(20))

# Where the tests run in the background, as with nohup, SIGINT is ignored, here and in each process that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Only a power cut could lose what was written, and no test makes one.
os.fsync = lambda fd: None

NODE_OPTIONS = (
    *("--object-store-memory", "100000000", "--min-worker-port", "0", "--max-worker-port", "0"),
    *("--dashboard-agent-listen-port", "0", "--include-log-monitor", "false"),
)
"""Of test nodes, several of which share this machine. Without a log monitor, whose lines our commands hide anyway."""

NODE_LIMITS = {"RAY_health_check_timeout_ms": "300000", "RAY_worker_register_timeout_seconds": "1500"}
"""A busy machine is not a lost one. Processes that have ended are noticed without these limits."""

START_LIMIT_S = 1500.0
START_TRIES = 3

STARTING_RAY = ("clusters",)
"""Folders of which every test is marked `ray`."""


def _may_start_ray(file: Path) -> bool:
    return file.parent.name in STARTING_RAY or "mark.ray" in file.read_text()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """If only tests of Ray are wanted, leave out the other files: each process would spend 8 s on importing them."""
    wanted = config.getoption("markexpr")
    is_only_ray = "ray" in wanted.split(" and ") and " or " not in wanted
    is_left_out = is_only_ray and collection_path.match("test_*.py") and not _may_start_ray(collection_path)
    return True if is_left_out else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name in STARTING_RAY:
            item.add_marker(pytest.mark.ray)
        elif item.get_closest_marker("ray") is not None and not _may_start_ray(item.path):
            raise pytest.UsageError(f"{item.nodeid}: the mark `ray` must be in its own file, or `-m ray` leaves it out")


HEAD_CPUS = 2
"""One engine, unless --num-engines says two. Each further engine takes 2 s of CPU time to start."""

GROUP = '("$@"; kill -KILL 0) & read -r _; kill -KILL 0'
"""A shell that ends its process group when the command ends, or the process at the other end of its input."""


def free_ports(count: int) -> list[int]:
    """Free ports below the range of outgoing connections (32,768 and up), so that none of those takes one before it is
    used, and above those of Ray's workers."""
    ports = list[int]()
    with ExitStack() as held:
        while len(ports) < count:
            port = 20_000 + secrets.randbelow(12_000)
            with suppress(OSError):
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
                ports.append(port)
    return ports


@pytest.fixture(autouse=True)
def without_a_width(monkeypatch: Patch) -> None:
    """Tables are as wide as they need, also where pytest-xdist gives its workers the width of a terminal."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """A command that fails while a stopped statement still runs ends its process, here that of the tests."""
    yield
    while is_left_behind():
        time.sleep(0.05)


@contextmanager
def ray_node(
    options: list[str],
    environment: Mapping[str, str],
    log: Path,
    python: str = sys.executable,
    folder: Path | None = None,
) -> Iterator[Callable[[], None]]:
    """`ray start` with these options until the block ends, or the function is called, which kills it; entered once the
    node says that it runs. folder: that of the process, from which jobs may import."""
    node = _started_node(options, environment, log, python, folder)
    try:
        yield partial(_end, node)
    finally:
        _end(node)


def _started_node(
    options: list[str], environment: Mapping[str, str], log: Path, python: str, folder: Path | None
) -> subprocess.Popen[bytes]:
    """Tried again where Ray gives up by itself: it waits 30 s for its own parts, which a busy machine may need."""
    command = [python, "-m", "ray.scripts.scripts", "start", "--block", *NODE_OPTIONS, *options]
    if "--head" in options:
        command += ["--ray-client-server-port", str(free_ports(1)[0])]
    for _ in range(START_TRIES):
        with log.open("wb") as output:
            node = subprocess.Popen(
                ["sh", "-c", GROUP, "ray", *command],
                cwd=folder,
                env=NODE_LIMITS | dict(environment),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        limit_s = time.monotonic() + START_LIMIT_S
        while node.poll() is None and time.monotonic() < limit_s:
            if b"Ray runtime started" in log.read_bytes():
                return node
            time.sleep(0.1)
        _end(node)
    raise RuntimeError(f"the node did not start:\n{log.read_text()[-3000:]}")


def _end(node: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):  # it has ended by itself
        os.killpg(node.pid, signal.SIGKILL)
    node.communicate()


@contextmanager
def ray_folder() -> Iterator[Path]:
    """Not pytest's own folder: the path of a Unix socket is at most 107 bytes long."""
    folder = Path(tempfile.mkdtemp(prefix="ray-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def ray_head(more: Mapping[str, str], num_cpus: int = HEAD_CPUS) -> Iterator[str]:
    """The address of a head of its own. Workers have its environment, not that of who joins: `more` is added to ours.

    It ends by itself what it started: tests that kill processes of Ray look among those of their own scan or cluster.
    """
    (port,) = free_ports(1)
    environment = {name: text for name, text in os.environ.items() if name != "RAY_ADDRESS"} | dict(more)
    environment["RAY_USAGE_STATS_ENABLED"] = "0"
    with ray_folder() as folder:
        options = ["--head", "--num-cpus", str(num_cpus), "--temp-dir", str(folder), "--port", str(port)]
        options += ["--include-dashboard", "false"]
        with ray_node(options, environment, folder / "head.log"):
            yield f"127.0.0.1:{port}"


@pytest.fixture(scope="session")
def _drills(tmp_path_factory: Folders) -> Path:
    return tmp_path_factory.mktemp("drills") / "drill.json"


@pytest.fixture(scope="session")
def head(_drills: Path) -> Iterator[str]:
    """The address of a head for all tests that need nothing of it but that it runs, and at most a drill."""
    _drills.write_text("{}")
    with ray_head({"PRIVSIEVE_DRILL": str(_drills)}) as address:
        yield address


@pytest.fixture
def joining_head(head: str) -> Iterator[None]:
    """The test joins the head."""
    with joined(head):
        yield


GiveDrill = Callable[[Mapping[str, object]], None]


@pytest.fixture
def drill_of_head(head: str, _drills: Path) -> Iterator[GiveDrill]:
    """Gives a drill to the engines that the head starts from then on, until the test ends."""

    def give(drill: Mapping[str, object]) -> None:
        _drills.write_text(json.dumps(drill))

    yield give
    give({})


@contextmanager
def joined(address: str) -> Iterator[None]:
    """Scans and filters of the block, and of processes that it starts, join the head at this address."""
    from ray._private.authentication.authentication_token_setup import enable_token_auth_by_default

    logging.getLogger("ray").setLevel(logging.ERROR)  # it warns of the token
    enable_token_auth_by_default()  # as a Ray of one's own does; who joins has to, and Ray may be imported already
    with pytest.MonkeyPatch.context() as changed:
        changed.setenv("RAY_ADDRESS", address)
        yield
