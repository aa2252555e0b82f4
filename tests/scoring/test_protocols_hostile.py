"""Whatever a model writes, and whatever a corpus holds: nothing raises, nothing leaks, no value is made up."""

import json
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.assessment import Assessment, Outcome, Unscored
from scoring.protocols import protocol
from scoring.protocols.interface import Answer, Prompt, Protocol, SlotAnswer, Text, TextAnswer, Token
from scoring.taxonomy import KEYS

strange: list[object] = [0.5, 1.5, True, None, "1", [], {}]
numbers = st.one_of(st.integers(0, 2), st.sampled_from(strange), st.floats(), st.integers())
forms = st.dictionaries(st.sampled_from([*KEYS, "other"]), numbers, min_size=20).map(json.dumps)
digit_forms = st.fixed_dictionaries({key: st.integers(0, 2) for key in KEYS}).map(json.dumps)
number_forms = st.fixed_dictionaries({key: st.sampled_from((0.0, 0.5, 1.0)) for key in KEYS}).map(json.dumps)
lines = st.one_of(st.text(max_size=30), st.text("yes no<|im_end|>{}[]:=*")).map(lambda line: f"no {line}")
sections = st.lists(st.one_of(lines, st.text(max_size=200)), min_size=4, max_size=4).map(
    lambda answers: "\n".join(f"Level {number}: {text}" for number, text in enumerate(answers, 1))
)
words = st.sampled_from(
    ["Yes", "no.", "Yes. Because", "0.5", "1.00", "null", "{", "[[[[", "﷽", "\ud800", "```json\n{}```"]
)
texts = st.one_of(st.text(), digit_forms, forms, sections, words)
chances = st.one_of(
    st.none(), st.lists(st.floats(), max_size=4).map(tuple), st.just((0.2, 0.3, 0.5)), st.just((0.2, 0.6))
)


@st.composite
def text_answers(draw: st.DrawFn, from_texts: st.SearchStrategy[str]) -> TextAnswer:
    text, chance = draw(from_texts), draw(chances)
    per_character = tuple(Token(char, chance) for char in text)
    strange_tokens = st.lists(st.builds(Token, st.text(max_size=3), chances), max_size=5).map(tuple)
    return TextAnswer(text, draw(st.one_of(st.just(per_character), strange_tokens)), draw(st.booleans()))


slot_answers = st.one_of(
    st.lists(st.tuples(*[st.floats(width=32)] * 3), max_size=23),
    st.lists(st.sampled_from([(1.0, 0.0, 0.0), (0.25, 0.5, 0.25), (0.0, 0.0, 1.0)]), min_size=22, max_size=22),
).map(lambda rows: SlotAnswer(np.array(rows, dtype=np.float32)))
scores = st.floats(-0.5, 1.5).map(lambda score: f"{score:.2f}")
answers = st.one_of(text_answers(texts), slot_answers)
LIKELY: dict[str, tuple[st.SearchStrategy[Answer], ...]] = {
    "slots": (slot_answers,),
    "json": (text_answers(digit_forms),),
    "two-pass": (text_answers(sections), text_answers(number_forms)),
    "severity": (text_answers(scores),),
    "binary": (text_answers(words),),
    "binary:reason": (text_answers(st.text().map(lambda reason: f"Yes: {reason}")),),
}
NAMES = tuple(LIKELY)


@cache
def ask(name: str) -> Protocol:
    return protocol(name)


def check(outcome: Outcome) -> None:
    if isinstance(outcome, Unscored):
        assert outcome.reason in ("unparsable", "rejection")
        assert outcome.message.isprintable()
        assert len(outcome.message) < 150
        return
    assert isinstance(outcome, Assessment)
    values = outcome.values
    assert values.shape == (22,)
    assert values.dtype == np.float32
    assert (np.isnan(values) | np.isin(values, [0, 0.5, 1])).all()
    if outcome.probabilities is not None:
        known = outcome.probabilities[~np.isnan(outcome.probabilities).any(axis=1)]
        assert ((known >= 0) & (known <= 1)).all()
        assert known.sum(axis=1) == pytest.approx(1, abs=1e-3)
    for one in (outcome.holistic_score, outcome.prob_private):
        assert one is None or 0 <= one <= 1
    for kind in outcome.evidence:
        kind.encode()
        assert kind.isprintable()
        assert len(kind) < 350


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_no_answer_raises_or_makes_up_a_value(name: str, data: st.DataObject) -> None:
    likely = LIKELY[name]
    first = data.draw(st.one_of(likely[0], answers))
    outcome = ask(name).parse([first])
    if isinstance(outcome, Prompt):
        outcome = ask(name).parse([first, data.draw(st.one_of(likely[1], answers))])
    assert not isinstance(outcome, Prompt)
    check(outcome)


@given(sections)
def test_the_second_pass_reads_notes_without_marks_whatever_the_first_wrote(written: str) -> None:
    outcome = ask("two-pass").parse([TextAnswer(written)])
    if isinstance(outcome, Unscored):
        return
    assert isinstance(outcome, Prompt)
    part = outcome.messages[-1].parts[0]
    assert isinstance(part, Text)
    assert not set("<>[]|") & set(part.text.partition("The notes:\n")[2])


@pytest.mark.parametrize("name", ["slots", "json", "severity", "binary:reason"])
@given(secret=st.text(alphabet="αβγδεζηθικλμνξοπρστυφχψω", min_size=2))
def test_nothing_of_a_sample_is_in_a_prompt_and_nothing_of_an_answer_in_a_row(name: str, secret: str) -> None:
    asked = protocol(name)
    before = (asked.version, asked.prompt)
    outcome = asked.parse([TextAnswer(f"Yes. {secret}")])
    assert (asked.version, asked.prompt) == before, "a protocol keeps nothing of earlier answers"
    assert secret not in repr(asked.prompt)
    assert secret not in repr(outcome)
