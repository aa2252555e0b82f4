"""`binary`: lenient readings, answers in other languages, kinds of rejections, and the first token."""

import re

import numpy as np
import pytest

from ingest.errors import EngineError
from scoring.assessment import Unscored
from scoring.protocols.interface import Answer, FirstToken, FirstTokenAnswer, Generate, Image, Text, TextAnswer
from scoring.protocols.yes_or_no import REJECTIONS
from tests.scoring.asking import ALL_NAMES, ask, assessed

REJECTED = {
    "": "the answer is empty",
    " \n**": "the answer is empty",
    "Yes and no": "the answer says both yes and no",
    "Yes/No": "the answer says both yes and no",
    "I cannot answer that.": "the answer is a refusal",
    "I'm sorry, but I can't assist with that.": "the answer is a refusal",
    "Not private.": "the answer is neither yes nor no",
    "No-one can be seen": "the answer is neither yes nor no",
    "Nothing to see, yesterday": "the answer is neither yes nor no",
}


@pytest.mark.parametrize("name", ["binary", "binary:reason", "binary:lenient"])
@pytest.mark.parametrize("text", REJECTED)
def test_the_kind_of_a_rejection_is_kept_and_no_word_of_it(name: str, text: str) -> None:
    assert ask(name).parse([TextAnswer(text)]) == Unscored("rejection", REJECTED[text])
    assert set(REJECTED.values()) == set(REJECTIONS.values())


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ("Yes, the image contains a face", True),
        ("No, it does not.", False),
        ("Answer: Yes", True),
        ("Yes.\nThe", True),
        ("_yes_", True),
        ("The picture has none: NO", False),
        ("I cannot see anything private, no.", False),
        ("Yes yes yes", True),
    ],
)
def test_a_lenient_reading_finds_the_word_anywhere(text: str, private: bool) -> None:
    assert assessed(ask("binary:lenient").parse([TextAnswer(text)])).private is private


def test_a_word_at_the_end_of_an_answer_that_was_cut_off_may_be_part_of_another() -> None:
    asked = ask("binary:lenient")
    assert isinstance(asked.parse([TextAnswer("On the desk lies a no", is_cut_off=True)]), Unscored)
    assert assessed(asked.parse([TextAnswer("No: on the desk lies a no", is_cut_off=True)])).private is False


@pytest.mark.parametrize(
    ("answers", "text", "reading", "private"),
    [
        ("answers: {yes: [ja], no: [nein]}", "Januar", "binary:lenient", None),
        ("answers: {yes: [ja], no: [nein]}", "Yes", "binary:lenient", None),
        ("answers: {yes: [是, 是的], no: [否, 不是]}", "是否", "binary:lenient", None),
        ("answers: {yes: [sí], no: [no]}", "Si\u0301.", "binary", True),
        ("answers: {yes: [sí], no: [no]}", "ＮＯ", "binary", False),
        ("answers: {yes: [हाँ], no: [ना]}", "हाँ", "binary", True),
        ("answers: {yes: [हाँ], no: [ना]}", "नाम", "binary:lenient", None),
        ("answers: {yes: [हाँ], no: [ना]}", "ना।", "binary:lenient", False),
    ],
)
def test_answers_are_read_in_the_language_of_the_prompt_file(
    answers: str, text: str, reading: str, private: bool | None
) -> None:
    outcome = ask(reading, prompts=answers.encode()).parse([TextAnswer(text)])
    if private is None:
        assert outcome == Unscored("rejection", "the answer is neither yes nor no")
    else:
        assert assessed(outcome).private is private


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ("{yes: [], no: [nein]}", "answers: yes must list at least one word"),
        ("{yes: [ja, Ja], no: [JA]}", 'answers: "ja" means both yes and no; keep one'),
        ("{yes: ['!'], no: [nein]}", 'answers: yes: "!" is not a word'),
        ('{yes: ["ja\\e[0m"], no: [nein]}', 'answers: yes: "ja\\x1b[0m" is not a word'),
        ("{yes: [ja]}", "the prompt file: answers, no: field required"),
        ("{yes: [ja], no: [nein], perhaps: [x]}", "the prompt file: answers, perhaps: extra inputs are not permitted"),
        ("{yes: ja, no: [nein]}", "the prompt file: answers, yes: input should be a valid list"),
        ("[ja, nein]", "the prompt file: answers: input should be a valid dictionary"),
    ],
)
def test_answers_that_cannot_be_told_apart_are_refused(answers: str, message: str) -> None:
    with pytest.raises(EngineError) as refused:
        ask("binary", prompts=f"answers: {answers}".encode())
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_first_token_gives_a_probability_and_never_a_rejection() -> None:
    asked = ask("binary:first")
    assert asked.prompt.wanted == FirstToken((("Yes",), ("No",)))
    for yes, private in ((0.75, True), (0.5, True), (0.25, False), (1.0, True), (0.0, False)):
        outcome = assessed(asked.parse([FirstTokenAnswer((yes, 1 - yes))]))
        assert (outcome.private, outcome.prob_private) == (private, yes)
    assert assessed(asked.parse([FirstTokenAnswer((0.75, 0.25))])).evidence == ("private (moderate probability)",)
    strange: list[Answer] = [FirstTokenAnswer((float("nan"), 1)), FirstTokenAnswer((0.2, 0.2)), TextAnswer("Yes")]
    for answer in strange:
        unread = asked.parse([answer])
        assert isinstance(unread, Unscored)
        assert unread.reason == "unparsable"


def test_the_picture_can_come_first() -> None:
    for name in ALL_NAMES:
        first = ask(name, prompts=b"image_first: true").prompt.messages[-1].parts
        last = ask(name, prompts=b"image_first: false").prompt.messages[-1].parts
        assert isinstance(first[0], Image)
        assert isinstance(first[1], Text)
        assert isinstance(last[0], Text)
        assert first[1].text == last[0].text.removesuffix("The picture:").rstrip()
        assert ask(name, prompts=b"image_first: false").version == ask(name).version
        assert ask(name, prompts=b"image_first: true").version != ask(name).version


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ('{"privacy_score": 0.85}', 0.85),
        ('{"score": .7}', 0.7),
        (".7", 0.7),
        ("0.123456", 0.123456),
        ('```json\n{"privacy_score": 0.85}\n```', 0.85),
        ("```\n.7\n```", 0.7),
        ('{ "score" : 1 }', 1.0),
        ("1.000000", 1.0),
    ],
)
def test_a_severity_is_read_as_tuned_models_write_it(text: str, score: float) -> None:
    outcome = assessed(ask("severity").parse([TextAnswer(text)]))
    assert outcome.holistic_score == score
    assert np.isnan(outcome.values).all()


@pytest.mark.parametrize(
    "text",
    [
        '{"privacy_score": 1.2}',
        '{"privacy_score": -0.2}',
        '{"privacy_score": NaN}',
        '{"privacy_score": true}',
        '{"privacy_score": 0.2, "score": 0.3}',
        '{"privacy_score": 0.2, "privacy_score": 0.3}',
        '{"risk": 0.2}',
        '```json\n{"privacy_score": 0.85}',
        *("0.2 0.3", "```0.2``` ```0.3```", "1.5", "-0.1", "37 %", "1e-1", "", ".", "NaN", "٠.٥"),
    ],
)
def test_a_severity_out_of_range_or_with_two_numbers_is_unparsable(text: str) -> None:
    outcome = ask("severity").parse([TextAnswer(text)])
    assert isinstance(outcome, Unscored)
    assert outcome.reason == "unparsable"


def test_the_prompt_file_can_name_the_field_of_the_score() -> None:
    asked = ask("severity", prompts=b"score_field: risk")
    (text,) = [part.text for part in asked.prompt.messages[-1].parts if isinstance(part, Text)]
    assert '{"risk": x}' in text
    assert isinstance(asked.prompt.wanted, Generate)
    assert asked.prompt.wanted.regex is not None
    for written in ('{"risk": 0.85}', '{"risk": 0.123456}', '{"risk": 1}'):
        assert re.fullmatch(asked.prompt.wanted.regex, written)
        assert assessed(asked.parse([TextAnswer(written)])).holistic_score == float(written[9:-1])
    assert isinstance(asked.parse([TextAnswer('{"privacy_score": 0.85}')]), Unscored)
    assert re.fullmatch(asked.prompt.wanted.regex, '{"risk": 1.2}') is None
    with pytest.raises(EngineError, match="score_field must be a name of at most 40 letters"):
        ask("severity", prompts=b"score_field: 'a\"b'")
