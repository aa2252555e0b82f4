"""The Ray that a command starts for itself: what its workers import, and who can reach it."""

import os
import subprocess
import sys
from pathlib import Path

from tests.clusters.demo import CORPUS, ROOT

PRIVSIEVE = "from jobs.__main__ import main; main()"
LISTENS_AND_FAILS_UNHEARD = """
import threading
from jobs.runtime.cluster import ray_session
with ray_session("local"):
    import psutil, ray  # Ray's own psutil
    mine = [psutil.Process(), *psutil.Process().children(recursive=True)]
    sockets = [socket for process in mine for socket in process.net_connections("inet")]
    addresses = sorted({socket.laddr.ip for socket in sockets if socket.status == psutil.CONN_LISTEN})
    worker, is_there = ray._private.worker.global_worker, threading.Event()
    shows = worker.raise_errors
    worker.raise_errors = lambda *errors: (shows(*errors), is_there.set())
    @ray.remote
    def fails():
        raise ValueError("words of a picture")
    fails.remote()
    assert is_there.wait(600)
print(*addresses)
"""

STARTS_LATE = """
import time
from types import SimpleNamespace
from ray._private import node, services
from jobs.runtime import cluster
starts, init, get_node = [], cluster._init, services.get_node
cluster._init = lambda *address, **more: (starts.append(1), init(*address, **more))
def knows_the_second(*arguments):
    if len(starts) < 2:
        raise RuntimeError("the node did not register")
    return get_node(*arguments)
services.get_node = knows_the_second
node.time = SimpleNamespace(**{**vars(time), "monotonic": lambda: (30 if len(starts) < 2 else 1) * time.monotonic()})
with cluster.ray_session("local"):
    pass
print(len(starts))
"""


def python(code: str, *arguments: object, folder: Path) -> "subprocess.CompletedProcess[str]":
    """As the command `privsieve` runs: nothing is imported from the folder that it is given in."""
    path = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    return subprocess.run(
        [sys.executable, "-P", "-c", path + code, *map(str, arguments)],
        cwd=folder,
        env={name: text for name, text in os.environ.items() if name != "RAY_ADDRESS"},
        capture_output=True,
        text=True,
        timeout=1500,
    )


def test_nothing_in_the_folder_of_the_command_is_run(tmp_path: Path) -> None:
    here = tmp_path / "here"
    for name in ("jobs", "scoring", "ingest"):
        (here / name).mkdir(parents=True)
    for name in ("scoring/__init__.py", "ingest/__init__.py", "simplejpeg.py", "PIL.py"):
        (here / name).write_text(f"open({str(tmp_path / 'was_run')!r}, 'w')")
    scan = ("scan", CORPUS, "--run", tmp_path / "run", "--engine", "canned", "--quiet", "--num-engines", "1")
    done = python(PRIVSIEVE, *scan, folder=here)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("31 images in 2 of 2 shards: 27 scored, 4 quarantined")
    assert not (tmp_path / "was_run").exists()


def test_a_ray_that_does_not_register_in_time_is_started_again(tmp_path: Path) -> None:
    done = python(STARTS_LATE, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout in ("2\n", "3\n"), "a busy machine may be late a second time"


def test_a_ray_that_does_not_start_is_one_line_with_rays_own_reason(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)  # too long for the sockets of Ray
    deep.mkdir()
    more = f"import os; os.environ['RAY_TMPDIR'] = {str(deep)!r}\n"
    scan = ("scan", CORPUS, "--run", tmp_path / "run", "--engine", "canned", "--quiet", "--executor", "ray")
    done = python(more + PRIVSIEVE, *scan, folder=tmp_path)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert "Ray did not start on this machine (OSError: validate_socket_filename failed" in done.stderr
    assert done.stderr.endswith("busy (scan and filter need no Ray with --executor inline)\n")
    assert list((tmp_path / "run").iterdir()) == []


def test_it_listens_on_the_loopback_interface_only_and_shows_no_text_of_an_error_that_nobody_waits_for(
    tmp_path: Path,
) -> None:
    done = python(LISTENS_AND_FAILS_UNHEARD, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    [line] = done.stdout.splitlines()
    addresses = line.split()
    assert addresses
    assert not [address for address in addresses if address.removeprefix("::ffff:") != "127.0.0.1"]
