"""`json`: the answer is one JSON object with a digit for each attribute, generated greedily.

Variant: `counterfactual`, faces are to be taken as anonymised.

The probabilities are those of 0, 1 and 2 at the value tokens, each conditioned on the values written before it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scoring.assessment import Assessment, Outcome, Unscored
from scoring.protocols.interface import Answer, Generate, Prompt, Protocol
from scoring.protocols.reading import DIGITS, evidence, form_probabilities, read_form, text_of
from scoring.protocols.texts import OneQuestionTexts, load_texts, version, with_image
from scoring.taxonomy import KEYS

VARIANTS = ("counterfactual",)
REVISION = 1

MAX_TOKENS = 1024
"""With the tokenizer of Qwen3 an answer is 114 to 181 tokens, by its white space; smaller vocabularies need more."""

MEANING: Mapping[float, float] = {0: 0.0, 1: 0.5, 2: 1.0}
"""Digit -> value."""


@dataclass(frozen=True)
class JsonProtocol(Protocol):
    def parse(self, answers: Sequence[Answer]) -> Outcome:
        answer = text_of(answers[0])
        if isinstance(answer, Unscored):
            return answer
        values = read_form(answer, MEANING)
        if isinstance(values, Unscored):
            return values
        probabilities = form_probabilities(answer)
        return Assessment(values, evidence(values, probabilities), (), probabilities)


def make(variants: frozenset[str], prompts: bytes | None) -> JsonProtocol:
    name = ":".join(["json", *variants])
    texts = load_texts("json", OneQuestionTexts, prompts)
    instructions = texts.question(variants, {})
    wanted = Generate(MAX_TOKENS, form_schema(MEANING), probability_tokens=DIGITS)
    prompt = Prompt(with_image(texts, texts.system, instructions), wanted)
    return JsonProtocol(name, version(name, REVISION, texts, [prompt]), prompt)


def form_schema(meaning: Mapping[float, float]) -> dict[str, object]:
    """Return the JSON schema of an object with a key per attribute, each one of the numbers of `meaning`."""
    return {
        "type": "object",
        "properties": {key: {"enum": list(meaning)} for key in KEYS},
        "required": list(KEYS),
        "additionalProperties": False,
    }
