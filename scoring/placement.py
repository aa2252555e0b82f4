"""On which level of the taxonomy something belongs: four questions, of which the first that is answered yes decides.

Source: Tsaprazlis et al., "Rethinking Visual Privacy", appendix B.1, in our own words. The paper does not say what four
times no means; here it means that the taxonomy has no place for it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from scoring.taxonomy import LEVELS


@dataclass(frozen=True)
class PlacingQuestion:
    """A question about one kind of information, such as a passport number."""

    level: int
    """The level of what is answered yes."""

    text: str
    worked_cases: tuple[str, ...]
    """What the paper answers with yes here, and with no before."""


QUESTIONS = (
    PlacingQuestion(
        1,
        "Does it belong to one person permanently, and is it enough to identify that person without anything else?",
        (
            "passport number",
            "recognisable face",
            "fingerprint",
            "driver's licence number",
            "social security number",
        ),
    ),
    PlacingQuestion(
        2,
        "Was it assigned to a person, or does it reveal something sensitive about one?",
        (
            "full legal name",
            "diagnosis",
            "pregnancy",
            "party membership",
            "sexual orientation (inferred)",
            "race or ethnicity",
            "mental condition, such as depression",
        ),
    ),
    PlacingQuestion(
        3,
        "Does it identify no one alone, and help to identify or profile somebody in combination with other things?",
        ("age", "gender", "occupation", "location at the level of a city", "hobby, such as running marathons"),
    ),
    PlacingQuestion(
        4,
        "Is it harmless in general, and private in some situations?",
        ("interior of a home", "expensive watch"),
    ),
)


def level_of_answers(answers: Iterator[bool]) -> int | None:
    """Take answers to `QUESTIONS` until one is yes: its level, 1–4. None if there are four times no.

    No further answer is taken, so an iterator can ask a person.
    """
    for question, is_yes in zip(QUESTIONS, answers, strict=False):
        if is_yes:
            return question.level
    return None


def placed(level: int | None) -> str:
    """Say where something belongs, in words."""
    if level is None:
        return "none of the four levels: the taxonomy has no place for it"
    return f"level {level}, {LEVELS[level]}"
