"""`slots`: the answer is a form that the prompt holds, a slot per attribute; one prefill gives all probabilities.

Nothing is generated. The form comes after the picture, so that it is computed for each one: its slots have letters,
which the text before the picture explains. The digits in the slots condition those after them, so a model tuned for
this protocol must be tuned in the same form, placeholders included.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ingest.errors import EngineError
from scoring.assessment import Assessment, Outcome
from scoring.protocols.interface import Answer, Prompt, Protocol, SlotAnswer, Slots
from scoring.protocols.reading import evidence, most_probable, unparsable
from scoring.protocols.texts import OneQuestionTexts, Wording, fill, letter, load_texts, must_hold, version, with_image
from scoring.taxonomy import KEYS

VARIANTS = ("counterfactual", "digits")
"""digits: the form has digits alone, in the order of the attributes. Only a tuned model keeps count."""

REVISION = 1
SLOT_ALONE = "{slot}"

SUM_TOLERANCE = 1e-3
"""Allowed difference from 1 of the sum of the probabilities of a slot."""


class SlotsTexts(OneQuestionTexts):
    form_line: Wording
    placeholder: Wording


@dataclass(frozen=True)
class SlotsProtocol(Protocol):
    def parse(self, answers: Sequence[Answer]) -> Outcome:
        answer = answers[0]
        if not isinstance(answer, SlotAnswer):
            return unparsable("holds no probabilities of slots")
        probabilities = np.asarray(answer.probabilities, dtype=np.float32)
        if probabilities.shape != (len(KEYS), 3):
            return unparsable(f"does not have 3 probabilities for each of the {len(KEYS)} attributes")
        with np.errstate(invalid="ignore", over="ignore"):
            good = (probabilities >= 0).all(axis=1) & (np.abs(probabilities.sum(axis=1) - 1) <= SUM_TOLERANCE)
        if not good.all():
            return unparsable(f"has {(~good).sum()} of {len(KEYS)} slots without valid probabilities")
        values = most_probable(probabilities)
        return Assessment(values, evidence(values, probabilities), (), probabilities)


def make(variants: frozenset[str], prompts: bytes | None) -> SlotsProtocol:
    name = ":".join(["slots", *variants])
    texts = load_texts("slots", SlotsTexts, prompts)
    if len(texts.placeholder) != 1 or not texts.placeholder.isascii() or not texts.placeholder.isdigit():
        raise EngineError("the prompt file: placeholder must be a single digit, which is a single token")
    form_line = SLOT_ALONE if "digits" in variants else texts.form_line
    wanted = Slots(_pieces(form_line), texts.placeholder)
    if "digits" not in variants and "{letter}" not in form_line:
        must_hold("form_line", form_line, "key", "the form names no attribute; {letter} does, too")
    if wanted.placeholder in wanted.choices:
        raise EngineError(
            f"the prompt file: placeholder must be none of {', '.join(wanted.choices)}, which are the answers"
        )
    instructions = texts.question(variants, {"placeholder": texts.placeholder})
    prompt = Prompt(with_image(texts, texts.system, instructions), wanted)
    return SlotsProtocol(name, version(name, REVISION, texts, [prompt]), prompt)


def _pieces(form_line: str) -> tuple[str, ...]:
    """Return the text before each slot: the end of one line joins the beginning of the next."""
    mark = "\0"
    if form_line.count(SLOT_ALONE) != 1:
        raise EngineError("the prompt file: form_line must hold {slot} exactly once")
    lines = [fill("form_line", form_line, {"key": key, "letter": letter(key), "slot": mark}) for key in KEYS]
    return tuple("".join(lines).split(mark)[: len(KEYS)])
