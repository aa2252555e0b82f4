"""Parts that all protocols share: messages of a prompt, the version, refused options."""

import dataclasses
from collections.abc import Sequence

from ingest.errors import EngineError
from scoring.protocols.interface import Image, Message, Prompt, ProtocolOptions, Text
from scoring.protocols.texts import Texts, hash_of
from scoring.protocols.thresholds import Thresholds

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
    options: ProtocolOptions,
    thresholds: Thresholds | None = None,
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
        "keep_rationale": options.keep_rationale,
    }
    return f"{name}-{revision} {hash_of(content)}"


def refuse_rationale(protocol: str, options: ProtocolOptions) -> None:
    """Raise EngineError if a rationale was requested from a protocol whose model gives no reasons."""
    if options.keep_rationale:
        raise EngineError(
            f"the {protocol} protocol asks for no reasons, so there are none to keep; leave out --keep-rationale "
            "or choose two-pass or binary:reason"
        )


def refuse_thresholds(protocol: str, options: ProtocolOptions) -> None:
    """Raise EngineError if thresholds were given to a protocol without probabilities of the attributes."""
    if options.thresholds is not None:
        raise EngineError(
            f"the {protocol} protocol gives no probabilities of the attributes; leave out --thresholds "
            "or choose slots or json"
        )
