"""`binary`: is the image private, yes or no?

Variants: the wording `p1` (the default) … `p4`; `classes` adds the list of private content. By default the
answer must be the word alone, as tuned models give it, and anything else is a rejection. How else it is read:

- `lenient`: the word anywhere in a short answer, for models that were not tuned.
- `first`: nothing is generated; the probability of yes against no as the first token.
- `reason`: the word first, then one sentence of explanation.

Generated answers are left free, since a grammar would turn every refusal into an answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ingest.errors import EngineError
from scoring.assessment import Assessment, Outcome, Unscored, not_assessed
from scoring.protocols.interface import (
    Answer,
    FirstToken,
    FirstTokenAnswer,
    Generate,
    Prompt,
    ProtocolOptions,
    TextAnswer,
)
from scoring.protocols.reading import how_probable, own_words, probabilities_of, text_of, unparsable
from scoring.protocols.settings import refuse_rationale, refuse_thresholds, version, with_image
from scoring.protocols.texts import Texts, Wording, fill, load_texts
from scoring.protocols.yes_or_no import AnswerWords

Reading = Literal["strict", "lenient", "first", "reason"]

WORDINGS = ("p1", "p2", "p3", "p4")
READINGS: tuple[Reading, ...] = ("lenient", "first", "reason")
VARIANTS = (*WORDINGS, "classes", *READINGS)
REVISION = 3

MAX_TOKENS = {"strict": 8, "lenient": 16, "reason": 96}
SUM_TOLERANCE = 1e-3
"""Allowed difference from 1 of the sum of the probabilities of yes and no."""


class BinaryTexts(Texts):
    system: Wording
    p1: Wording
    p2: Wording
    p3: Wording
    p4: Wording
    classes: Wording
    answer: Wording
    answer_with_reason: Wording
    answers: AnswerWords = AnswerWords(yes=["Yes"], no=["No"])


@dataclass(frozen=True)
class BinaryProtocol:
    name: str
    version: str
    prompt: Prompt
    reading: Reading
    answers: AnswerWords
    keep_rationale: bool
    assessed: tuple[str, ...] = ()
    passes: int = 1

    def parse(self, answers: Sequence[Answer]) -> Outcome:
        if self.reading == "first":
            return _more_probable(answers[0])
        answer = text_of(answers[0])
        if isinstance(answer, Unscored):
            return answer
        is_yes: bool | Unscored
        reason = ""
        if self.reading == "reason":
            read = self.answers.first(answer.text)
            is_yes, reason = (read, "") if isinstance(read, Unscored) else read
        elif self.reading == "lenient":
            is_yes = self.answers.anywhere(answer.text, is_cut_off=answer.is_cut_off)
        else:
            is_yes = self.answers.exactly(answer.text)
        if isinstance(is_yes, Unscored):
            return is_yes
        probability = _prob_yes(answer, self.answers.candidates, is_yes)
        return _judged(is_yes, probability, own_words(reason) if self.keep_rationale else "")


def make(variants: frozenset[str], options: ProtocolOptions) -> BinaryProtocol:
    refuse_thresholds("binary", options)
    reading = _reading(variants)
    if reading != "reason":
        refuse_rationale("binary", options)
    texts = load_texts("binary", BinaryTexts, options.prompts)
    texts.answers.check()
    wordings = [wording for wording in WORDINGS if wording in variants] or ["p1"]
    if len(wordings) > 1:
        raise EngineError(f"the binary protocol has one wording at a time, not {' and '.join(wordings)}")
    parts = [wordings[0], *(["classes"] if "classes" in variants else [])]
    name = ",".join([f"binary:{wordings[0]}", *parts[1:], *([] if reading == "strict" else [reading])])
    parts.append("answer_with_reason" if reading == "reason" else "answer")
    asked = "\n\n".join(fill(part, getattr(texts, part), {}) for part in parts)
    wanted: FirstToken | Generate
    if reading == "first":
        wanted = FirstToken((tuple(texts.answers.yes), tuple(texts.answers.no)))
    else:
        wanted = Generate(MAX_TOKENS[reading], probability_tokens=texts.answers.candidates)
    prompt = Prompt(with_image(texts, texts.system, asked), wanted)
    full_version = version(name, REVISION, texts, [prompt], options)
    return BinaryProtocol(name, full_version, prompt, reading, texts.answers, options.keep_rationale)


def _reading(variants: frozenset[str]) -> Reading:
    chosen = [reading for reading in READINGS if reading in variants]
    if len(chosen) > 1:
        raise EngineError(f"the binary protocol reads an answer in one way, not {' and '.join(chosen)}; leave one out")
    return chosen[0] if chosen else "strict"


def _more_probable(answer: Answer) -> Outcome:
    """Judge the image private if yes is at least as probable as no."""
    if not isinstance(answer, FirstTokenAnswer):
        return unparsable("holds no probabilities of yes and no")
    probabilities = answer.probabilities
    is_valid = (
        len(probabilities) == 2 and all(p >= 0 for p in probabilities) and abs(sum(probabilities) - 1) <= SUM_TOLERANCE
    )
    if not is_valid:  # NaN fails every comparison
        return unparsable("holds no valid probabilities of yes and no")
    yes, no = probabilities
    return _judged(yes >= no, yes / (yes + no), "")


def _judged(is_private: bool, prob_private: float, reason: str) -> Assessment:
    """Build the assessment. prob_private: NaN if unknown."""
    kinds = [f"private{how_probable(prob_private)}"] if is_private else []
    return Assessment(
        not_assessed(),
        (*kinds, *([reason] if reason else [])),
        private=is_private,
        prob_private=None if np.isnan(prob_private) else prob_private,
    )


def _prob_yes(answer: TextAnswer, candidates: tuple[str, str], is_yes: bool) -> float:
    """Return P(yes) against no, 0–1, at the first token with a letter or sign; NaN if the word does not start there."""
    word = 0 if is_yes else 1
    for token in answer.tokens:
        if text := token.text.strip("\"'*` \n\t"):
            is_start = candidates[word].startswith(text)
            return probabilities_of(token, candidates, word)[0] if is_start else float("nan")
    return float("nan")
