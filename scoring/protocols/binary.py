"""`binary`: is the image private, yes or no? Anything else is a rejection, which is counted as such.

Variants: the wording `p1` (the default) … `p4`; `classes` adds the list of what counts as private; `reason` asks for
one sentence of explanation. The answer is left free, since a grammar would turn every refusal into an answer.

With a reason the word must be done before the reason begins, since "No idea" and "No-one can say" are no answers.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ingest.errors import EngineError
from scoring.assessment import Assessment, Outcome, Unscored, not_assessed
from scoring.protocols.interface import Answer, Generate, Prompt, ProtocolOptions, TextAnswer
from scoring.protocols.reading import how_probable, own_words, probabilities_of, text_of
from scoring.protocols.settings import refuse_rationale, refuse_thresholds, version, with_image
from scoring.protocols.texts import Texts, Wording, fill, load_texts

WORDINGS = ("p1", "p2", "p3", "p4")
VARIANTS = (*WORDINGS, "classes", "reason")
REVISION = 2

MAX_TOKENS = 8
MAX_TOKENS_WITH_REASON = 96
CANDIDATES = ("Yes", "No")

_QUOTES = "\"'*` \n\t"
_WORD = re.compile(r"(yes|no)[.!]?", re.IGNORECASE | re.ASCII)
_WORD_AND_REASON = re.compile(
    r"[\"'*`]*(?P<word>yes|no)[\"'*`]*"
    r"(?:\s*(?:$|[.,:;!\n—]|[-–](?=\s|$))|\s+(?=(?:because|since|as|it|this|the|there|an?)\b))(?P<reason>.*)",
    re.IGNORECASE | re.ASCII | re.DOTALL,
)
"""The word ends with the text, punctuation, a dash with a space after it, a line, or before a word that begins a reason
and cannot belong to "no"."""

_REFUSAL = re.compile(
    r"\W*(?:but )?(?:(?:I['’]m|I am) )?(?:very |so )?"
    r"(?:sorry|I apologi[sz]e"
    r"|(?:unable to|I can['’]t|I cannot|I can not|I won['’]t|I will not) (?:help|assist|answer))\b",
    re.IGNORECASE,
)
"""How a reason begins that takes the word back. Not "I cannot see a person", which is a reason."""


class BinaryTexts(Texts):
    system: Wording
    p1: Wording
    p2: Wording
    p3: Wording
    p4: Wording
    classes: Wording
    answer: Wording
    answer_with_reason: Wording


@dataclass(frozen=True)
class BinaryProtocol:
    name: str
    version: str
    prompt: Prompt
    has_reason: bool
    keep_rationale: bool
    assessed: tuple[str, ...] = ()
    passes: int = 1

    def parse(self, answers: Sequence[Answer]) -> Outcome:
        answer = text_of(answers[0])
        if isinstance(answer, Unscored):
            return answer
        read = _WORD_AND_REASON.fullmatch(answer.text.strip()) if self.has_reason else None
        word = read["word"] if read else _plain_word(answer.text)
        if word is None:
            return Unscored("rejection", "the answer is neither yes nor no")
        if read and _REFUSAL.match(read["reason"]):
            return Unscored("rejection", "the answer is a refusal behind yes or no")
        is_private = word.lower() == "yes"
        probability = _prob_yes(answer, is_private)
        reason = own_words(read["reason"]) if read and self.keep_rationale else ""
        kinds = [f"private{how_probable(probability)}"] if is_private else []
        return Assessment(
            not_assessed(),
            (*kinds, *([reason] if reason else [])),
            private=is_private,
            prob_private=None if np.isnan(probability) else probability,
        )


def make(variants: frozenset[str], options: ProtocolOptions) -> BinaryProtocol:
    refuse_thresholds("binary", options)
    has_reason = "reason" in variants
    if not has_reason:
        refuse_rationale("binary", options)
    texts = load_texts("binary", BinaryTexts, options.prompts)
    wordings = [wording for wording in WORDINGS if wording in variants] or ["p1"]
    if len(wordings) > 1:
        raise EngineError(f"the binary protocol has one wording at a time, not {' and '.join(wordings)}")
    parts = [wordings[0], *(["classes"] if "classes" in variants else [])]
    name = ",".join([f"binary:{wordings[0]}", *parts[1:], *(["reason"] if has_reason else [])])
    parts.append("answer_with_reason" if has_reason else "answer")
    asked = "\n\n".join(fill(part, getattr(texts, part), {}) for part in parts)
    max_tokens = MAX_TOKENS_WITH_REASON if has_reason else MAX_TOKENS
    prompt = Prompt(with_image(texts.system, asked), Generate(max_tokens, probability_tokens=CANDIDATES))
    full_version = version(name, REVISION, texts, [prompt], options)
    return BinaryProtocol(name, full_version, prompt, has_reason, options.keep_rationale)


def _plain_word(text: str) -> str | None:
    read = _WORD.fullmatch(text.strip(_QUOTES))
    return read[1] if read else None


def _prob_yes(answer: TextAnswer, is_yes: bool) -> float:
    """P(yes) against no, 0–1, at the first token with a letter or sign; NaN if the answer does not start there."""
    word = 0 if is_yes else 1
    for token in answer.tokens:
        if text := token.text.strip(_QUOTES):
            is_start = CANDIDATES[word].startswith(text)
            return probabilities_of(token, CANDIDATES, word)[0] if is_start else float("nan")
    return float("nan")
