"""`binary`: what counts as yes or no, how probable it is, and what is a rejection."""

import numpy as np
import pytest

from scoring.assessment import Unscored
from scoring.protocols.binary import REASON_KINDS, kinds_in
from scoring.protocols.interface import Generate, TextAnswer, Token
from tests.scoring.asking import ask, assessed


@pytest.mark.parametrize(
    ("name", "text", "private"),
    [
        ("binary", "Yes", True),
        ("binary", " no.", False),
        ("binary:OURS-3,classes", '"Yes"', True),
        ("binary:reason", "Yes. A face can be recognised.", True),
        ("binary:reason", "**No** - only a landscape.", False),
        ("binary:reason", "No", False),
        ("binary:reason", "Yes because a face can be recognised.", True),
        ("binary:reason", "Yes a face can be recognised.", True),
        ("binary:reason", "no - there is nobody.", False),
        ("binary:reason", "No – nobody – is there.", False),
        ("binary:reason", "No—only a landscape.", False),
        ("binary:reason", "Yes\nA face can be recognised.", True),
        ("binary:reason", "**Yes.** A face can be recognised.", True),
        ("binary:reason", "No. I cannot see a person, and I can't identify one.", False),
        ("binary:reason", "No, a card that says sorry lies there.", False),
        ("binary:reason", "No. Nobody is there to help.", False),
    ],
)
def test_binary_answers(name: str, text: str, private: bool) -> None:
    outcome = assessed(ask(name).parse([TextAnswer(text)]))
    assert outcome.private is private
    assert outcome.prob_private is None
    of_reason = ("reason: face",) if "A face" in text or "a face" in text else ()
    assert outcome.evidence == (("private", *of_reason) if private else ())
    assert np.isnan(outcome.values).all()


@pytest.mark.parametrize(
    ("sentence", "kinds"),
    [
        ("Yes. A passport of Jane Roe, born 1980, lies on a desk.", ["identity document"]),
        ("Yes. There is no face, but a licence plate can be read.", ["licence plate"]),
        ("Yes. A man without a tattoo sits in a bedroom.", ["people", "home"]),
        ("Yes. It shows credit cards and names.", ["bank card", "name"]),
        ("Yes. The surface of a facet.", []),  # whole words only
        ("Yes. Personal.", []),
        ("Yes. Messages on a screen; never a name.", ["messages", "screen"]),
        ("No. A face that is painted.", None),
    ],
)
def test_of_a_reason_only_known_kinds_are_kept(sentence: str, kinds: list[str] | None) -> None:
    evidence = assessed(ask("binary:reason").parse([TextAnswer(sentence)])).evidence
    assert list(evidence) == ([] if kinds is None else ["private", *(f"reason: {kind}" for kind in kinds)])
    assert set(evidence) <= {"private", *REASON_KINDS}


def test_a_long_reason_costs_no_time_and_other_readings_have_no_kinds() -> None:
    assert kinds_in("no " * 200_000 + "face") == ()
    assert kinds_in("a face " * 200_000) == ("reason: face",)
    assert assessed(ask("binary:lenient").parse([TextAnswer("Yes, a face")])).evidence == ("private",)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("binary", "Yes. It shows a face."),
        ("binary", "No, it does not."),
        ("binary:reason", "No idea."),
        ("binary:reason", "No-one can be seen, I cannot say"),
        ("binary:reason", "No–one can be seen"),
        ("binary:reason", "No one can be seen, I cannot say"),
        ("binary:reason", "No comment"),
        ("binary:reason", "Not private."),
        ("binary:reason", "No asterisk"),
        ("binary:reason", "The answer is yes."),
    ],
)
def test_anything_but_yes_or_no_is_a_rejection(name: str, text: str) -> None:
    assert ask(name).parse([TextAnswer(text)]) == Unscored("rejection", "the answer is neither yes nor no")


@pytest.mark.parametrize(
    "text",
    [
        "No, I'm sorry, I can't help with identifying this.",
        "No. Sorry, but that is not for me to say.",
        "Yes. I cannot assist with that request.",
        "Yes: I am unable to answer questions about people.",
        "**No.** I apologise for that.",
        "no - I won’t help with that",
    ],
)
def test_yes_or_no_with_a_refusal_behind_it_is_a_rejection(text: str) -> None:
    for name in ("binary:reason", "binary:lenient"):
        assert ask(name).parse([TextAnswer(text)]) == Unscored("rejection", "the answer is a refusal")


def test_binary_leaves_the_model_free_to_refuse() -> None:
    wanted = ask("binary").prompt.wanted
    assert isinstance(wanted, Generate)
    assert wanted.json_schema is None
    assert wanted.regex is None


def test_prob_private_is_yes_against_no_at_the_first_word() -> None:
    tokens = (Token("\n", (0.0, 0.0)), Token("Yes", (0.6, 0.2)), Token(".", (0.0, 0.0)))
    outcome = assessed(ask("binary").parse([TextAnswer("\nYes.", tokens)]))
    assert outcome.prob_private == pytest.approx(0.75)
    assert outcome.evidence == ("private (moderate probability)",)
    shouted = assessed(ask("binary").parse([TextAnswer("YES", (Token("YES", (1e-9, 1e-12)),))]))
    assert shouted.prob_private is None, "the candidates were not what was written"
    broken = assessed(ask("binary").parse([TextAnswer("Yes", (Token("Yes", (float("nan"), 0.1)),))]))
    assert broken.prob_private is None


@pytest.mark.parametrize(
    ("written", "chances", "prob_private"),
    [
        ("No", (1e-9, 3e-9), 0.25),
        (" No", (1e-8, 1e-9), None),
        (" No", (1e-9, 1e-8), None),
        (" No", (0.2, 0.6), 0.25),
        (" No", (0.6, 0.2), None),
        ("No", (0.6, 0.2), None),
        ("No", (0.5, 0.5), 0.5),
        ("N", (1e-9, 1e-8), None),
        ("N", (0.2, 0.6), 0.25),
        ("Yes", (0.2, 0.6), None),
    ],
)
def test_prob_private_speaks_of_the_word_that_was_written(
    written: str, chances: tuple[float, float], prob_private: float | None
) -> None:
    tokens = (Token(written, chances), Token("o") if written == "N" else Token("."))
    text = "".join(token.text for token in tokens)
    outcome = assessed(ask("binary").parse([TextAnswer(text, tokens)]))
    assert outcome.private is (written == "Yes")
    assert outcome.prob_private == (prob_private if prob_private is None else pytest.approx(prob_private))
