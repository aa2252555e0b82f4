"""Who answers: one module per engine, all with the signature of `scoring.assessment`.

A module offers `describe(options)`, which loads nothing heavy, and `load(options)`, which starts the models.
To add an engine: write the module, name it here.
"""

import importlib
from typing import cast

from ingest.errors import EngineError, did_you_mean
from scoring.assessment import EngineModule

ENGINES: dict[str, str] = {
    "detectors": "scoring.engines.detectors",
    "canned": "scoring.engines.canned",
    "transformers": "scoring.engines.vlm.transformers",
    "vllm": "scoring.engines.vlm.vllm",
    "openai": "scoring.engines.openai",
}
"""Engine name -> module."""


def engine_module(name: str) -> EngineModule:
    """The module of an engine; EngineError with the list and the near name where there is none."""
    if name not in ENGINES:
        known = ", ".join(ENGINES)
        raise EngineError(f'unknown engine "{name}"{did_you_mean(name, ENGINES)}; there are: {known}')
    return cast(EngineModule, importlib.import_module(ENGINES[name]))
