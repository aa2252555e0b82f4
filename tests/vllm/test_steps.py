"""Steps of vLLM: chosen by the machine, overridden by the user, told in run.json; how long they were too small."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scoring.assessment import TakesSteps
from scoring.engines.vlm.vllm.options import VllmOptions
from tests.vllm.conftest import DEMO, MAX_PIXELS, picture, privsieve


def test_vllm_takes_the_steps_of_a_batch_job_and_not_of_a_server(engine: Callable[..., Any]) -> None:
    """2,048 tokens and 128 requests are a server's; on a CPU twice as much is vLLM's own for many pictures at once."""
    running = engine("vllm", protocol="slots")
    result: object = running
    assert isinstance(result, TakesSteps)
    built_with = result.built_with
    assert (built_with["max_num_batched_tokens"], built_with["max_num_seqs"]) == (4096, 256)
    assert json.loads(json.dumps(built_with)) == built_with
    assert set(VllmOptions.model_fields) <= set(built_with)


def test_a_step_holds_as_many_pictures_as_their_tokens_beyond_the_shared_text(engine: Callable[..., Any]) -> None:
    running = engine("vllm", protocol="slots")
    running.assess([picture(3000 + number, 160, 160) for number in range(40)])
    usage = running.usage
    per_request = (usage["prompt"] - usage["cached"]) / usage["requests"]
    assert running.requests_per_step == int(4096 / per_request)
    assert (running.num_requests, running.num_prepared) == (0, 0)


def test_part_of_a_gpu_means_part_of_its_memory_unless_the_user_says_how_much() -> None:
    from vllm import AsyncEngineArgs

    from scoring.engines.vlm.vllm.engine import VllmSetup

    whole = AsyncEngineArgs.gpu_memory_utilization
    assert VllmSetup().arguments() == {}
    assert VllmSetup(gpu_share=0.5).arguments() == {"gpu_memory_utilization": whole / 2}
    assert 2 * whole / 2 <= 1
    chosen = VllmSetup({"gpu_memory_utilization": 0.3, "cudagraph_mode": "none"}, gpu_share=0.5)
    assert chosen.arguments() == {"gpu_memory_utilization": 0.3, "compilation_config": {"cudagraph_mode": "none"}}
    assert [VllmSetup(cpus=cpus).num_preparing_threads for cpus in (None, 1, 3.5, 8)] == [2, 2, 4, 8]


def test_what_vllm_was_built_with_and_how_long_it_waited_stand_in_the_run(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    steps = ("max_num_seqs=64", "max_num_batched_tokens=8192", "use_v2_model_runner=false", "cudagraph_mode=none")
    options = [part for option in steps for part in ("--vllm-option", option)]
    arguments = ("--engine", "vllm", "--model", checkpoint, "--max-pixels", MAX_PIXELS, "--executor", "inline")
    assert privsieve("scan", DEMO, "--run", run, "--quiet", *arguments, *options) == 0
    record = json.loads((run / "run.json").read_text())
    (built,) = record["built_with"]
    assert [f"{option.partition('=')[0]}={json.dumps(built[option.partition('=')[0]])}" for option in steps[:3]] == [
        *steps[:3]
    ]
    assert built["cudagraph_mode"] == "none"
    capsys.readouterr()
    assert privsieve("status", run, "--format", "json") == 0
    time = json.loads(capsys.readouterr().out)["engine_time"]
    assert time["seconds"] > 0
    assert 0 < sum(time["short_s"].values()) <= time["seconds"] * 1.001, "32 pictures fill no step of 64"
    assert time["most_bytes_ahead"] > 10**6
    assert privsieve("scan", DEMO, "--run", run, "--quiet", *arguments) == 0, "other steps, the same rows"
