"""The steps of call 2: vLLM on the weights of call 1, and on random weights. In a dry run, its build for CPUs."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu.call import SITE, Bench
from benchmarks.gpu.models import pictures, shape, slots_settings, weights_folder
from benchmarks.gpu.transformers_steps import NUM_COMPARED, probabilities
from ingest.errors import EngineError
from ingest.storage.place import place
from scoring.assessment import Assessment, EngineOptions, View
from scoring.engines import engine_module
from scoring.engines.canary import TOLERANCE, canary
from scoring.runs.attempts import engine_time

NUM_PICTURES = 1024
NUM_WARMING = 128
AT_ONCE, PER_BATCH = 4, 64
"""Batches that are asked at the same time, as in a scan, and pictures of each."""

CANARY_BATCH = 43
"""Pictures, of as many sizes, among which the canary is asked."""


def agree(bench: Bench) -> None:
    """Are the answers those of transformers, with which runner, and is the canary's tolerance right?"""
    kept = np.load(bench.work / "reference.npz")
    runner: dict[str, Any] = {}
    try:
        engine, start_s = _saved(bench, "2b", runner)
    except EngineError as error:
        bench.add(runner="vLLM's own choice", start_failed=str(error)[:400])
        runner = {"use_v2_model_runner": False}
        engine, start_s = _saved(bench, "2b", runner)
    found = probabilities(engine.assess(pictures(NUM_COMPARED, *_size(bench))))
    differences = {"largest_difference": float(np.abs(found - kept["bfloat16"]).max())}
    if "float32" in kept:  # call 1 may have ended before it
        differences |= {
            "largest_difference_float32": float(np.abs(found - kept["float32"]).max()),
            "largest_rounding": float(np.abs(kept["bfloat16"] - kept["float32"]).max()),
        }
    spread = float(np.ptp(kept["bfloat16"], axis=0).max())
    is_v2: bool = engine.built_with["use_v2_model_runner"]
    bench.add(is_v2_runner=is_v2, pictures=NUM_COMPARED, **differences, spread=spread)
    alone = [probabilities(engine.assess([canary()]))[0] for _ in range(3)]
    sizes = [(64 + 24 * number, 448 - 8 * number) for number in range(CANARY_BATCH - 1)]
    others: list[View] = [pictures(1, *size, seed=number)[0] for number, size in enumerate(sizes)]
    within = []
    for at in (0, len(others) // 2, len(others)):
        outcomes = engine.assess([*others[:at], canary(), *others[at:]])
        within.append(probabilities([outcomes[at]])[0])
    bench.add(
        batch=CANARY_BATCH,
        canary_spread_alone=float(np.ptp(alone, axis=0).max()),
        canary_spread_in_batches=float(np.ptp([*alone, *within], axis=0).max()),
        canary_tolerance=TOLERANCE,
    )
    bench.add(model="2b", is_eager=True, start_s=start_s, **_speed(bench, engine))


def bf16(bench: Bench) -> None:
    _random_8b(bench, {})


def fp8(bench: Bench) -> None:
    _random_8b(bench, {} if bench.is_dry else {"quantization": "fp8"})  # vLLM for CPUs has none


def merged(bench: Bench) -> None:
    """8B from the weights of call 1 with an adapter, else 2B; then the answers of 2B with its adapter."""
    from benchmarks.gpu.models import random_adapter

    if (weights_folder(bench) / "8b").exists() and not bench.is_dry:
        tuned = random_adapter(weights_folder(bench) / "8b-adapter", weights_folder(bench) / "8b", rank=64)
        with bench.measured(model="8b", rank=64) as figures:
            engine, figures["start_s"] = _saved(bench, "8b", {}, tuned)
            figures |= _speed(bench, engine)
            engine.close()
    kept = np.load(bench.work / "reference.npz")
    engine, start_s = _saved(bench, "2b", {}, weights_folder(bench) / "2b-adapter")
    found = probabilities(engine.assess(pictures(NUM_COMPARED, *_size(bench))))
    apart = float(np.abs(found - kept["adapter"]).max())
    bench.add(model="2b", rank=64, start_s=start_s, largest_difference=apart, **_speed(bench, engine))


def scan(bench: Bench) -> None:
    """The whole of a scan: JPEGs of sizes as on the web, and what the engine waited for."""
    run = bench.work / "run"
    shutil.rmtree(run, ignore_errors=True)  # a scan that was cut off would be resumed
    command = [sys.executable, "-m", "jobs", "scan", bench.work / "corpus", "--run", run, "--executor", "inline"]
    command += ["--engine", "vllm", "--model", weights_folder(bench) / "2b", "--vllm-option", "enforce_eager=true"]
    began_s = time.perf_counter()
    if bench.is_dry:  # in this process, which has imported vLLM
        from jobs.cli import main

        ended = _exit_code(main, [str(part) for part in command[3:]])
    else:
        ended = subprocess.run([str(part) for part in command], stdout=sys.stderr).returncode
    if ended:
        raise RuntimeError(f"scan ended with {ended}")
    spent = engine_time(place(str(run)))
    facts: dict[str, Any] = {} if spent is None else json.loads(spent.model_dump_json())
    took_s = time.perf_counter() - began_s
    number = 64 if bench.is_dry else 4096
    images_per_s = number / facts["seconds"] if facts.get("seconds") else None
    bench.add(model="2b", pictures=number, whole_s=took_s, images_per_s=images_per_s, engine_time=facts)


def compiled(bench: Bench) -> None:
    engine, start_s = _saved(bench, "2b", {"enforce_eager": bench.is_dry})
    bench.add(model="2b", is_eager=bench.is_dry, start_s=start_s, **_speed(bench, engine))


def two_engines(bench: Bench) -> None:
    """Two of 2B, each with half of the GPU, asked at the same time."""
    share = None if bench.is_dry else 0.5  # copies of a process keep the lock by which the second one waits
    with bench.measured(model="2b", is_eager=True, engines=2) as figures:
        engines = [_saved(bench, "2b", {}, share=share)[0] for _ in range(2)]
        with ThreadPoolExecutor(2) as threads:
            speeds = list(threads.map(lambda engine: _speed(bench, engine), engines))
        both = sum(speed["images_per_s"] for speed in speeds)
        figures |= {"images_per_s": both, "pictures": speeds[0]["pictures"]}


def _random_8b(bench: Bench, options: dict[str, Any]) -> None:
    from scoring.engines.vlm.vllm.engine import VllmEngine, VllmSetup

    size = "micro" if bench.is_dry else "8b"
    folder = shape(bench.work / f"random-{bench.step}", size, bench.work / SITE / "qwen3-tokenizer")
    begins_s = time.perf_counter()
    setup = VllmSetup({"enforce_eager": True, **options})
    with bench.measured(model=size, **options) as figures:
        engine = VllmEngine(slots_settings(folder, _size(bench)[0]), setup)
        figures["start_s"] = time.perf_counter() - begins_s
        figures |= _speed(bench, engine)
        figures["built_with"] = engine.built_with


def _saved(
    bench: Bench, name: str, options: dict[str, Any], tuned: Path | None = None, share: float | None = None
) -> tuple[Any, float]:
    """Start vLLM, without compiling unless the options say so; and the seconds that it takes."""
    chosen = [f"{key}={value}".lower() for key, value in ({"enforce_eager": True} | options).items()]
    begins_s = time.perf_counter()
    engine = engine_module("vllm").load(
        EngineOptions(
            model=str(weights_folder(bench) / name),
            adapter=None if tuned is None else str(tuned),
            dtype="bfloat16",
            max_pixels=_size(bench)[0] ** 2,
            vllm_option=tuple(chosen),
            gpu_share=share,
        )
    )
    return engine, time.perf_counter() - begins_s


def _speed(bench: Bench, engine: Any) -> dict[str, Any]:
    """Pictures per second, asked as a scan asks."""
    number, warming = (16, 4) if bench.is_dry else (NUM_PICTURES, NUM_WARMING)
    views = pictures(number, *_size(bench))
    engine.assess(views[:warming])
    before = dict(engine.usage)
    begins_s = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as threads:
        batches = [views[at : at + PER_BATCH] for at in range(0, number, PER_BATCH)]
        outcomes = [outcome for answered in threads.map(engine.assess, batches) for outcome in answered]
    took_s = time.perf_counter() - begins_s
    prompt, cached = ((engine.usage[kind] - before.get(kind, 0)) / number for kind in ("prompt", "cached"))
    return {
        "pictures": number,
        "images_per_s": number / took_s,
        "unanswered": sum(not isinstance(outcome, Assessment) for outcome in outcomes),
        "prompt_tokens": round(prompt),
        "computed_tokens": round(prompt - cached),
        "gpu_gib": engine.gpu_memory()[0] / 2**30,
    }


def _size(bench: Bench) -> tuple[int, int]:
    return (96, 96) if bench.is_dry else (512, 512)


def _exit_code(main: Any, arguments: Sequence[str]) -> int:
    try:
        main(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0
