"""Writes docs/measured/gpu.md from the figures of the calls.

python -m benchmarks.gpu page RESULTS…
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "measured" / "gpu.md"
TITLES = {
    "machine": "The machine",
    "prefill": "One prefill, 22 answers (transformers)",
    "lora": "Tuning (LoRA)",
    "reference": "Random 2B weights: rounding, and what an adapter changes",
    "corpus": "The corpus that is scanned",
    "agree": "vLLM and transformers; the canary picture",
    "bf16": "vLLM, random 8B weights, bfloat16",
    "fp8": "vLLM, random 8B weights, FP8",
    "merged": "vLLM with a merged adapter",
    "scan": "A scan of pictures of web sizes",
    "two_engines": "Two engines on one GPU",
    "compiled": "vLLM, compiled",
}
NOT_SHOWN = ("step", "built_with", "dry", "out_of_memory", "reason")
SHEET_TFLOPS = {"H200": 989, "H100 NVL": 835, "H100 PCIe": 756, "H100": 989, "A100": 312, "L40S": 362, "L4": 121}
"""Part of a GPU's name -> bf16 TFLOP/s without sparsity, of its data sheet; the first that fits."""


def page(results: Sequence[dict[str, Any]]) -> str:
    """Markdown: a table for each kind of figure of each step, and the steps that failed."""
    lines = ["# What a GPU does with the models", ""]
    if any(line.get("dry") for line in results) or all({"failed", "done"} & line.keys() for line in results):
        lines += ["Not run on a GPU yet.", ""]
    lines += [
        "Random weights in the shapes of Qwen3-VL, which cost what trained ones cost; made by the commands of "
        "`benchmarks/gpu/README.md`.",
        "",
    ]
    for step, title in TITLES.items():
        if figures := _figures(line for line in results if line["step"] == step):
            lines += [f"## {title}", "", *_tables([_with_share(line) for line in figures])]
    failed = {line["step"]: line["failed"] for line in results if "failed" in line}
    failed = {step: why for step, why in failed.items() if {"step": step, "done": True} not in _ends(results)}
    if failed:
        lines += ["## Not measured", "", *(f"- {step}: {why}" for step, why in failed.items()), ""]
    return "\n".join(lines)


def _ends(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"step": line["step"], "done": True} for line in results if line.get("done")]


def _figures(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of the lines of a step, the figures that it made last: a step that failed may have been run again."""
    figures: list[dict[str, Any]] = []
    has_failed = False
    for line in lines:
        if "failed" in line:
            has_failed = True
        elif "done" not in line:
            figures, has_failed = [*([] if has_failed else figures), line], False
    return figures


def _with_share(line: dict[str, Any]) -> dict[str, Any]:
    sheet = next((tflops for name, tflops in SHEET_TFLOPS.items() if name in line.get("device", "")), None)
    return line if sheet is None else line | {"sheet_tflops": sheet}


def _tables(figures: Sequence[dict[str, Any]]) -> list[str]:
    """Figures with the same names are rows of one table; a row whose memory ran out joins that before it."""
    lines: list[str] = []
    columns: list[str] = []
    for line in figures:
        names = [name for name in line if name not in NOT_SHOWN]
        if line.get("out_of_memory") and not (names and set(names) <= set(columns)):
            columns = []
            facts = _shown({name.replace("_", " "): line[name] for name in names})
            lines += [*([""] if lines else []), ": ".join(filter(None, ("Out of memory", facts)))]
            continue
        if names != columns and not line.get("out_of_memory"):
            columns = names
            lines += [*([""] if lines else []), "| " + " | ".join(name.replace("_", " ") for name in names) + " |"]
            lines.append("|---" * len(names) + "|")
        cells = [_shown(line[name]) if name in line else "out of memory" for name in columns]
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(inner)}" for name, inner in value.items())
    if value is None or isinstance(value, bool):
        return {None: "", True: "yes", False: "no"}[value]
    if isinstance(value, str):
        return " ".join(value.replace("|", "/").split())  # a cell of a table is one line
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu page")
    parser.add_argument("results", type=Path, nargs="+", help="results.jsonl of each call")
    parser.add_argument("--out", type=Path, default=PAGE)
    given = parser.parse_args(arguments)
    for file in given.results:
        if not file.is_file():
            parser.error(f"{file} is not a file")
    results = [json.loads(line) for file in given.results for line in file.read_text().splitlines()]
    if given.out == PAGE and any(line.get("dry") for line in results):
        parser.error("these are figures of a dry run: give --out, so that the page of the docs stays")
    given.out.write_text(page(results))
