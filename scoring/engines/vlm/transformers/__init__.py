"""Any machine: the models of transformers on one GPU, on MPS or on the CPU; batches of prefills.

May import: `ingest`, `scoring.engines`, `scoring.protocols`.
"""

from typing import TYPE_CHECKING

from scoring.assessment import ABOUT_THE_QUESTION, EngineDescription, EngineOptions
from scoring.engine_facts import LocalModel, Preview, Requirements, package_versions
from scoring.engines.vlm.checkpoint import weight_bytes
from scoring.engines.vlm.settings import VlmSettings, description, preview_of, refuse_wrong_options, settings
from scoring.protocols.interface import Generate

if TYPE_CHECKING:
    from scoring.engines.vlm.transformers.engine import TransformersEngine

NAME = "transformers"
PACKAGES = ("transformers", "torch", "torchvision", "xgrammar")
TAKEN = (*ABOUT_THE_QUESTION, "adapter", "dtype", "batch_size")
CPU_MEMORY_FACTOR = 1.2
"""Memory on the CPU, relative to the size of the weights."""


def refuse_wrong(options: EngineOptions) -> None:
    refuse_wrong_options(NAME, options, TAKEN)


def describe(options: EngineOptions) -> EngineDescription:
    return description(NAME, _chosen(options, with_weights=False), PACKAGES)


def requirements(options: EngineOptions) -> Requirements:
    num_bytes = weight_bytes(options.model)
    model = LocalModel(1, num_bytes, cpu_memory_bytes=int(CPU_MEMORY_FACTOR * num_bytes), without_gpu=None)
    return Requirements(NAME, model)


def preview(options: EngineOptions) -> Preview:
    refuse_wrong(options)
    return preview_of(settings(options, with_weights=False))


def load(options: EngineOptions) -> "TransformersEngine":
    """Load the model, seconds to minutes. EngineError if the model or the adapter cannot be loaded whole."""
    chosen = _chosen(options, with_weights=True)
    from scoring.engines.vlm.loading import check_head
    from scoring.engines.vlm.transformers.engine import TransformersEngine, loaded

    model = loaded(chosen.checkpoint, chosen.adapter, chosen.dtype)
    if not isinstance(chosen.protocol.prompt.wanted, Generate):
        check_head(model, chosen.checkpoint.name)
    return TransformersEngine(chosen, model)


def _chosen(options: EngineOptions, *, with_weights: bool) -> VlmSettings:
    """Check the options as in `settings`. EngineError also if the model's own files refuse the prompt."""
    refuse_wrong(options)
    chosen = settings(options, with_weights=with_weights)
    package_versions(NAME, PACKAGES)
    from scoring.engines.vlm.prompting import Prompter

    Prompter(chosen.checkpoint.folder, chosen.max_pixels).check(chosen.protocol)
    return chosen
