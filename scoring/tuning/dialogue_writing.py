"""Conversations about a picture that a model writes: what it is asked, and which of its texts are kept.

The model gets the picture, the label of people and the class, as the conversations of Samson et al. ("Privacy-Aware
Visual Language Models", PrivTune) were made: about three turns, varied questions of the user, and an assistant that
speaks of privacy. The paper describes no filters. Here a conversation is left out if it is not JSON of the form that
was asked for, does not speak of privacy, or holds a quotation, a number or other text that may be read in the picture.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scoring.assessment import Assessment, Outcome, Unscored
from scoring.captions import may_repeat_text
from scoring.protocols.interface import Answer, Generate, Image, Message, Prompt, Protocol, Text, TextAnswer
from scoring.taxonomy import KEYS
from scoring.tuning.targets import Turns

VERSION = "dialogue-1"
MAX_TOKENS = 800
ANSWER_TOKENS = 250
"""Tokens that a conversation usually has. The paper's have 38 of the user and 138 of the assistant."""

NUM_TURNS = 3
MAX_TURNS, MAX_CHARS = 6, 1_000

OPENINGS = (
    "what the picture shows",
    "whether it may be posted in public",
    "where it was probably taken",
    "who or what is in the centre",
    "a title for it",
    "what to keep in mind before sharing it",
    "what the mood of the picture is",
    "whether anything in it should be hidden",
)
"""What the first question is about, in turn, so that conversations begin in different ways."""

_SYSTEM = "You write training conversations about pictures, between a user and an assistant that takes care of privacy."
_TASK = (
    "People have labelled this picture as {label}. Write a conversation of {turns} questions and answers about it. The "
    "first question is about {opening}; the others are original and differ in form. {side} Never repeat any name, "
    "number, address or other text that can be read in the picture, and do not quote; say only of which kind it is. "
    'Name no one. Answer with JSON only: {{"turns": [{{"question": "…", "answer": "…"}}]}}'
)
_SIDES = {
    True: "In at least one answer the assistant says, without being asked, that the picture holds private information, "
    "of which kind, and what could follow from sharing it.",
    False: "In at least one answer the assistant says, without being asked, that nothing in the picture is private, "
    "and why.",
}

LEFT_OUT = "left_out"
"""Reason of an answer that holds no conversation to keep."""

NO_FORM = "no conversation in the form that was asked for"
NO_PRIVACY = "do not speak of privacy"
FOUND_TEXT = "hold text that may be read in the picture"

_PRIVACY = re.compile(r"\b(?:privacy|private|privately|personal|sensitive|confidential|identif\w+)\b", re.IGNORECASE)


@dataclass(frozen=True)
class WrittenDialogue(Assessment):
    """A conversation in place of an answer."""

    turns: Turns = ()


@dataclass(frozen=True)
class DialogueProtocol(Protocol):
    """Asks for a conversation about a picture with a known label."""

    assessed = ()

    def parse(self, answers: Sequence[Answer]) -> Outcome:
        (answer,) = answers
        assert isinstance(answer, TextAnswer)
        turns = turns_of(answer.text)
        if isinstance(turns, str):
            return Unscored(LEFT_OUT, turns)
        return WrittenDialogue(np.full(len(KEYS), np.nan, np.float32), turns=turns)


def dialogue_protocol(is_private: bool, class_name: str | None, opening: int) -> DialogueProtocol:
    """Return what is asked about pictures of one label and class. opening: place in `OPENINGS`."""
    label = "private" if is_private else "public"
    if class_name and is_private:
        label += f', class "{class_name}"'
    task = _TASK.format(label=label, turns=NUM_TURNS, opening=OPENINGS[opening], side=_SIDES[is_private])
    messages = (Message("system", (Text(_SYSTEM),)), Message("user", (Text(task), Image())))
    return DialogueProtocol("dialogue", VERSION, Prompt(messages, Generate(MAX_TOKENS)))


def turns_of(text: str) -> Turns | str:
    """Return the turns of a model's answer, or why it is left out, without any of its text."""
    first, last = text.find("{"), text.rfind("}")
    try:
        pairs = json.loads(text[first : last + 1])["turns"]
        turns = tuple(
            (role, pair[name].strip())
            for pair in pairs
            for role, name in (("user", "question"), ("assistant", "answer"))
        )
        "".join(words for _, words in turns).encode()  # JSON may hold half of a character
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return NO_FORM
    if not 2 <= len(turns) <= 2 * MAX_TURNS or not all(0 < len(words) <= MAX_CHARS for _, words in turns):
        return NO_FORM
    if any("<" in words for _, words in turns):  # a mark of a chat template, such as that of a picture
        return NO_FORM
    if any(may_repeat_text(words) for _, words in turns):
        return FOUND_TEXT
    if not any(_PRIVACY.search(words) for role, words in turns if role == "assistant"):
        return NO_PRIVACY
    return turns
