"""`severity`: one holistic score in [0, 1], without the 22 attributes.

Variants: `zero-shot` (no guidance), `intuition` (what makes an image severe, in words) or `taxonomy` (the four levels
with examples; the default); none states bands or formula. `counterfactual`: faces are to be taken as anonymised.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ingest.errors import EngineError
from scoring.assessment import Assessment, Outcome, Unscored, not_assessed
from scoring.protocols.interface import Answer, Generate, Prompt, ProtocolOptions
from scoring.protocols.reading import text_of, unparsable
from scoring.protocols.settings import refuse_rationale, refuse_thresholds, version, with_image
from scoring.protocols.texts import Texts, Wording, fill, load_texts

MODES = ("zero-shot", "intuition", "taxonomy")
VARIANTS = (*MODES, "counterfactual")
REVISION = 1

MAX_TOKENS = 12
SCORE = r"0\.[0-9][0-9]|1\.00"

_READ = re.compile(r"(?:0(?:\.[0-9]{1,4})?|1(?:\.0{1,4})?)", re.ASCII)


class SeverityTexts(Texts):
    system: Wording
    zero_shot: Wording
    intuition: Wording
    taxonomy: Wording
    counterfactual: Wording
    scale: Wording


@dataclass(frozen=True)
class SeverityProtocol:
    name: str
    version: str
    prompt: Prompt
    assessed: tuple[str, ...] = ()
    passes: int = 1

    def parse(self, answers: Sequence[Answer]) -> Outcome:
        answer = text_of(answers[0])
        if isinstance(answer, Unscored):
            return answer
        if (score := _READ.fullmatch(answer.text.strip())) is None:
            return unparsable("is not one number from 0 to 1", answer)
        return Assessment(not_assessed(), holistic_score=float(score[0]))


def make(variants: frozenset[str], options: ProtocolOptions) -> SeverityProtocol:
    refuse_rationale("severity", options)
    refuse_thresholds("severity", options)
    texts = load_texts("severity", SeverityTexts, options.prompts)
    modes = [mode for mode in MODES if mode in variants] or ["taxonomy"]
    if len(modes) > 1:
        raise EngineError(f"the severity protocol has one mode at a time, not {' and '.join(modes)}")
    parts = [modes[0].replace("-", "_"), *(["counterfactual"] if "counterfactual" in variants else []), "scale"]
    asked = "\n\n".join(fill(part, getattr(texts, part), {}) for part in parts)
    prompt = Prompt(with_image(texts, texts.system, asked), Generate(MAX_TOKENS, regex=SCORE))
    name = ",".join([f"severity:{modes[0]}", *parts[1:-1]])
    return SeverityProtocol(name, version(name, REVISION, texts, [prompt], options), prompt)
