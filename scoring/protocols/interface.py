"""All that an engine needs to know of a protocol: the prompt it is given, the answer it gives back.

    prompt = protocol.prompt                       # the same for every image
    answer = <the model's answer to prompt>        # SlotAnswer for Slots, TextAnswer for Generate
    result = protocol.parse([answer])              # an Outcome, or the Prompt of the next pass (two-pass only)

An engine repeats the last two lines, with all answers so far, until it has an Outcome: at most `passes` times.
"""

import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from scoring.assessment import Outcome

Probabilities = npt.NDArray[np.float32]
"""Shape (22, 3), canonical order; columns absent, ambiguous, present, each row summing to 1."""


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Image:
    """The place of the image. At most one in a prompt, and after all of the texts, so that they are a prefix that
    all images share."""


@dataclass(frozen=True)
class Message:
    """One turn of the chat; the engine's chat template puts it into the model's words."""

    role: Literal["system", "user"]
    parts: tuple[Text | Image, ...]


@dataclass(frozen=True)
class Slots:
    """The answer is a form that the prompt already holds; the probabilities at its gaps are read in one prefill.

    After the messages and the opening of the assistant's turn the engine puts
    `pieces[0] + placeholder + pieces[1] + placeholder + … + pieces[21] + placeholder`
    and reads, at the token before every placeholder, the probabilities of `choices`, normalised over the choices.
    Nothing needs to follow the last piece. placeholder and choices are single digits, which the tokenizers of the
    Qwen family keep as one token each; an engine refuses a model whose tokenizer does not.
    """

    pieces: tuple[str, ...]
    placeholder: str
    choices: tuple[str, str, str] = ("0", "1", "2")


@dataclass(frozen=True)
class Generate:
    """The answer is generated, greedily (temperature 0), up to max_tokens.

    At most one of json_schema and regex is given; an engine without structured output may leave it out, since
    `parse` checks everything again. Where neither is given the answer must stay free, so that a refusal is seen.
    probability_tokens: at every generated token the probabilities of these candidates are wanted (`Token`); each is
    the first token of its text, and where two share their first token there are no probabilities.
    """

    max_tokens: int
    json_schema: Mapping[str, Any] | None = None
    regex: str | None = None
    probability_tokens: tuple[str, ...] = ()


@dataclass(frozen=True)
class Prompt:
    """What one pass asks. A prompt without an `Image` part is asked without the image."""

    messages: tuple[Message, ...]
    wanted: Slots | Generate

    @property
    def has_image(self) -> bool:
        return any(isinstance(part, Image) for message in self.messages for part in message.parts)


@dataclass(frozen=True)
class SlotAnswer:
    """The answer to `Slots`: probabilities of the choices at the 22 slots, normalised per slot."""

    probabilities: Probabilities


@dataclass(frozen=True)
class Token:
    """One generated token. text: what it adds to the answer.

    probabilities: of `Generate.probability_tokens`, in their order, 0–1 (they need not sum to 1); None where unknown.
    """

    text: str
    probabilities: tuple[float, ...] | None = None


@dataclass(frozen=True)
class TextAnswer:
    """The answer to `Generate`. text: without special tokens. tokens: only where probabilities were wanted and are
    had; their texts joined are `text`. is_cut_off: generation ended at max_tokens."""

    text: str
    tokens: tuple[Token, ...] = ()
    is_cut_off: bool = False


Answer = SlotAnswer | TextAnswer


@dataclass(frozen=True)
class ProtocolOptions:
    """What the user said about the protocol.

    prompts: bytes of the --prompt-file, YAML or JSON: name of a text -> text, replacing the texts of that name.
    thresholds: bytes of the --thresholds file, YAML or JSON (see `thresholds.py`).
    keep_rationale: the model's own words go into the row's rationale; they can repeat what the image shows.
    """

    prompts: bytes | None = None
    thresholds: bytes | None = None
    keep_rationale: bool = False


class Protocol(typing.Protocol):
    """name: with variants. version: `<name>-<revision> <hash>`, for `EngineDescription.protocol`; the hash (12 hex
    digits) follows every text and setting. assessed: the keys it can judge, none for severity and binary.
    passes: how many answers it needs at most. prompt: of the first pass. Instances can be pickled."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def assessed(self) -> tuple[str, ...]: ...
    @property
    def passes(self) -> int: ...
    @property
    def prompt(self) -> Prompt: ...

    def parse(self, answers: Sequence[Answer]) -> Outcome | Prompt:
        """All answers of one view so far, at least one -> the outcome, or the prompt of the next pass.

        Never raises, whatever the model wrote: what cannot be read is `Unscored`, without content in its message.
        """
        ...


class ProtocolModule(typing.Protocol):
    """What a module named in `PROTOCOLS` offers. VARIANTS: what may follow the colon."""

    VARIANTS: tuple[str, ...]

    def make(self, variants: frozenset[str], options: ProtocolOptions) -> Protocol: ...
