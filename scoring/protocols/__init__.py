"""Questions to a vision-language model, and how its answer is read: one module per protocol.

A protocol is pure: it makes prompts and reads answers, and knows no model, tokenizer or image. Engines answer.
Its texts are in `texts/<name>.yaml` and can be replaced one by one by a file of the user (`--prompt-file`).

Names can carry variants after a colon: `severity:intuition`, `binary:ours-3,classes,reason`; every module lists its
own. Runs, training sets and adapters record `Protocol.version`, and are continued only with the same one.
May import: `ingest`.
Start at: `interface.py`, which is all that an engine needs. To add a protocol: write the module, name it here, give
it a file of texts.
"""

import importlib
from typing import cast

from ingest.errors import EngineError, did_you_mean
from scoring.assessment import EngineOptions
from scoring.protocols.interface import Protocol, ProtocolModule

PROTOCOLS: dict[str, str] = {
    "slots": "scoring.protocols.slots",
    "json": "scoring.protocols.json_form",
    "two-pass": "scoring.protocols.two_pass",
    "severity": "scoring.protocols.holistic",
    "binary": "scoring.protocols.binary",
}


def protocol(name: str, prompts: bytes | None = None) -> Protocol:
    """Return the protocol of this name, including variants: `slots`, `severity:taxonomy,counterfactual`.

    prompts: content of the --prompt-file. EngineError if there is no such protocol or variant (with the list and the
    nearest name), or if a text is wrong.
    """
    base, colon, listed = name.partition(":")
    if base not in PROTOCOLS:
        known = ", ".join(PROTOCOLS)
        raise EngineError(f'unknown protocol "{base}"{did_you_mean(base, PROTOCOLS)}; there are: {known}')
    module = cast(ProtocolModule, importlib.import_module(PROTOCOLS[base]))
    variants = [part.strip().lower() for part in listed.split(",")] if colon else []
    for variant in variants:
        if variant not in module.VARIANTS:
            there_are = f"there are: {', '.join(module.VARIANTS)}" if module.VARIANTS else "it has none"
            raise EngineError(
                f'the {base} protocol has no variant "{variant}"{did_you_mean(variant, module.VARIANTS)}; {there_are}'
            )
    return module.make(frozenset(variants), prompts)


def chosen_protocol(options: EngineOptions, default: str) -> Protocol:
    """Return the protocol that the user chose with the options of an engine. EngineError as in `protocol`."""
    return protocol(options.protocol or default, options.prompt_file)
