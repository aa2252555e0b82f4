"""Two processes on a local Ray: the same adapter as one process makes; and what happens when one of them is killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from scoring.engines.vlm.adapter import read_card
from tests.making import Capture
from tests.tuning.made import Pictures, make_recipe, make_set, privsieve, tune_command

LIMIT_S = 1500
WEIGHTS = "adapter_model.safetensors"


@pytest.fixture(scope="module")
def even_set(room: Path, few: Pictures) -> Path:
    """48 pictures, six steps of eight: no step has fewer."""
    return make_set(room / "even-set", few, "--target", "binary", "--validation", 0)


@pytest.fixture(scope="module")
def slow_recipe(room: Path) -> Path:
    """A low learning rate: Adam would make much of the last digit of gradients near zero."""
    return make_recipe(room / "slow.yaml", epochs=1, learning_rate=1e-4)


def two_processes(training_set: Path, recipe: Path, out: Path) -> list[object]:
    return [*tune_command(training_set, recipe, out), "--num-gpus", 2, "--steps-per-checkpoint", 2]


def descendants(pid: int) -> Iterator[int]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended
        if parent == pid:
            child = int(stat.parent.name)
            yield child
            yield from descendants(child)


def tuning_processes(pid: int) -> list[int]:
    """Of Ray, below this process."""
    return [child for child in descendants(pid) if "RayTrainWorker" in Path(f"/proc/{child}/cmdline").read_text()]


def test_two_processes_share_the_work_and_a_killed_one_is_made_good(
    even_set: Path, slow_recipe: Path, tmp_path: Path
) -> None:
    alone, out = tmp_path / "alone", tmp_path / "two"
    assert privsieve(*tune_command(even_set, slow_recipe, alone)) == 0
    command = [sys.executable, "-m", "jobs", *map(str, two_processes(even_set, slow_recipe, out))]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    began = time.monotonic()
    while not (out / "checkpoints" / "checkpoint-2" / "trainer_state.json").is_file():
        assert running.poll() is None, "it ended before a process could be killed"
        assert time.monotonic() < began + LIMIT_S
        time.sleep(0.02)
    workers = tuning_processes(running.pid)
    assert len(workers) == 2
    os.kill(workers[1], signal.SIGKILL)
    _, result = running.communicate(timeout=LIMIT_S)
    assert running.returncode == 1, result
    assert "a tuning process ended (" in result
    assert result.strip().endswith("run the same command again to continue")
    assert result.count("\n") == 1

    assert privsieve(*two_processes(even_set, slow_recipe, out)) == 0
    card = read_card(out)
    assert card is not None
    assert (card.num_processes, card.num_steps) == (2, 6)
    ours, theirs = load_file(alone / WEIGHTS), load_file(out / WEIGHTS)
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_allclose(ours[name], theirs[name], atol=1e-4)
    moved = max(float(np.abs(values).max()) for name, values in ours.items() if "lora_B" in name)
    assert moved > 2e-4, "the weights must have moved by more than they may differ"


def test_more_processes_than_the_cluster_has(even_set: Path, tmp_path: Path, capsys: Capture) -> None:
    recipe = make_recipe(tmp_path / "large.yaml", epochs=1, batch_size=4096)
    command = [*tune_command(even_set, recipe, tmp_path / "out"), "--num-gpus", 4096]
    assert privsieve(*command) == 2
    message = capsys.readouterr().err
    assert "--num-gpus 4096: the cluster has" in message
    assert message.count("\n") == 1
    assert not (tmp_path / "out").exists()
