"""Any machine: the models of transformers on one GPU, on MPS or on the CPU; batches of prefills."""

from typing import TYPE_CHECKING

from scoring.assessment import EngineDescription, EngineOptions
from scoring.engines.vlm.settings import description, package_versions, settings

if TYPE_CHECKING:
    from scoring.engines.vlm.batches import TransformersEngine

NAME = "transformers"
PACKAGES = ("transformers", "torch", "torchvision", "peft", "xgrammar")
REFUSED = ("tensor_parallel_size", "endpoint", "concurrency")


def describe(options: EngineOptions) -> EngineDescription:
    return description(NAME, settings(NAME, options, REFUSED, with_weights=False), PACKAGES)


def load(options: EngineOptions) -> "TransformersEngine":
    """Loads the model, seconds to minutes. EngineError where the model or the adapter cannot be loaded whole."""
    package_versions(NAME, PACKAGES)
    from scoring.engines.vlm.batches import TransformersEngine, loaded

    chosen = settings(NAME, options, REFUSED, with_weights=True)
    return TransformersEngine(chosen, loaded(chosen))
