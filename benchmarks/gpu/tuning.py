"""How fast tuning is, how far from what the machine can do, how much memory it takes, and whether it can be resumed.

    python -m benchmarks.gpu.tuning --micro          a tiny random model, on any machine
    python -m benchmarks.gpu.tuning --sides 512      random weights of the size of Qwen3-VL-8B, on a GPU
    python -m benchmarks.gpu.tuning --sides 512 --micro-batches 4 --resume-steps 4

Random weights cost what trained ones cost. It needs torch, transformers and peft; the training set is made in memory.
Without --tokenizer the prompt has other (more) tokens than with the real one: tokens/s and the share of the machine's
rate hold, pictures/s do not.

A size of pictures takes one to three minutes for each size of micro-batches, so that each call ends in ten minutes.
"""

import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset
from transformers import set_seed
from transformers.trainer_utils import SaveStrategy

from benchmarks.gpu.throughput import Machine, flops_per_picture, measured_machine, random_checkpoint, random_model
from ingest.errors import number_of
from scoring.engines.vlm.checkpoint import Checkpoint
from scoring.engines.vlm.prompting import Prompter
from scoring.protocols import protocol
from scoring.protocols.interface import ProtocolOptions
from scoring.tuning.examples import Collator, Encoder, Example
from scoring.tuning.recipe import Recipe, recipe
from scoring.tuning.targets import Target
from scoring.tuning.trainer import Tuner
from scoring.tuning.training import TrainingRequest, adapted, arguments, batches, last_checkpoint
from scoring.tuning.training_set import SetRecord, TrainingSet

ACCUMULATED = 2
"""Micro-batches per step; the optimizer's work, once a step, weighs more here than in a step of 128 pictures."""

NUM_PICTURES = 4
"""That are made; a step takes them again and again."""

GIB = 2**30


class InMemory(Dataset):  # type: ignore[misc]  # of an untyped package
    """Examples that are ready, as often as they are wanted: reading pictures is measured apart."""

    def __init__(self, examples: Sequence[Example], num: int):
        self._examples, self._num = examples, num

    def __len__(self) -> int:
        return self._num

    def __getitem__(self, at: int) -> Example:
        return self._examples[at % len(self._examples)]


@dataclass(frozen=True)
class Steps:
    """One line of the table: steps of `ACCUMULATED` micro-batches of so many pictures."""

    side_px: int
    micro: int
    num_tokens: int
    step_s: float
    images_per_s: float
    share: float
    """Of the machine's rate in matrix products."""

    peak_bytes: int | None
    """Of the GPU's memory; None without one."""

    host_ms: float

    def __str__(self) -> str:
        peak = "       -" if self.peak_bytes is None else f"{self.peak_bytes / GIB:8.1f}"
        return (
            f"{self.side_px:5} {self.micro:5} {self.num_tokens:7} {self.step_s:8.2f} {self.images_per_s:9.2f} "
            f"{self.images_per_s * self.num_tokens:9.0f} {self.share:7.1%} {peak} "
            f"{self.host_ms:8.1f}"
        )


class Bench:
    """One random model, tuned again and again."""

    def __init__(self, folder: Path, model_size: str, tokenizer: str | None, rank: int, asked: str):
        self.machine: Machine = measured_machine()
        self.folder = random_checkpoint(folder / "model", model_size, tokenizer)
        self.base = random_model(self.folder, self.machine)
        self.protocol = protocol(asked, ProtocolOptions())
        self.recipe: Recipe = recipe("cprt").model_copy(update={"rank": rank, "epochs": 1, "learning_rate": 1e-4})
        self._work = folder / "work"
        click.echo(
            f"{self.machine.device}, {self.machine.dtype}: {self.machine.flops_per_s / 1e12:.2f} TFLOP/s in matrix "
            f"products; {sum(p.numel() for p in self.base.parameters()) / 1e9:.3f} billion parameters; rank {rank}, "
            f"{asked}"
        )

    def examples(self, side_px: int) -> tuple[list[Example], Encoder, Collator, float]:
        """And the seconds that one picture takes to prepare."""
        prompter = Prompter(self.folder, side_px**2)
        encoder = Encoder(prompter, self.protocol.prompt)
        made = []
        rng = np.random.default_rng(0)
        begin = time.perf_counter()
        for number in range(NUM_PICTURES):
            pixels = rng.integers(0, 256, (side_px, side_px, 3), dtype=np.uint8)
            made.append(encoder.example_of(Image.fromarray(pixels), self._target(number)))
        took = (time.perf_counter() - begin) / NUM_PICTURES
        return made, encoder, Collator(prompter.tokenizer.pad_token_id or 0), took

    def tuner(self, side_px: int, micro: int, num_steps: int, steps_per_checkpoint: int, on_step: Any) -> Tuner:
        """With a fresh adapter, the same for every call."""
        made, encoder, collator, _ = self.examples(side_px)
        chosen = self.recipe.model_copy(update={"batch_size": micro * ACCUMULATED})
        num_pictures = num_steps * micro * ACCUMULATED
        request = TrainingRequest(
            TrainingSet(self.folder, SetRecord.model_construct()),
            self.protocol,
            Checkpoint(self.folder, "random", "random", "random"),
            chosen,
            self._work,
            side_px**2,
            0,
            micro,
            steps_per_checkpoint,
        )
        result = arguments(request, batches(chosen, num_pictures, micro), has_held_back=False)
        if steps_per_checkpoint > num_steps:
            result.save_strategy = SaveStrategy.NO  # else there is one at the end
        result.dataloader_num_workers, result.dataloader_persistent_workers = 0, False
        set_seed(0)
        return Tuner(
            encoder.candidate_ids,
            on_step,
            model=adapted(self.base, chosen),
            args=result,
            data_collator=collator,
            train_dataset=InMemory(made, num_pictures),
        )

    def measure(self, side_px: int, micro: int, num_steps: int) -> "Steps | None":
        """None where memory does not suffice."""
        made, _, _, host_s = self.examples(side_px)
        num_tokens = len(made[0].per_token["input_ids"])
        num_patches = int(made[0].per_image["pixel_values"].shape[0])
        seen, read = flops_per_picture(self.base, num_patches, num_tokens, num_tokens)
        ends: list[float] = []

        def on_step(step: int, steps: int) -> None:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            ends.append(time.perf_counter())

        tuner = None
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        try:
            tuner = self.tuner(side_px, micro, num_steps, num_steps + 1, on_step)
            tuner.train()
            step_s = float(np.median(np.diff(ends)))  # without the first step, which warms up
            pictures_per_s = micro * ACCUMULATED / step_s
            # The vision tower runs forward. The language model runs forward, again where activations were not kept, and
            # backward for activations alone, since its weights are frozen.
            passes = 3 if torch.cuda.is_available() else 2
            flops = seen + passes * read
            return Steps(
                side_px,
                micro,
                num_tokens,
                step_s,
                pictures_per_s,
                flops * pictures_per_s / self.machine.flops_per_s,
                torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None,
                host_s * 1e3,
            )
        except torch.OutOfMemoryError:
            return None
        finally:
            self._forget(tuner)

    def resume(self, side_px: int, micro: int, num_steps: int) -> None:
        """Trains to the end; then again to a checkpoint half-way, and from there to the end. Prints the difference."""
        half = num_steps // 2
        weights = []
        shutil.rmtree(self._work, ignore_errors=True)
        for is_resumed in (False, True):
            if is_resumed:  # only the checkpoint half-way is left, as after a kill
                for checkpoint in (self._work / "checkpoints").glob("checkpoint-*"):
                    if not checkpoint.name.endswith(f"-{half}"):
                        shutil.rmtree(checkpoint)
            tuner = self.tuner(side_px, micro, num_steps, half, lambda step, steps: None)
            last = last_checkpoint(self._work)
            begin = time.perf_counter()
            tuner.train(resume_from_checkpoint=None if last is None else str(last))
            took = time.perf_counter() - begin
            weights.append([p.detach().float().cpu() for p in tuner.model.parameters() if p.requires_grad])
            done = "from step " + last.name.rpartition("-")[2] if last else "uninterrupted"
            click.echo(f"{number_of(num_steps, 'step')}, {done}, checkpoints included: {took:.1f} s")
            self._forget(tuner)
        largest = max(float((one - other).abs().max()) for one, other in zip(*weights, strict=True))
        moved = max(float(one.abs().max()) for one in weights[0])
        size = sum(file.stat().st_size for file in self._work.rglob("*") if file.is_file())
        click.echo(
            f"weights of the resumed run differ by at most {largest:.1e} (the largest weight is {moved:.1e}); "
            f"checkpoints take {size / GIB:.2f} GiB"
        )

    def _forget(self, tuner: Tuner | None) -> None:
        """Takes the adapter off the model, and its optimizer out of memory."""
        if tuner is not None:
            self.base = tuner.model.unload()
            tuner.optimizer = tuner.lr_scheduler = None
            tuner.accelerator.free_memory()
            tuner.model = tuner.model_wrapped = self.base
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _target(self, number: int) -> Target:
        if self.protocol.name.startswith("slots"):
            return Target(slots=tuple((number + at) % 3 for at in range(22)))
        return Target(answer=("Yes", "No")[number % 2])


@click.command()
@click.option("--micro", "is_micro", is_flag=True, help="A tiny model and few steps: whether this script works.")
@click.option("--tokenizer", help="Folder with the tokenizer.json of Qwen3.")
@click.option("--protocol", "asked", default="binary:ours-1", show_default=True, help="slots has a longer prompt.")
@click.option("--rank", default=64, show_default=True)
@click.option("--sides", default="256,512,1024", show_default=True, help="Pictures of so many px squared.")
@click.option("--micro-batches", default="1,2,4,8", show_default=True, help="Pictures at once.")
@click.option("--num-steps", default=5, show_default=True, help="Per line of the table; the first one warms up.")
@click.option(
    "--resume-steps", default=0, show_default=True, help="Also resume a run of so many steps; 0 leaves it out."
)
def main(
    is_micro: bool,
    tokenizer: str | None,
    asked: str,
    rank: int,
    sides: str,
    micro_batches: str,
    num_steps: int,
    resume_steps: int,
) -> None:
    sides_px = [int(side) for side in ("64,128" if is_micro else sides).split(",")]
    sizes = [int(size) for size in ("1,2" if is_micro else micro_batches).split(",")]
    resume_steps = resume_steps or (4 if is_micro else 0)
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name), "micro" if is_micro else "8b", tokenizer, rank, asked)
        click.echo("   px micro  tokens   step s  images/s  tokens/s   share peak GiB  host ms")
        for side_px in sides_px:
            for size in sizes:
                found = bench.measure(side_px, size, num_steps)
                click.echo(f"{side_px:5} {size:5} out of memory" if found is None else str(found))
        if resume_steps:
            bench.resume(sides_px[0], sizes[0], resume_steps)


if __name__ == "__main__":
    main()
