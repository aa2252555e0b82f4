"""What a picture costs the CPU before a vision-language model gets it: how many cores one GPU needs.

    python -m benchmarks.host_cost [--images-per-s 80] [--size 512 512] [--size 2304 1728]

Each step is measured alone, as CPU time of this process, so that other work on the machine and the model's own process
do not count: decode (to twice the side that the model sees, as a scan does), downscale, processor (the checkpoint's
image processor), tokenise (the whole prompt) and submit. Submit is what vLLM's front end takes beside the processor: it
hashes the picture, sends the request to its engine process and reads the answer. The scheduling inside of that process
is not in it: on a CPU it cannot be separated from the model.

The model is the tiny one of tests/vllm in bfloat16, with the image processor of the real one; see `differences`.
Needs the environment of `make test-vllm`.
"""

import io
import os
import platform
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import click
from PIL import Image

from ingest.formats import open_source
from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits
from scoring.assessment import EngineOptions, View
from scoring.engines.picture import DEFAULT_MAX_PIXELS, max_side_px, prepared

PICTURES = Path(__file__).parents[1] / "jobs" / "demo" / "corpus" / "shards"
NEEDED = ("torch", "transformers", "vllm")
QUALITY = 90
SIZES = ((512, 512), (2304, 1728))
SIDE = click.IntRange(min=1)
SIZE_HELP = "Width and height of the pictures; can be given several times."
STEPS = ("decode", "downscale", "processor", "tokenise", "submit")
BUSIEST = "busiest thread"
"""Of vLLM's front end in the actor; no engine is faster than it."""

REAL_TOKENS, REAL_VOCABULARY = 877, 151_669
"""Of the `slots` prompt with the tokenizer of Qwen3, and of that tokenizer."""


@dataclass(frozen=True)
class Cost:
    """Of one size of pictures. ms: step -> CPU time per image, and BUSIEST. seen: width, height that the model gets."""

    size: tuple[int, int]
    num_bytes: float
    seen: tuple[int, int]
    ms: dict[str, float]

    def sum_ms(self, left_out: str) -> float:
        return sum(self.ms[step] for step in STEPS if step != left_out)


def jpegs(sizes: Sequence[tuple[int, int]], rng: random.Random) -> list[bytes]:
    """Different crops of the demo pictures, each brought to the next size."""
    pictures = _pictures()
    made: list[bytes] = []
    for size in sizes:
        picture = rng.choice(pictures)
        share = rng.uniform(0.6, 1)
        width, height = picture.width * share, picture.height * share
        left, top = rng.uniform(0, picture.width - width), rng.uniform(0, picture.height - height)
        buffer = io.BytesIO()
        crop = picture.resize(size, Image.Resampling.BICUBIC, (left, top, left + width, top + height))
        crop.save(buffer, "JPEG", quality=QUALITY)
        made.append(buffer.getvalue())
    return made


def _pictures() -> list[Image.Image]:
    corpus = open_source(str(PICTURES), None, None)
    samples = (s for shard in corpus.shards for slice_ in corpus.slices(shard) for s in corpus.read(slice_))
    decoded = [decode(s.encoded, ImageLimits()) for s in samples if s.fault is None]
    return [Image.fromarray(d.views[0]) for d in decoded if isinstance(d, DecodedImage)]


def measured(engine: Any, size: tuple[int, int], max_pixels: int, num_images: int, turns: int) -> Cost:
    """Medians of the turns; every turn has pictures of its own, since vLLM knows again what it has seen."""
    rng = random.Random(0)
    limits = ImageLimits(max_side_px=max_side_px(max_pixels))
    found: dict[str, list[float]] = {step: [] for step in (*STEPS, BUSIEST)}
    for turn in range(-1, turns):  # the one before the first warms up
        encoded = jpegs([size] * num_images, rng)
        ms, seen = _turn(engine, encoded, limits, max_pixels)
        for step in ms if turn >= 0 else ():
            found[step].append(ms[step])
    num_bytes = sum(map(len, encoded)) / num_images
    return Cost(size, num_bytes, seen, {step: median(values) for step, values in found.items()})


def _turn(
    engine: Any, encoded: Sequence[bytes], limits: ImageLimits, max_pixels: int
) -> tuple[dict[str, float], tuple[int, int]]:
    prompter = engine.prompter
    text = prompter.tokens(engine._protocol.prompt).text
    decoded: list[Any] = []
    pictures: list[Image.Image] = []
    ms = {
        "decode": _ms(encoded, lambda one: decoded.append(decode(one, limits))),
        "downscale": _ms(decoded, lambda one: pictures.append(prepared(one.views[0], max_pixels))),
        "processor": _ms(
            pictures,
            lambda one: prompter.processor.image_processor(images=[one], size=prompter.image_size, return_tensors="pt"),
        ),
        "tokenise": _ms(pictures, lambda _: prompter.tokenizer(text, add_special_tokens=False)),
    }
    views = [View(one.views[0], frozenset(), "0" * 64) for one in decoded]
    outcomes: list[Any] = []
    before = _thread_times()
    whole = _ms([views], lambda all_of_them: outcomes.extend(engine.assess(all_of_them))) / len(views)
    if any(getattr(outcome, "probabilities", None) is None for outcome in outcomes):
        raise RuntimeError(f"not every picture was answered: {outcomes}")
    ms["submit"] = whole - ms["downscale"] - ms["processor"]
    busiest_s = max(taken_s - before.get(ident, 0) for ident, taken_s in _thread_times().items())
    ms[BUSIEST] = busiest_s * 1e3 / len(views)
    return ms, pictures[0].size


def _ms(items: Sequence[Any], work: Callable[[Any], Any]) -> float:
    """CPU time of this process per item, of all its threads."""
    began = time.process_time()
    for item in items:
        work(item)
    return (time.process_time() - began) * 1e3 / len(items)


def _thread_times() -> dict[int, float]:
    """Thread -> CPU seconds so far."""
    idents = [thread.ident for thread in threading.enumerate() if thread.ident is not None]
    return {ident: time.clock_gettime(time.pthread_getcpuclockid(ident)) for ident in idents}


def report(costs: Sequence[Cost], images_per_s: float) -> Iterator[str]:
    def line(name: str, values: Sequence[str], note: str = "") -> str:
        return f"{name:30}" + "".join(f"{value:>12}" for value in values) + (f"   {note}" if note else "")

    yield line("pictures, px", ["x".join(map(str, cost.size)) for cost in costs])
    yield line("KB of JPEG", [f"{cost.num_bytes / 1000:.0f}" for cost in costs], "mean")
    yield line("the model sees, px", ["x".join(map(str, cost.seen)) for cost in costs])
    for step in STEPS:
        note = "vllm: once in a scan with slots; transformers: every image" if step == "tokenise" else ""
        yield line(f"{step}, ms CPU", [f"{cost.ms[step]:.2f}" for cost in costs], note)
    for engine, left_out in (("vllm", "tokenise"), ("transformers", "submit")):
        sums = [cost.sum_ms(left_out) for cost in costs]
        yield line(f"{engine}, ms CPU an image", [f"{ms:.2f}" for ms in sums], f"all but {left_out}")
        needed = [f"{ms * images_per_s / 1e3:.2f}" for ms in sums]
        yield line("  CPU cores per GPU", needed, f"at {images_per_s:g} images/s")
    fastest = [f"{1e3 / cost.ms[BUSIEST]:.0f}" for cost in costs]
    yield line("most images/s of one vllm", fastest, "by the busiest thread of its front end")


def differences(engine: Any) -> str:
    """What is not as with the real Qwen3-VL-8B."""
    processor, tokenizer = engine.prompter.processor.image_processor, engine.prompter.tokenizer
    num_tokens = len(engine.prompter.tokens(engine._protocol.prompt).token_ids)
    return (
        f"the image processor is {type(processor).__name__} with the settings of Qwen3-VL (patches of "
        f"{processor.patch_size} px, {processor.merge_size} x {processor.merge_size} of them a token); the tokenizer "
        f"is not: it knows {len(tokenizer):,} tokens instead of {REAL_VOCABULARY:,}, so that the prompt has "
        f"{num_tokens} instead of {REAL_TOKENS}"
    )


def _machine() -> str:
    names = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return f"{names[0] if names else platform.processor() or platform.machine()}, {os.cpu_count()} cores"


def _lines(file: str) -> list[str]:
    try:
        return Path(file).read_text().splitlines()
    except OSError:  # no Linux
        return []


@click.command()
@click.option("--images-per-s", type=click.FloatRange(min=0, min_open=True), default=80, show_default=True)
@click.option("--size", "sizes", type=(SIDE, SIDE), multiple=True, default=SIZES, show_default=True, help=SIZE_HELP)
@click.option("--max-pixels", type=click.IntRange(min=28 * 28), default=DEFAULT_MAX_PIXELS, show_default=True)
@click.option("--num-images", type=click.IntRange(min=1), default=64, show_default=True, help="In each turn.")
@click.option("--turns", type=click.IntRange(min=1), default=3, show_default=True)
def main(images_per_s: float, sizes: tuple[tuple[int, int], ...], max_pixels: int, num_images: int, turns: int) -> None:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise click.ClickException(
            f"this environment has no {', '.join(missing)}; run it in the one that `make test-vllm` makes: "
            ".venv-vllm/bin/python -m benchmarks.host_cost"
        )
    # One thread, as in the actors of a scan, where Ray says so; read when torch is imported.
    os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    from scoring.engines.vlm.vllm import load
    from tests.vllm.micro import make_checkpoint

    with tempfile.TemporaryDirectory() as folder:
        model = make_checkpoint(Path(folder) / "micro-vl")
        engine = load(EngineOptions(model=str(model), max_pixels=max_pixels, dtype="bfloat16"))
        try:
            click.echo(f"{_machine()}; transformers {version('transformers')}, torch {version('torch')}")
            click.echo(differences(engine))
            costs = [measured(engine, size, max_pixels, num_images, turns) for size in sizes]
        finally:
            engine.close()
    for line in report(costs, images_per_s):
        click.echo(line)


if __name__ == "__main__":
    main()
