"""The engines: one module each, all with the functions of `scoring.assessment.EngineModule`.

    refuse_wrong(options)   options that are wrong on every machine: not taken by this engine, or contradicting
    describe(options)       facts that make two runs comparable
    requirements(options)   requirements of the machine     (privsieve doctor)
    preview(options)        the prompt                      (privsieve scan --dry-run)
    load(options)           starts the models

Only `load` loads a model. `describe` refuses what `refuse_wrong` refuses. To add an engine: write the module and name
it here; nothing outside of this folder needs to know it. A module with files of its own keeps the engine in
`engine.py`.

May import: `ingest`.
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

DEFAULT = "detectors"
"""The engine of commands without --engine."""


def engine_module(name: str) -> EngineModule:
    """Return the module of an engine. EngineError with the known names if there is no such engine."""
    if name not in ENGINES:
        known = ", ".join(ENGINES)
        raise EngineError(f'unknown engine "{name}"{did_you_mean(name, ENGINES)}; there are: {known}')
    return cast(EngineModule, importlib.import_module(ENGINES[name]))
