"""A killed run continues and ends with the same weights; one that meets a bad number stops and keeps its checkpoint."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from scoring.engines.vlm.adapter import read_card
from scoring.tuning.training import last_checkpoint
from tests.jobs.made import privsieve
from tests.making import Capture, Folders
from tests.tuning.made import make_recipe, tune_command

LIMIT_S = 1500
WEIGHTS = "adapter_model.safetensors"


@pytest.fixture(scope="module")
def killed(few_set: Path, short_recipe: Path, short: Path, tmp_path_factory: Folders) -> Path:
    """A process killed right after its last step, with the checkpoints of the last two."""
    out = tmp_path_factory.mktemp("killed") / "out"
    last = f"checkpoint-{read_card(short).num_steps}"  # type: ignore[union-attr]
    command = [sys.executable, "-m", "jobs", *map(str, tune_command(few_set, short_recipe, out))]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    began = time.monotonic()
    while not (out / "checkpoints" / last / "trainer_state.json").exists():
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < began + LIMIT_S
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    return out


@pytest.fixture
def out(killed: Path, tmp_path: Path) -> Path:
    """A copy, as a kill before the last checkpoint leaves it."""
    copy = shutil.copytree(killed, tmp_path / "out")
    shutil.rmtree(copy / "checkpoints" / "checkpoint-10")
    return copy


def same_weights(one: Path, other: Path) -> bool:
    ours, theirs = load_file(one / WEIGHTS), load_file(other / WEIGHTS)
    return ours.keys() == theirs.keys() and all(np.array_equal(ours[name], theirs[name]) for name in ours)


def test_killed_and_resumed_equals_uninterrupted(few_set: Path, short_recipe: Path, short: Path, out: Path) -> None:
    # What a kill in the middle of the next checkpoint would leave.
    half = out / "checkpoints" / "checkpoint-10"
    half.mkdir()
    (half / WEIGHTS).write_bytes(b"cut")
    assert last_checkpoint(out) == out / "checkpoints" / "checkpoint-9"
    assert half.exists(), "another process may be writing it"
    assert privsieve(*tune_command(few_set, short_recipe, out)) == 0
    assert same_weights(out, short)
    card, other = read_card(out), read_card(short)
    assert card is not None
    assert other is not None
    assert (card.train_accuracy, card.num_steps) == (other.train_accuracy, other.num_steps)
    assert [p["step"] for p in card.curves] == [p["step"] for p in other.curves]
    assert not (out / "checkpoints").exists()
    assert not (out / "tuning.json").exists()


def test_killed_after_the_last_step(
    few_set: Path, short_recipe: Path, short: Path, killed: Path, tmp_path: Path
) -> None:
    """Only the adapter is left to be written."""
    shutil.copytree(killed, tmp_path / "out")
    assert privsieve(*tune_command(few_set, short_recipe, tmp_path / "out")) == 0
    assert same_weights(tmp_path / "out", short)


def test_a_finished_adapter_is_not_tuned_again(
    few_set: Path, short_recipe: Path, short: Path, tmp_path: Path, capsys: Capture
) -> None:
    before = (short / WEIGHTS).stat().st_mtime_ns
    assert privsieve(*tune_command(few_set, short_recipe, short)) == 0
    assert f"{short} is already tuned" in capsys.readouterr().err
    later = tmp_path / "later.yaml"  # as a later version ships the recipe, with other words about its source
    later.write_text(f"{short_recipe.read_text()}\nsource: put in other words\n")
    assert privsieve(*tune_command(few_set, later, short)) == 0
    assert (short / WEIGHTS).stat().st_mtime_ns == before


@pytest.mark.parametrize("is_finished", [True, False])
def test_another_request_is_refused_by_its_first_difference(
    is_finished: bool, few_set: Path, short_recipe: Path, short: Path, tmp_path: Path, capsys: Capture
) -> None:
    out = short if is_finished else tmp_path / "begun"
    if not is_finished:
        out.mkdir()
        card = json.loads((short / "privsieve.json").read_text()) | {"micro_batch_size": 8}
        (out / "tuning.json").write_text(json.dumps(card))
    other = make_recipe(tmp_path / "other.yaml", epochs=2, learning_rate=2e-3)
    assert privsieve(*tune_command(few_set, other, out)) == 2
    message = capsys.readouterr().err
    assert "with another --recipe; give the same, or name another --out" in message
    assert privsieve(*tune_command(few_set, short_recipe, out), "--seed", 3) == 2
    assert "with another --seed" in capsys.readouterr().err
    if not is_finished:
        assert privsieve(*tune_command(few_set, short_recipe, out), "--micro-batch-size", 2) == 2
        assert "with another --micro-batch-size" in capsys.readouterr().err


def test_spoilt_weights_stop_the_run_before_they_reach_a_checkpoint(
    few_set: Path, short_recipe: Path, out: Path, capsys: Capture
) -> None:
    """An infinite moment of the optimizer, planted into the last checkpoint but one, spoils the next step."""
    state = torch.load(out / "checkpoints" / "checkpoint-9" / "optimizer.pt")
    state["state"][0]["exp_avg"][0, 0] = math.inf
    torch.save(state, out / "checkpoints" / "checkpoint-9" / "optimizer.pt")
    assert privsieve(*tune_command(few_set, short_recipe, out)) == 1
    assert capsys.readouterr().err == (
        "privsieve: the loss or the weights of step 10 are not finite numbers, so tuning stopped; the checkpoint of "
        f"step 9 is kept in {out}/checkpoints: lower the recipe's learning_rate and name another --out\n"
    )
    assert not (out / "checkpoints" / "checkpoint-10").exists()
    weights = load_file(out / "checkpoints" / "checkpoint-9" / WEIGHTS)
    assert all(np.isfinite(values).all() for values in weights.values())
    assert not (out / "privsieve.json").exists()


def test_a_loss_that_is_no_number_stops_the_run(few_set: Path, tmp_path: Path, capsys: Capture) -> None:
    recipe = make_recipe(tmp_path / "absurd.yaml", alpha=1e300)
    assert privsieve(*tune_command(few_set, recipe, tmp_path / "out")) == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "step 1 are not finite numbers, so tuning stopped; there is no checkpoint yet" in message
