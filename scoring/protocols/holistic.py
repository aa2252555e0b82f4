"""`severity`: one holistic score in [0, 1], without the attributes.

Variants: `zero-shot` (no guidance), `intuition` (what to weigh, in words) or `taxonomy` (the four levels with examples;
the default); none says how the true score is computed. `counterfactual`: faces are to be taken as anonymised.

The score is asked as a number, or as `{"<score_field>": number}` if the prompt file names that field. Both forms are
read in any case, also in a fence of Markdown.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ingest.errors import EngineError
from scoring.assessment import Assessment, Outcome, Unscored, not_assessed
from scoring.protocols.interface import Answer, Generate, Prompt, Protocol
from scoring.protocols.reading import text_of, unparsable
from scoring.protocols.texts import Texts, Wording, fill, load_texts, version, with_image
from scoring.severity import BANDS

MODES = ("zero-shot", "intuition", "taxonomy")
VARIANTS = (*MODES, "counterfactual")
REVISION = 1

MAX_TOKENS = 40
SCORE = r"0\.[0-9][0-9]|1\.00"
"""Form of the answer, for engines with structured output."""
SCORE_IN_FIELD = r"0(\.[0-9]{1,6})?|1(\.0{1,6})?"
USUAL_FIELDS = ("privacy_score", "score")
"""Names of the field that are read if the prompt file has none."""

_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}", re.ASCII)
_NUMBER = r"(?P<number>0?\.[0-9]{1,20}|0|1(?:\.0{1,20})?)"
_FENCED = re.compile(r"```(?:[a-z]{1,10})?\s*([^`]*?)\s*```", re.ASCII)


class SeverityTexts(Texts):
    system: Wording
    zero_shot: Wording
    intuition: Wording
    taxonomy: Wording
    counterfactual: Wording
    scale: Wording
    scale_in_field: Wording
    score_field: str | None = None


@dataclass(frozen=True)
class SeverityProtocol(Protocol):
    assessed: ClassVar[tuple[str, ...]] = ()

    fields: tuple[str, ...]
    score_field: str | None
    """Field in which the score is asked; None if it is asked as a plain number."""

    def answer(self, score: float) -> str:
        """Return the expected answer for a score of [0, 1]: two decimals, in the band of the score.

        0.711 is written 0.72: 0.71 would be of a less severe level.
        """
        number = f"{score:.2f}"
        if any(float(number) < lowest <= score for lowest, _ in BANDS):
            number = f"{math.ceil(score * 100) / 100:.2f}"
        return number if self.score_field is None else f'{{"{self.score_field}": {number}}}'

    def parse(self, answers: Sequence[Answer]) -> Outcome:
        answer = text_of(answers[0])
        if isinstance(answer, Unscored):
            return answer
        text = answer.text.strip()
        if fenced := _FENCED.fullmatch(text):
            text = fenced[1]
        in_field = rf'\{{\s*"(?:{"|".join(self.fields)})"\s*:\s*{_NUMBER}\s*\}}'
        if (score := re.fullmatch(_NUMBER, text) or re.fullmatch(in_field, text)) is None:
            return unparsable("is not one number from 0 to 1", answer)
        return Assessment(not_assessed(), holistic_score=float(score["number"]))


def make(variants: frozenset[str], prompts: bytes | None) -> SeverityProtocol:
    texts = load_texts("severity", SeverityTexts, prompts)
    modes = [mode for mode in MODES if mode in variants] or ["taxonomy"]
    if len(modes) > 1:
        raise EngineError(f"the severity protocol has one mode at a time, not {' and '.join(modes)}")
    parts = [modes[0].replace("-", "_"), *(["counterfactual"] if "counterfactual" in variants else [])]
    name = ",".join([f"severity:{modes[0]}", *parts[1:]])
    field = texts.score_field
    if field is None:
        scale, form = fill("scale", texts.scale, {}), SCORE
    else:
        if not _FIELD.fullmatch(field):
            raise EngineError("the prompt file: score_field must be a name of at most 40 letters, digits and _")
        scale = fill("scale_in_field", texts.scale_in_field, {"field": field})
        form = rf'\{{"{field}": ({SCORE_IN_FIELD})\}}'
    question = "\n\n".join([*(fill(part, getattr(texts, part), {}) for part in parts), scale])
    prompt = Prompt(with_image(texts, texts.system, question), Generate(MAX_TOKENS, regex=form))
    fields = USUAL_FIELDS if field is None else (field,)
    return SeverityProtocol(name, version(name, REVISION, texts, [prompt]), prompt, fields, field)
