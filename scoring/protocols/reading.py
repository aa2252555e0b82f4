"""Reads a model's answers. Text in the image may steer the model, so nothing that it wrote is trusted: nothing
raises, and no word of it gets into a message.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

import numpy as np

from scoring.assessment import Unscored, Values
from scoring.protocols.interface import Answer, Probabilities, TextAnswer, Token
from scoring.taxonomy import KEYS

MAX_ANSWER_CHARS = 50_000
"""Longer than any valid answer to any protocol; longer answers are not read."""

DIGITS = ("0", "1", "2")
"""Digits of a form whose probabilities are needed: absent, ambiguous, present."""

MIN_SHARE = 0.5
"""Share of the probability that the candidates must have together if the written token is not exactly one of them. With
less they are not what the model chose between, and dividing by their sum would make certainty out of noise."""

_FENCED = re.compile(r"```(?:json)?\s*(\{.*\})\s*```", re.DOTALL)


def unparsable(what: str, answer: TextAnswer | None = None) -> Unscored:
    """Return the outcome of an unreadable answer. what: its fault, without a word of the answer."""
    cut_off = "; it was cut off at the token limit" if answer is not None and answer.is_cut_off else ""
    return Unscored("unparsable", f"the answer {what}{cut_off}")


def text_of(answer: Answer) -> TextAnswer | Unscored:
    """Return the answer if it is a text of acceptable length."""
    if not isinstance(answer, TextAnswer):
        return unparsable("is no text")
    if len(answer.text) > MAX_ANSWER_CHARS:
        return unparsable(f"has {len(answer.text):,} characters, more than any answer needs", answer)
    return answer


def read_form(answer: TextAnswer, meaning: Mapping[float, float]) -> Values | Unscored:
    """Parse an object with a number for each attribute to values, shape (attributes,).

    meaning: number that may be answered -> value. Keys may come in any order, but each once and no other.
    """
    stripped = answer.text.strip()
    fenced = _FENCED.fullmatch(stripped)
    try:
        pairs = json.loads(fenced[1] if fenced else stripped, object_pairs_hook=_Pairs, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return unparsable("is not valid JSON", answer)
    if not isinstance(pairs, _Pairs):
        return unparsable("is not a JSON object")
    if len({key for key, _ in pairs}) < len(pairs):
        return unparsable("names an attribute twice")
    form = dict(pairs)
    if form.keys() != set(KEYS):
        known = sum(key in form for key in KEYS)
        return unparsable(f"holds {known} of the {len(KEYS)} attributes and {len(form) - known} other keys")
    values = [_meant(form[key], meaning) for key in KEYS]
    if wrong := values.count(None):
        return unparsable(f"holds {wrong} values that are none of {', '.join(f'{number:g}' for number in meaning)}")
    return np.array(values, dtype=np.float32)


def form_probabilities(answer: TextAnswer) -> Probabilities | None:
    """Return the probabilities of 0, 1 and 2 at the value tokens of a form that `read_form` has read.

    Shape (attributes, 3), rows summing to 1; rows are NaN if a value is not a token of its own, or one that its
    probabilities do not cover (`probabilities_of`). None if no token has any.
    """
    if not any(token.probabilities for token in answer.tokens):
        return None
    ends = list(accumulate(len(token.text) for token in answer.tokens))
    probabilities = np.full((len(KEYS), 3), np.nan, dtype=np.float32)
    for i, key in enumerate(KEYS):
        written = re.search(rf'"{key}"\s*:\s*([012])(?![\d.eE])', answer.text)
        if written is None or written.start(1) >= (ends[-1] if ends else 0):
            continue
        token = answer.tokens[bisect_right(ends, written.start(1))]
        if token.text.strip(' ",:{}\n\t') == written[1]:
            probabilities[i] = probabilities_of(token, DIGITS, int(written[1]))
    return probabilities


def probabilities_of(token: Token, candidates: Sequence[str], written: int) -> Sequence[float]:
    """Return the token's probabilities of the candidates, summing to 1; NaN if they are not about what was written.

    written: index of the candidate that the token means. The token itself may be another than the candidate's, such as
    one with a space before the word; then the candidates count from `MIN_SHARE` on, which an engine that adds up such
    spellings reaches. Answers are greedy, so where another candidate is more probable these are not the token's.
    """
    values = token.probabilities or ()
    total = sum(values)
    # NaN fails every comparison.
    is_valid = len(values) == len(candidates) and all(0 <= p <= 1.001 for p in values) and total > 0
    counts = is_valid and (token.text == candidates[written] or total >= MIN_SHARE) and values[written] == max(values)
    return [p / total for p in values] if counts else (float("nan"),) * len(candidates)


def evidence(values: Values, probabilities: Probabilities | None = None) -> tuple[str, ...]:
    """Return the attributes judged present, most severe first, with their probability in words if known."""
    chances: Iterable[float] = np.full(len(KEYS), np.nan) if probabilities is None else probabilities[:, 2]
    return tuple(key + how_probable(float(p)) for key, v, p in zip(KEYS, values, chances, strict=True) if v == 1)


def how_probable(probability: float) -> str:
    """Return ` (high probability)` and the like; an empty string if unknown."""
    if np.isnan(probability):
        return ""
    name = "high" if probability >= 0.9 else "moderate" if probability >= 0.6 else "low"
    return f" ({name} probability)"


class _Pairs(list[tuple[str, object]]):
    """A JSON object as written, so that a repeated key is noticed."""


def _refuse(constant: str) -> object:
    raise ValueError("NaN and Infinity are not JSON")


def _meant(number: object, meaning: Mapping[float, float]) -> float | None:
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return meaning.get(number)


CLASS_VALUES = np.array([0.0, 0.5, 1.0], dtype=np.float32)
"""Values of the classes absent, ambiguous, present."""


def most_probable(probabilities: Probabilities) -> Values:
    """Return the most probable class, (attributes, 3) -> (attributes,); of equal ones the more severe."""
    chosen = 2 - np.argmax(probabilities[:, ::-1], axis=1)
    values: Values = CLASS_VALUES[chosen]
    return values
