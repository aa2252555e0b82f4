"""Questions to a vision-language model, and how its answer is read: one module per protocol.

A protocol is pure: it makes prompts and reads answers, and knows no model, tokenizer or image. Engines answer.
Its texts are in `texts/<name>.yaml` and can be replaced one by one by a file of the user (`--prompt-file`).

Names can carry variants after a colon: `severity:intuition`, `binary:ours-3,classes,reason`; every module lists its
own. Runs, training sets and adapters record a name with its revision, such as `severity:intuition-1`, and are continued
with that one.
May import: `ingest`.
Start at: `interface.py`, which is all that an engine needs. To add a protocol: write the module, name it here, give
it a file of texts.
"""

import importlib
import re
from dataclasses import dataclass
from typing import cast

from ingest.errors import EngineError, did_you_mean
from scoring.assessment import EngineOptions
from scoring.protocols.interface import Protocol, ProtocolModule, ProtocolOptions

PROTOCOLS: dict[str, str] = {
    "slots": "scoring.protocols.slots",
    "json": "scoring.protocols.json_form",
    "two-pass": "scoring.protocols.two_pass",
    "severity": "scoring.protocols.holistic",
    "binary": "scoring.protocols.binary",
}

_REVISION = re.compile(r"(.+)-([0-9]{1,4})")


@dataclass(frozen=True)
class _Name:
    """A name in its parts."""

    base: str
    module: ProtocolModule
    variants: frozenset[str]
    revision: int | None
    """None if the name has none: the newest."""


def protocol(name: str, options: ProtocolOptions) -> Protocol:
    """Return the protocol of this name, including variants: `slots`, `severity:taxonomy,counterfactual`.

    A name as a run records it, with a revision, gives that revision: `severity:taxonomy-1`. EngineError if there is no
    such protocol, variant or revision (with the list and the nearest name), if a text or a threshold is wrong, or if
    the protocol does not support what the options ask for.
    """
    read = _read(name)
    revisions = read.module.REVISIONS
    if read.revision is not None and read.revision not in revisions:
        raise EngineError(
            f"this version of privsieve does not ask revision {read.revision} of the {read.base} protocol; there are: "
            f"{', '.join(map(str, revisions))}"
        )
    return read.module.make(read.variants, options, read.revision or revisions[-1])


def chosen_protocol(options: EngineOptions, default: str) -> Protocol:
    """Return the protocol that the user chose with the options of an engine. EngineError as in `protocol`."""
    texts = ProtocolOptions(options.prompt_file, options.thresholds)
    return protocol(options.protocol or default, texts)


def recorded_name(name: str, version: str) -> str:
    """Return the name that gives the revision of `version`, or `name` if that revision is no longer asked.

    version: of `Protocol.version`, or what begins with it, as a run, a training set or an adapter records it.
    """
    recorded = version.partition(" ")[0]
    try:
        read = _read(recorded)
    except EngineError:
        return name
    return recorded if read.revision in read.module.REVISIONS else name


def name_to_continue(name: str, version: str) -> str:
    """Return the name to ask by where something began with `version`: `name`, or an earlier revision of it.

    A revision in `name` is the user's choice and stays. version: as in `recorded_name`.
    """
    recorded = recorded_name(name, version)
    if recorded == name or _read(name).revision is not None:
        return name
    plain = ProtocolOptions()
    now, before = protocol(name, plain), protocol(recorded, plain)
    return recorded if before.name == now.name and before.version != now.version else name


def _read(name: str) -> _Name:
    """Split a name. EngineError if there is no such protocol or variant."""
    base, colon, listed = name.partition(":")
    revision = None
    if not colon and base not in PROTOCOLS and (numbered := _REVISION.fullmatch(base)) and numbered[1] in PROTOCOLS:
        base, revision = numbered[1], int(numbered[2])
    if base not in PROTOCOLS:
        known = ", ".join(PROTOCOLS)
        raise EngineError(f'unknown protocol "{base}"{did_you_mean(base, PROTOCOLS)}; there are: {known}')
    module = cast(ProtocolModule, importlib.import_module(PROTOCOLS[base]))
    variants = [part.strip().lower() for part in listed.split(",")] if colon else []
    if variants and variants[-1] not in module.VARIANTS:
        numbered = _REVISION.fullmatch(variants[-1])
        if numbered and numbered[1] in module.VARIANTS:
            variants[-1], revision = numbered[1], int(numbered[2])
    for variant in variants:
        if variant not in module.VARIANTS:
            there_are = f"there are: {', '.join(module.VARIANTS)}" if module.VARIANTS else "it has none"
            raise EngineError(
                f'the {base} protocol has no variant "{variant}"{did_you_mean(variant, module.VARIANTS)}; {there_are}'
            )
    return _Name(base, module, frozenset(variants), revision)
