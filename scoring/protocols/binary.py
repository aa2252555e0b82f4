"""`binary`: is the image private, yes or no?

Variants: the wording `ours-1` (the default) … `ours-4`; `class-names` adds the names of what is private, `classes`
their definitions. By default the answer must be the word alone, as tuned models give it, and anything else is a
rejection. How else it is read:

- `lenient`: the word anywhere in a short answer, for models that were not tuned.
- `first`: nothing is generated; the probability of yes against no as the first token.
- `reason`: the word first, then a sentence of explanation. The sentence is not stored, since it can repeat what the
  picture shows; of a private picture the known kinds of content that it names are. Their words are ours and English; a
  sentence in another language has no kinds. They are counted by category and can be summarised, as Samson et al.,
  "Privacy-Aware Visual Language Models", do with the sentences themselves.

Generated answers are left free, since a grammar would turn every refusal into an answer.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

import numpy as np

from ingest.errors import EngineError
from scoring.assessment import Assessment, Outcome, Unscored, not_assessed
from scoring.protocols.interface import Answer, FirstToken, FirstTokenAnswer, Generate, Prompt, Protocol, TextAnswer
from scoring.protocols.reading import how_probable, probabilities_of, text_of, unparsable
from scoring.protocols.texts import Texts, Wording, fill, load_texts, version, with_image
from scoring.protocols.yes_or_no import AnswerWords

Reading = Literal["strict", "lenient", "first", "reason"]
Variant = TypeVar("Variant", bound=str)

WORDINGS = ("ours-1", "ours-2", "ours-3", "ours-4")
LISTS = ("class-names", "classes")
READINGS: tuple[Reading, ...] = ("lenient", "first", "reason")

VARIANTS = (*WORDINGS, *LISTS, *READINGS)
REVISION = 1

MAX_TOKENS = {"strict": 8, "lenient": 16, "reason": 96}
SUM_TOLERANCE = 1e-3
"""Allowed difference from 1 of the sum of the probabilities of yes and no."""


class BinaryTexts(Texts):
    system: Wording
    ours_1: Wording
    ours_2: Wording
    ours_3: Wording
    ours_4: Wording
    class_names: Wording
    classes: Wording
    answer: Wording
    answer_with_reason: Wording
    answers: AnswerWords = AnswerWords(yes=["Yes"], no=["No"])


@dataclass(frozen=True)
class BinaryProtocol(Protocol):
    assessed: ClassVar[tuple[str, ...]] = ()

    reading: Reading
    answers: AnswerWords

    def parse(self, answers: Sequence[Answer]) -> Outcome:
        if self.reading == "first":
            return _more_probable(answers[0])
        answer = text_of(answers[0])
        if isinstance(answer, Unscored):
            return answer
        is_yes: bool | Unscored
        if self.reading == "reason":
            is_yes = self.answers.first(answer.text)
        elif self.reading == "lenient":
            is_yes = self.answers.anywhere(answer.text, is_cut_off=answer.is_cut_off)
        else:
            is_yes = self.answers.exactly(answer.text)
        if isinstance(is_yes, Unscored):
            return is_yes
        probability = _prob_yes(answer, self.answers.candidates, is_yes)
        return _judged(is_yes, probability, kinds_in(answer.text) if self.reading == "reason" else ())


def make(variants: frozenset[str], prompts: bytes | None) -> BinaryProtocol:
    reading = _one_of("reading", READINGS, variants) or "strict"
    wording = _one_of("wording", WORDINGS, variants) or WORDINGS[0]
    texts = load_texts("binary", BinaryTexts, prompts)
    texts.answers.check()
    listed = _one_of("list of what is private", LISTS, variants)
    endings = [part for part in (listed, None if reading == "strict" else reading) if part]
    parts = [wording, *([listed] if listed else []), "answer_with_reason" if reading == "reason" else "answer"]
    asked = "\n\n".join(fill(part, getattr(texts, part.replace("-", "_")), {}) for part in parts)
    wanted: FirstToken | Generate
    if reading == "first":
        wanted = FirstToken((tuple(texts.answers.yes), tuple(texts.answers.no)))
    else:
        wanted = Generate(MAX_TOKENS[reading], probability_tokens=texts.answers.candidates)
    prompt = Prompt(with_image(texts, texts.system, asked), wanted)
    name = ",".join([f"binary:{wording}", *endings])
    return BinaryProtocol(name, version(name, REVISION, texts, [prompt]), prompt, reading, texts.answers)


def _one_of(what: str, known: Sequence[Variant], variants: frozenset[str]) -> Variant | None:
    """Return the variant that is one of `known`, if any. EngineError if several are."""
    chosen = [name for name in known if name in variants]
    if len(chosen) > 1:
        raise EngineError(f"the binary protocol has one {what} at a time, not {' and '.join(chosen)}")
    return chosen[0] if chosen else None


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
    return _judged(yes >= no, yes / (yes + no))


def _judged(is_private: bool, prob_private: float, kinds: tuple[str, ...] = ()) -> Assessment:
    """Build the assessment. prob_private: NaN if unknown. kinds: what a reason names."""
    return Assessment(
        not_assessed(),
        (f"private{how_probable(prob_private)}", *kinds) if is_private else (),
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


PREFIX = "reason: "

_WORDS = {
    "face": r"faces?|facial|recogni[sz]able|identifiable|identif(?:y|ied)",
    "people": r"people|persons?|individuals?|man|men|woman|women|crowds?",
    "child": r"child(?:ren)?|bab(?:y|ies)|kids?|minors?|toddlers?",
    "fingerprint": r"fingerprints?",
    "identity document": r"passports?|visas?|identity (?:card|document)s?|id cards?|driv(?:er|ing)['’]?s? licen[cs]es?",
    "bank card": r"(?:credit|debit|bank|payment) cards?|card numbers?",
    "licence plate": r"(?:licen[cs]e|number|registration) plates?",
    "name": r"names?|signatures?",
    "contact details": r"phone numbers?|e-?mail address(?:es)?|home address(?:es)?|address(?:es)?",
    "messages": r"messages?|chats?|conversations?|e-?mails?",
    "document": r"documents?|letters?|forms?|papers?|receipts?|invoices?",
    "screen": r"screens?|monitors?|computers?|laptops?",
    "medical": r"medical|patients?|hospitals?|medications?|prescriptions?|injur(?:y|ies)|surgery",
    "nudity": r"nud(?:e|ity)|naked|underwear|undressed|sexual",
    "tattoo": r"tattoos?|scars?|birthmarks?",
    "belief": r"religious|religion|political|party|church|mosque|temple",
    "home": r"homes?|bedrooms?|bathrooms?|living rooms?|houses?|apartments?",
    "place": r"street signs?|landmarks?|locations?",
    "military or police": r"military|soldiers?|police|army",
}

REASON_KINDS = tuple(f"{PREFIX}{name}" for name in _WORDS)
"""All kinds. No other text of a model becomes evidence."""

_KNOWN = {f"{PREFIX}{name}": re.compile(rf"\b(?:{words})\b", re.IGNORECASE) for name, words in _WORDS.items()}
_DENIED = re.compile(r"\b(?:no|not|nor|neither|never|without)\b(?:\W+\w+){0,3}\W*$", re.IGNORECASE)
"""Before a word that the sentence denies, within the clause."""

MAX_CHARS = 1000
"""Characters of a sentence that are read."""


def kinds_in(sentence: str) -> tuple[str, ...]:
    """Return the kinds that a sentence affirms, in the order of `REASON_KINDS`.

    >>> kinds_in("Yes. It shows a passport and no face.")
    ('reason: identity document',)
    """
    clauses = re.split(r"[,.;:!?]|\b(?:and|but)\b(?= (?:shows?|has|there))", sentence[:MAX_CHARS])
    return tuple(kind for kind, words in _KNOWN.items() if any(_affirms(words, clause) for clause in clauses))


def _affirms(words: re.Pattern[str], clause: str) -> bool:
    return any(_DENIED.search(clause[: match.start()]) is None for match in words.finditer(clause))
