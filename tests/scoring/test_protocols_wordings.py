"""What protocols ask: the words stay, and do not say how the severity is computed."""

import re

import pytest

from scoring.protocols.interface import Prompt, Text
from tests.scoring.asking import VERSIONS, ask


@pytest.mark.parametrize("name", VERSIONS)
def test_a_run_that_begins_today_can_be_continued_later(name: str) -> None:
    assert ask(name).version == VERSIONS[name]


GIVES_THE_SCORE_AWAY = re.compile(
    r"outweigh|weighs? more|any number of|more details|decides? first|how many|number of|the count|within (?:it|the)"
    r"|below it|lexicographic|square root|formula|\bband|0\.[0-9]*[1-9]|\b330\b|\b30\b|very bottom",
    re.IGNORECASE,
)
"""Words that state how the true score is computed: the order of levels by counts, and the limits of its bands."""


def said(prompt: Prompt) -> str:
    return "\n".join(part.text for message in prompt.messages for part in message.parts if isinstance(part, Text))


@pytest.mark.parametrize("mode", ["zero-shot", "intuition", "taxonomy", "intuition,counterfactual"])
def test_no_severity_prompt_says_how_the_score_is_computed(mode: str) -> None:
    assert GIVES_THE_SCORE_AWAY.findall(said(ask(f"severity:{mode}").prompt)) == []


def test_taxonomy_names_the_elements_of_the_papers_prompt() -> None:
    text = " ".join(said(ask("severity:taxonomy").prompt).split())
    levels = re.split(r"- Level \d", text)[1:]
    for level, elements in enumerate(
        (
            ("biometric", "government"),
            ("user names", "dates of birth", "medical", "financial", "nudity", "race", "mental health"),
            ("age", "looks", "addresses", "landmarks", "habits"),
            ("vehicles", "homes without an address", "documents", "background", "crowds"),
        )
    ):
        assert [element for element in elements if element not in levels[level]] == []
    assert not re.search("tattoo|scar|birthmark", text), "the paper's prompt names no body markings"
    for guidance in ("highest-risk element", "cumulative risk", "own judgement", "must be above 0"):
        assert guidance in text
