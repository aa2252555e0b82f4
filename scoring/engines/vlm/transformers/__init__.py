"""Any machine: the models of transformers on one GPU, on MPS or on the CPU; batches of prefills."""

from typing import TYPE_CHECKING

from scoring.assessment import EngineDescription, EngineOptions
from scoring.engines.vlm.settings import Settings, description, package_versions, settings

if TYPE_CHECKING:
    from scoring.engines.vlm.transformers.engine import TransformersEngine

NAME = "transformers"
PACKAGES = ("transformers", "torch", "torchvision", "peft", "xgrammar")
REFUSED = ("tensor_parallel_size", "endpoint", "concurrency")


def describe(options: EngineOptions) -> EngineDescription:
    return description(NAME, _chosen(options, with_weights=False), PACKAGES)


def load(options: EngineOptions) -> "TransformersEngine":
    """Loads the model, seconds to minutes. EngineError where the model or the adapter cannot be loaded whole."""
    chosen = _chosen(options, with_weights=True)
    from scoring.engines.vlm.transformers.engine import TransformersEngine, loaded

    return TransformersEngine(chosen, loaded(chosen))


def _chosen(options: EngineOptions, *, with_weights: bool) -> Settings:
    """As `settings`; EngineError also where the model's own files refuse the prompt, which no picture changes."""
    chosen = settings(NAME, options, REFUSED, with_weights=with_weights)
    package_versions(NAME, PACKAGES)
    from scoring.engines.vlm.prompting import Prompter

    Prompter(chosen.checkpoint.folder, chosen.max_pixels).check(chosen.protocol)
    return chosen
