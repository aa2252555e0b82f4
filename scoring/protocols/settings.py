"""Parts that all protocols share: messages of a prompt, the version, refused options, values from probabilities.

A value is that of the most probable class, or follows from thresholds that the user gives per attribute. A thresholds
file is YAML (or JSON): attribute key -> the P(present) from which the value is 1, or both thresholds:

    gov_ids: 0.35
    biometrics: {present: 0.6, ambiguous: 0.4}

Below `present` the value is 0.5 if P(present) + P(ambiguous), the probability that it is not absent, reaches
`ambiguous` (default 0.5), else 0. Attributes that the file does not name keep the most probable class.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ingest.errors import EngineError, did_you_mean
from ingest.sample import printable
from scoring.assessment import Values
from scoring.protocols.interface import Image, Message, Probabilities, Prompt, ProtocolOptions, Text
from scoring.protocols.texts import Texts, hash_of, parse_mapping
from scoring.taxonomy import KEYS

ANNOUNCES_IMAGE = "The picture:"
"""Last words of the shipped texts before the image."""


def with_image(texts: Texts, system: str, text: str) -> tuple[Message, ...]:
    """Build the chat about an image: the system's text, if it is not empty, then the text, then the image.

    With `texts.image_first` the image comes before the text, without the words that announce it at the end.
    """
    if texts.image_first:
        return (*_system(system), Message("user", (Image(), Text(text.removesuffix(ANNOUNCES_IMAGE).rstrip()))))
    return (*_system(system), Message("user", (Text(text), Image())))


def without_image(system: str, text: str) -> tuple[Message, ...]:
    """Build the chat of a pass that does not see the image."""
    return (*_system(system), Message("user", (Text(text),)))


def _system(text: str) -> tuple[Message, ...]:
    return (Message("system", (Text(text),)),) if text.strip() else ()


def version(
    name: str,
    revision: int,
    texts: Texts,
    prompts: Sequence[Prompt],
    thresholds: "Thresholds | None" = None,
    first_name: str | None = None,
) -> str:
    """Return `<name>-<revision> <hash>`; the hash changes with every text and setting.

    revision: raised by hand when a protocol asks or reads answers in a new way. first_name: what the same protocol was
    called first, if it was renamed: the hash stays the same.
    """
    content = {
        "name": first_name or name,
        "revision": revision,
        "texts": texts.hashed(),
        "prompts": [dataclasses.asdict(prompt) for prompt in prompts],
        "thresholds": {key: t.model_dump() for key, t in thresholds.by_key.items()} if thresholds else {},
        "keep_rationale": False,  # an option of 0.1.0; without it a version keeps its hash
    }
    return f"{name}-{revision} {hash_of(content)}"


def refuse_thresholds(protocol: str, options: ProtocolOptions) -> None:
    """Raise EngineError if thresholds were given to a protocol without probabilities of the attributes."""
    if options.thresholds is not None:
        raise EngineError(
            f"the {protocol} protocol gives no probabilities of the attributes; leave out --thresholds "
            "or choose slots or json"
        )


Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]

CLASS_VALUES = np.array([0.0, 0.5, 1.0], dtype=np.float32)
"""Values of the classes absent, ambiguous, present."""


class Threshold(BaseModel):
    """The thresholds of one attribute, 0–1."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    present: Share
    ambiguous: Share = 0.5


@dataclass(frozen=True)
class Thresholds:
    """Thresholds for the probabilities of the classes."""

    by_key: dict[str, Threshold]
    """Thresholds by attribute key; other attributes get their most probable class."""

    def apply(self, values: Values, probabilities: Probabilities) -> Values:
        """Return `values`, shape (attributes,), with the attributes that have a threshold judged by it."""
        judged = values.copy()
        for i, key in enumerate(KEYS):
            if (threshold := self.by_key.get(key)) is not None:
                judged[i] = _judged(threshold, probabilities[i, 2], probabilities[i, 1])
        return judged


def most_probable(probabilities: Probabilities) -> Values:
    """Return the most probable class, (attributes, 3) -> (attributes,); of equal ones the more severe."""
    chosen = 2 - np.argmax(probabilities[:, ::-1], axis=1)
    values: Values = CLASS_VALUES[chosen]
    return values


def load_thresholds(content: bytes | None) -> Thresholds:
    """Load thresholds. EngineError: not YAML, no attribute, an unknown one, a threshold outside 0–1."""
    if content is None:
        return Thresholds({})
    by_key = {}
    for key, value in parse_mapping(content, "the thresholds file").items():
        if key not in KEYS:
            raise EngineError(f'the thresholds file: no attribute is named "{printable(key)}"{did_you_mean(key, KEYS)}')
        by_key[key] = _threshold(key, value)
    if not by_key:
        raise EngineError("the thresholds file names no attribute; name at least one, or leave out --thresholds")
    return Thresholds(by_key)


def _threshold(key: str, value: object) -> Threshold:
    try:
        return Threshold.model_validate(value if isinstance(value, dict) else {"present": value})
    except ValidationError as error:
        first = min(error.errors(include_input=False), key=lambda e: e["type"] != "extra_forbidden")
        name = str(first["loc"][-1]) if first["loc"] else "present"
        if first["type"] == "extra_forbidden":
            known = Threshold.model_fields
            raise EngineError(
                f'the thresholds file, {key}: unknown name "{name}"{did_you_mean(name, known)}; '
                f"there are: {', '.join(known)}"
            ) from None
        raise EngineError(f"the thresholds file, {key}, {name}: {first['msg'].lower()}") from None


def _judged(threshold: Threshold, present: np.float32, ambiguous: np.float32) -> float:
    # In single precision, so that a probability that equals its threshold reaches it.
    if present >= np.float32(threshold.present):
        return 1.0
    return 0.5 if present + ambiguous >= np.float32(threshold.ambiguous) else 0.0
