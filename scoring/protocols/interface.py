"""Everything that an engine needs to know about a protocol: its prompt, and the form of the answer.

    prompt = protocol.prompt                       # the same for every image
    answer = <the model's answer to prompt>        # SlotAnswer for Slots, FirstTokenAnswer, TextAnswer for Generate
    result = protocol.parse([answer])              # an Outcome, or the Prompt of the next pass (two-pass only)

An engine repeats the last two lines, with all answers so far, until it has an Outcome: at most `passes` times.
`prompt_parts` gives the prompt as text, for people to read before a scan.
"""

import typing
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from scoring.assessment import Outcome
from scoring.engine_facts import PromptPart
from scoring.taxonomy import KEYS

Probabilities = npt.NDArray[np.float32]
"""Shape (attributes, 3), canonical order; columns absent, ambiguous, present, each row summing to 1."""


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Image:
    """Position of the image. At most one in a prompt; by default after all texts, so that they are a prefix
    that all images share."""


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
    and reads the probabilities at the token before every placeholder. Tokenizers of the Qwen family keep single digits
    as one token each; an engine refuses a model whose tokenizer does not.
    """

    pieces: tuple[str, ...]
    """Text before the gap of each attribute; none is needed after the last."""

    placeholder: str
    """A single digit."""

    choices: tuple[str, str, str] = ("0", "1", "2")
    """Single digits; the probabilities are normalised over them."""


@dataclass(frozen=True)
class FirstToken:
    """Nothing is generated: the probability of each choice as the beginning of the answer is read in one prefill.

    The engine reads the probabilities at the last token of the prompt. A choice is as probable as the first tokens of
    its spellings together; an engine refuses a model whose tokenizer begins two choices with the same token.
    """

    choices: tuple[tuple[str, ...], ...]
    """The spellings of each choice, at least one; the probabilities are normalised over all of them."""


@dataclass(frozen=True)
class Generate:
    """The answer is generated greedily (temperature 0).

    At most one of `json_schema` and `regex` is given. An engine without structured output may ignore it, since `parse`
    checks everything again. If neither is given the answer must stay free, so that a refusal is seen.
    """

    max_tokens: int
    json_schema: Mapping[str, Any] | None = None
    regex: str | None = None

    probability_tokens: tuple[str, ...] = ()
    """Candidates whose probabilities are returned at every generated token (`Token`). Each means the first token of
    its text; if two share that token there are no probabilities."""


@dataclass(frozen=True)
class Prompt:
    """The question of one pass. A prompt without an `Image` part is asked without the image."""

    messages: tuple[Message, ...]
    wanted: Slots | FirstToken | Generate

    @property
    def has_image(self) -> bool:
        return any(isinstance(part, Image) for message in self.messages for part in message.parts)


@dataclass(frozen=True)
class SlotAnswer:
    """The answer to `Slots`: probabilities of the choices at each slot, normalised per slot."""

    probabilities: Probabilities


@dataclass(frozen=True)
class FirstTokenAnswer:
    """The answer to `FirstToken`."""

    probabilities: tuple[float, ...]
    """Probabilities of the choices, in their order, each 0–1, summing to 1."""


@dataclass(frozen=True)
class Token:
    text: str
    """Text that it adds to the answer."""

    probabilities: tuple[float, ...] | None = None
    """Probabilities of `Generate.probability_tokens`, in their order, each 0–1; they need not sum to 1. None if
    unknown."""


@dataclass(frozen=True)
class TextAnswer:
    """The answer to `Generate`."""

    text: str
    """Answer without special tokens."""

    tokens: tuple[Token, ...] = ()
    """Generated tokens; empty unless probabilities were requested and are known. Their texts joined are `text`."""

    is_cut_off: bool = False
    """Whether generation ended at max_tokens."""


Answer = SlotAnswer | FirstTokenAnswer | TextAnswer


@dataclass(frozen=True)
class Protocol(ABC):
    """What is asked, and how answers are read. Instances can be pickled."""

    name: str
    """With variants."""

    version: str
    """`<name>-<revision> <hash>`, for `EngineDescription.protocol`; the hash (12 hex digits) follows every text and
    setting."""

    prompt: Prompt
    """The prompt of the first pass."""

    assessed: ClassVar[tuple[str, ...]] = KEYS
    """The attributes that it can judge."""

    passes: ClassVar[int] = 1
    """Maximum number of answers."""

    @abstractmethod
    def parse(self, answers: Sequence[Answer]) -> Outcome | Prompt:
        """Read all answers of one view so far, at least one: the outcome, or the prompt of the next pass.

        Never raises, regardless of the model's text: an unreadable answer is `Unscored`, without content in its
        message.
        """


class ProtocolModule(typing.Protocol):
    """Interface of the modules named in `PROTOCOLS`."""

    VARIANTS: tuple[str, ...]
    """What may follow the colon."""

    def make(self, variants: frozenset[str], prompts: bytes | None) -> Protocol:
        """prompts: content of the --prompt-file, YAML or JSON: name of a text or setting -> its replacement."""
        ...


def prompt_parts(asked: Protocol) -> tuple[PromptPart, ...]:
    """Return every text of the prompt in order, then the form of the answer."""
    parts = [
        PromptPart(
            message.role,
            "\n".join(
                part.text.removesuffix("\n") if isinstance(part, Text) else "[the picture]" for part in message.parts
            ),
        )
        for message in asked.prompt.messages
    ]
    wanted = asked.prompt.wanted
    if isinstance(wanted, Slots):
        form = "".join(piece + wanted.placeholder for piece in wanted.pieces)
        parts.append(PromptPart("assistant, whose probabilities at the digits are read", form.removesuffix("\n")))
    elif isinstance(wanted, FirstToken):
        choices = " against ".join(" or ".join(spellings) for spellings in wanted.choices)
        parts.append(PromptPart(f"assistant: the probability that the answer begins with {choices}; nothing generated"))
    else:
        form = "a JSON form" if wanted.json_schema else f"as {wanted.regex}" if wanted.regex else "free"
        parts.append(PromptPart(f"assistant: {form}, at most {wanted.max_tokens} tokens"))
    if asked.passes > 1:
        parts.append(PromptPart(f"then {asked.passes - 1} more without the picture, about the answer"))
    return tuple(parts)
