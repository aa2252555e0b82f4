"""The engine and its adapter, as far as they can be checked without loading a model."""

from ingest.storage.web import named
from scoring.assessment import EngineOptions
from scoring.engine_facts import LocalModel
from scoring.engines import engine_module


def check_engine(engine: str, options: EngineOptions) -> str:
    found = engine_module(engine).describe(options)
    weights = f"; {', '.join(found.weights)}" if found.weights else ""
    return f"{found.name}, {found.protocol}{weights}"


def check_adapter(engine: str, options: EngineOptions, model: LocalModel | None) -> str:
    """The adapter is compared with the weights where these are on this machine."""
    engine_module(engine).describe(options)
    is_compared = model is not None and model.weight_bytes > 0
    return f"{named(options.adapter or '')}: " + (
        "fits the model" if is_compared else "is complete; whether it fits shows when the model is loaded"
    )
