"""How fast one prefill per picture is, where its time goes, and how far it is from what the machine can do.

    python -m benchmarks.gpu.throughput                         a tiny random model, on any machine
    python -m benchmarks.gpu.throughput --model-size 8b         random weights as of Qwen3-VL-8B, for a GPU (or 2b)
    python -m benchmarks.gpu.throughput --model-size 8b --tokenizer FOLDER --vllm 512

Random weights cost what trained ones cost. Without --tokenizer the prompt has other (more) tokens than with the real
one, so the images/s are no figures of the real model then; the share of the machine's rate holds.
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from transformers import PreTrainedTokenizerFast, Qwen3VLConfig, Qwen3VLForConditionalGeneration

from scoring.assessment import BuiltWith, View
from scoring.engines.vlm.checkpoint import Checkpoint
from scoring.engines.vlm.settings import VlmSettings
from scoring.engines.vlm.transformers.engine import TransformersEngine
from scoring.protocols import protocol
from scoring.protocols.interface import ProtocolOptions
from tests.vllm.micro import SPECIAL, make_config, make_tokenizer, save_processor

TEXT_8B: dict[str, Any] = {
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 262144,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 5e6,
        "mrope_section": [24, 20, 20],
        "mrope_interleaved": True,
    },
}
VISION_8B: dict[str, Any] = {
    "depth": 27,
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_heads": 16,
    "out_hidden_size": 4096,
    "deepstack_visual_indexes": [8, 16, 24],
}
TEXT_2B = TEXT_8B | {
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
}
VISION_2B = {
    "depth": 24,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_heads": 16,
    "out_hidden_size": 2048,
    "deepstack_visual_indexes": [5, 11, 17],
}
SHAPES = {"8b": (TEXT_8B, VISION_8B, False), "2b": (TEXT_2B, VISION_2B, True)}
"""Size -> text, vision, and whether the vocabulary head is the embedding; those of Qwen3-VL."""

MODEL_SIZES = ("micro", *SHAPES)
SECONDS_PER_MEASURE = 5.0


@dataclass(frozen=True)
class Machine:
    device: torch.device
    dtype: torch.dtype
    flops_per_s: float


def measured_machine() -> Machine:
    """The rate of square matrix products, in the precision that models run in here."""
    has_gpu = torch.cuda.is_available()
    device = torch.device("cuda" if has_gpu else "cpu")
    dtype, side = (torch.bfloat16, 8192) if has_gpu else (torch.float32, 1024)
    a, b = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    return Machine(device, dtype, 2 * side**3 / _seconds(lambda: a @ b))


def _seconds(work: Callable[[], Any]) -> float:
    """Median of repeated runs, after one to warm up."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    work()
    wait()
    found: list[float] = []
    while not found or (sum(found) < SECONDS_PER_MEASURE and len(found) < 30):
        begin = time.perf_counter()
        work()
        wait()
        found.append(time.perf_counter() - begin)
    return float(np.median(found))


def random_checkpoint(folder: Path, model_size: str, tokenizer_folder: str | None) -> Path:
    """config.json, tokenizer and processor, no weights."""
    if tokenizer_folder is None:
        tokenizer = make_tokenizer()
    else:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(tokenizer_folder)
        tokenizer.add_special_tokens({"additional_special_tokens": list(SPECIAL[1:])})
    config = make_config(tokenizer)
    if model_size in SHAPES:
        of_text, of_vision, is_tied = SHAPES[model_size]
        text, vision = config.text_config.to_dict() | of_text, config.vision_config.to_dict() | of_vision
        text["tie_word_embeddings"] = is_tied
        options = config.to_dict() | {"text_config": text, "vision_config": vision, "tie_word_embeddings": is_tied}
        config = Qwen3VLConfig(**options | {"dtype": "bfloat16"})
    config.save_pretrained(folder)
    save_processor(folder, tokenizer)
    return folder


def random_model(folder: Path, machine: Machine) -> Any:
    config = Qwen3VLConfig.from_pretrained(folder, attn_implementation="sdpa")
    with torch.device(machine.device):
        torch.set_default_dtype(machine.dtype)
        model = Qwen3VLForConditionalGeneration(config)
        torch.set_default_dtype(torch.float32)
    return model.eval()


def flops_per_picture(model: Any, num_patches: int, num_computed: int, num_context: int) -> tuple[float, float]:
    """(vision tower, language model): products of weights, and of attention.

    num_patches: of 16x16 px. num_computed: tokens after the shared prefix; num_context: prefix and these.
    """
    text, vision = model.config.text_config, model.config.vision_config
    weights = {name: p.numel() for name, p in model.named_parameters() if p.dim() >= 2 and "embed" not in name}
    merger = sum(n for name, n in weights.items() if ".visual." in name and "merger" in name)
    tower = sum(n for name, n in weights.items() if ".visual." in name) - merger
    language = sum(n for name, n in weights.items() if ".language_model." in name)
    seen = 2 * tower * num_patches + 2 * merger * num_patches / 4
    seen += 4 * num_patches**2 * vision.hidden_size * vision.depth
    width = text.num_attention_heads * text.head_dim
    attended = num_computed * (num_context - num_computed / 2)
    return seen, 2 * language * num_computed + 4 * attended * width * text.num_hidden_layers


def slots_settings(folder: Path, side_px: int) -> VlmSettings:
    """For pictures of this size, asked for the 22 answers in one prefill."""
    asked = protocol("slots", ProtocolOptions())
    return VlmSettings(
        Checkpoint(folder, folder.name, str(folder), str(folder)), None, asked, side_px**2, None, None, None
    )


def picture(seed: int, side_px: int) -> View:
    pixels = np.random.default_rng(seed).integers(0, 256, (side_px, side_px, 3), dtype=np.uint8)
    return View(pixels, frozenset(), f"{seed:064x}")


@dataclass(frozen=True)
class Prefill:
    """One line of the table: pictures of one size in batches of one size. Times are for each picture."""

    side_px: int
    batch_size: int
    visual_tokens: int
    computed_tokens: int
    images_per_s: float
    tflop: float
    share: float
    """Of the machine's rate in matrix products."""

    tower_ms: float
    text_ms: float
    host_ms: float

    def __str__(self) -> str:
        return (
            f"{self.side_px:5} {self.batch_size:5} {self.visual_tokens:7} {self.computed_tokens:7} "
            f"{self.images_per_s:9.2f} {self.tflop:8.3f} {self.share:7.1%} {self.tower_ms:9.1f} {self.text_ms:9.1f} "
            f"{self.host_ms:8.1f}"
        )


def measure(engine: TransformersEngine, machine: Machine, side_px: int, batch_size: int) -> Prefill:
    asked = protocol("slots", ProtocolOptions())
    tokens = engine.prompter.tokens(asked.prompt)
    views = [picture(seed, side_px) for seed in range(batch_size)]
    begin = time.perf_counter()
    requests = [engine._request(asked.prompt, tokens, view) for view in views]
    host = (time.perf_counter() - begin) / batch_size
    prefix = engine._prefix([tokens])
    pixels = torch.cat([r.pixels["pixel_values"] for r in requests]).to(machine.device, machine.dtype)
    grids = torch.cat([r.pixels["image_grid_thw"] for r in requests]).to(machine.device)
    with torch.inference_mode():
        whole = _seconds(lambda: engine._read(engine.prefill(requests, prefix), tokens)) / batch_size
        tower = _seconds(lambda: engine.model.model.visual(pixels, grid_thw=grids)) / batch_size
    num_patches = len(pixels) // batch_size
    num_context = len(requests[0].token_ids)
    seen, read = flops_per_picture(engine.model, num_patches, num_context - len(prefix), num_context)
    return Prefill(
        side_px,
        batch_size,
        num_patches // 4,
        num_context - len(prefix),
        1 / whole,
        (seen + read) / 1e12,
        (seen + read) / whole / machine.flops_per_s,
        tower * 1e3,
        (whole - tower) * 1e3,
        host * 1e3,
    )


@dataclass(frozen=True)
class AgainstJson:
    """The same 22 answers by one prefill and decoded token by token, both with all work on the host."""

    side_px: int
    batch_size: int
    json_images_per_s: float
    slots_images_per_s: float

    @property
    def ratio(self) -> float:
        return self.slots_images_per_s / self.json_images_per_s

    def __str__(self) -> str:
        return (
            f"json, decoded, {self.side_px} px, batch {self.batch_size}: {self.json_images_per_s:.2f} images/s; slots, "
            f"the same way measured (host work included): {self.slots_images_per_s:.2f}, {self.ratio:.1f} times as fast"
        )


def measure_json(engine: TransformersEngine, side_px: int, batch_size: int) -> AgainstJson:
    """The baseline."""
    asked = protocol("json", ProtocolOptions())
    views = [picture(seed, side_px) for seed in range(batch_size)]
    begin = time.perf_counter()
    engine.assess_with(asked, views)
    took = time.perf_counter() - begin
    begin = time.perf_counter()
    engine.assess(views)
    return AgainstJson(side_px, batch_size, batch_size / took, batch_size / (time.perf_counter() - begin))


def measure_vllm(chosen: VlmSettings, side_px: int, num_pictures: int) -> tuple[float, BuiltWith]:
    """Pictures/s, and what vLLM was built with."""
    from scoring.engines.vlm.vllm.engine import VllmEngine, VllmSetup

    running = VllmEngine(chosen, VllmSetup())
    running.assess([picture(10**6 + seed, side_px) for seed in range(num_pictures // 4 + 1)])
    views = [picture(seed, side_px) for seed in range(num_pictures)]
    begin = time.perf_counter()
    running.assess(views)
    took = time.perf_counter() - begin
    built_with = running.built_with
    running.close()
    return num_pictures / took, built_with


@click.command()
@click.option("--model-size", type=click.Choice(MODEL_SIZES), default="micro", show_default=True)
@click.option("--tokenizer", help="Folder with the tokenizer.json of Qwen3.")
@click.option("--sides", default="256,512,1024", show_default=True, help="Pictures of so many px squared.")
@click.option("--batches", default="1,4,16", show_default=True, help="Pictures per forward pass.")
@click.option("--json-batch", default=4, show_default=True, help="Pictures of the decoded baseline; 0 leaves it out.")
@click.option("--vllm", "vllm_pictures", default=0, help="Also vLLM, with so many pictures at once.")
def main(model_size: str, tokenizer: str | None, sides: str, batches: str, json_batch: int, vllm_pictures: int) -> None:
    sides_px = [int(side) for side in sides.split(",")]
    machine = measured_machine()
    click.echo(f"{machine.device}, {machine.dtype}: {machine.flops_per_s / 1e12:.2f} TFLOP/s in matrix products")
    with tempfile.TemporaryDirectory() as name:
        folder = random_checkpoint(Path(name), model_size, tokenizer)
        model = random_model(folder, machine)
        click.echo(f"{sum(p.numel() for p in model.parameters()) / 1e9:.3f} billion parameters")
        click.echo("   px batch visual  tokens  images/s TFLOP/im  share   tower ms   text ms  host ms")
        for side_px in sides_px:
            engine = TransformersEngine(slots_settings(folder, side_px), model)
            for batch_size in (int(size) for size in batches.split(",")):
                try:
                    click.echo(str(measure(engine, machine, side_px, batch_size)))
                except torch.OutOfMemoryError:
                    click.echo(f"{side_px:5} {batch_size:5} out of memory")
                    torch.cuda.empty_cache()
            if json_batch:
                click.echo(str(measure_json(engine, side_px, json_batch)))
        del engine, model
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        for side_px in sides_px if vllm_pictures else []:
            images_per_s, _ = measure_vllm(slots_settings(folder, side_px), side_px, vllm_pictures)
            click.echo(f"vLLM, slots, {side_px} px, {vllm_pictures} pictures at once: {images_per_s:.2f} images/s")


if __name__ == "__main__":
    main()
