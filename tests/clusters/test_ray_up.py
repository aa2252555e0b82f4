"""`cluster.yaml` brought up by `ray up` over ssh, with its own commands for a head, and taken down again.

Its machine is this one: an sshd that sees no processes of anybody else (`ray stop`, with which the commands begin, ends
each Ray that it sees), on a network of its own, so that Ray's fixed ports are free. What is changed of the file: the
provider, the login, and the types of machine, of which Ray knows none here; so there is a head and no worker. The
packages are there before, since that network leads nowhere.
"""

import getpass
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.clusters.demo import rows_of
from tests.conftest import ray_folder
from tests.environments import BUILDS_HERE, make_environment

ROOT = Path(__file__).parent.parent.parent
SSHD = Path("/usr/sbin/sshd")
ADDRESS = "127.0.0.1"

LOOPBACK_UP = """
import fcntl, socket, struct
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh", b"lo", 0x41))  # SIOCSIFFLAGS: up, running
"""

SSHD_CONFIG = """
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
SetEnv HOME={folder}/head
StrictModes no
UsePAM no
PidFile none
"""

PROFILE = """
export PATH={python_folder}:$PATH RAY_TMPDIR={folder}/head-ray
export {settings}
"""


@dataclass(frozen=True)
class Machine:
    folder: Path
    network: int
    """Process whose network they have."""

    environment: dict[str, str]
    """Of the user who calls `ray up`."""

    def run(self, *command: object, timeout_s: float = 1500) -> "subprocess.CompletedProcess[str]":
        """Runs a command as that user, from the root of the checkout."""
        inside = ["nsenter", f"--net=/proc/{self.network}/ns/net", *map(str, command)]
        return subprocess.run(
            inside,
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def ray(self, *arguments: object) -> "subprocess.CompletedProcess[str]":
        return self.run(sys.executable, "-m", "ray.scripts.scripts", *arguments)


@pytest.fixture
def machine() -> Iterator[Machine]:
    missing = [name for name in ("ssh", "ssh-keygen", "rsync", "unshare", "nsenter") if shutil.which(name) is None]
    if not SSHD.exists() or missing:
        pytest.skip(
            f"needs {', '.join([*([] if SSHD.exists() else ['sshd']), *missing])}: apt-get install openssh-server rsync"
        )
    if os.geteuid() != 0:
        pytest.skip("needs root, for machine with processes and a network of their own")
    if subprocess.run(["unshare", "--net", "--pid", "--fork", "--mount-proc", "true"], check=False).returncode:
        pytest.skip("this system allows no processes with a network of their own (unshare)")
    started: list[subprocess.Popen[bytes]] = []
    with ray_folder() as folder:
        try:
            yield _started_machine(folder, started)
        finally:
            for process in started:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _started_machine(folder: Path, started: "list[subprocess.Popen[bytes]]") -> Machine:
    (folder / "head").mkdir()
    make_environment(folder / "head" / "venv", "detectors", "cluster", "s3", "aws")
    for key in ("key", "host_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)], check=True)
    Path("/run/sshd").mkdir(exist_ok=True)

    def start(*command: str) -> int:
        started.append(subprocess.Popen(command, start_new_session=True))
        return started[-1].pid

    values = {"folder": folder, "address": ADDRESS, "python_folder": Path(sys.executable).parent}
    values["settings"] = " ".join(f"{name}={value}" for name, value in BUILDS_HERE.items())
    (folder / "head" / ".profile").write_text(PROFILE.format(**values))
    (folder / "head" / ".bashrc").write_text("")
    (folder / "sshd.conf").write_text(SSHD_CONFIG.format(**values))
    up = f'"{sys.executable}" -c "$1" && touch {folder}/network && exec sleep infinity'
    network = start("unshare", "--net", "sh", "-c", up, "sh", LOOPBACK_UP)
    while not (folder / "network").exists():
        time.sleep(0.1)
    own = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    start("nsenter", f"--net=/proc/{network}/ns/net", *own, str(SSHD), "-D", "-f", str(folder / "sshd.conf"))
    (folder / "user").mkdir()
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("RAY_", "PIP_"))}
    environment |= {
        "HOME": str(folder / "user"),
        "RAY_TMPDIR": str(folder / "user-ray"),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return Machine(folder, network, environment)


def _cluster_file(folder: Path) -> Path:
    cluster = yaml.safe_load((ROOT / "cluster.yaml").read_text())
    for name in ("available_node_types", "head_node_type"):
        del cluster[name]
    cluster["provider"] = {"type": "local", "head_ip": ADDRESS, "worker_ips": []}
    cluster["auth"] = {"ssh_user": getpass.getuser(), "ssh_private_key": str(folder / "key")}
    cluster["max_workers"] = 0
    file = folder / "cluster.yaml"
    file.write_text(yaml.safe_dump(cluster))
    return file


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_shipped_commands_bring_a_cluster_up_that_scans(machine: Machine, tmp_path: Path) -> None:
    file = _cluster_file(machine.folder)
    token = machine.ray("get-auth-token", "--generate")
    assert token.returncode == 0, token.stdout
    up = machine.ray("up", "-y", file)
    assert up.returncode == 0, up.stdout[-6000:]
    try:
        machine.environment["RAY_AUTH_MODE"] = "token"
        corpus, run = ROOT / "jobs" / "demo" / "corpus" / "shards", tmp_path / "run"
        submit = ["job", "submit", "--address", "http://127.0.0.1:8265", "--working-dir", ".", "--"]
        command = f"python -m jobs scan {shlex.quote(str(corpus))} --run {shlex.quote(str(run))} --engine canned"
        job = machine.ray(*submit, *command.split())
        assert job.returncode == 0, job.stdout[-6000:]
        assert "31 images in 2 of 2 shards: 27 scored, 4 quarantined" in job.stdout
        assert len(rows_of(run)) == 31
    finally:
        down = machine.ray("down", "-y", file)
    assert down.returncode == 0, down.stdout[-3000:]
    assert machine.ray("job", "list", "--address", "http://127.0.0.1:8265").returncode != 0
