"""What a tuned model should answer, by every kind of label."""

import numpy as np
import pytest

from scoring import severity
from scoring.assessment import Assessment
from scoring.protocols import protocol
from scoring.protocols.interface import TextAnswer
from scoring.severity import BANDS, NUM_COMBINATIONS
from scoring.severity import level_of as level_table
from scoring.severity import score_of as score_table
from scoring.taxonomy import ATTRIBUTES, KEYS
from scoring.tuning.targets import Label, Target, differ, is_private, level_of, target_of

AT_LEVEL = {level: next(i for i, a in enumerate(ATTRIBUTES) if a.level == level) for level in (1, 2, 3, 4)}
NOTHING = np.zeros(22, np.float32)
NOT_JUDGED = np.full(22, np.nan, np.float32)
SLOTS, SEVERITY, BINARY = (protocol(name) for name in ("slots", "severity", "binary"))


def values(base: np.ndarray = NOTHING, **at_level: float) -> np.ndarray:
    """`level_1=0.5`: the first attribute of level 1 is 0.5."""
    made = base.copy()
    for name, value in at_level.items():
        made[AT_LEVEL[int(name[-1])]] = value
    return made


def target(label: Label, asked: object = SLOTS) -> Target | None:
    return target_of(label, asked)  # type: ignore[arg-type]


def test_slots_mask_what_was_not_judged() -> None:
    found = target(Label(values(NOT_JUDGED, level_1=1, level_2=0)))
    assert found is not None
    assert found.slots is not None
    assert {KEYS[at]: slot for at, slot in enumerate(found.slots) if slot is not None} == {
        KEYS[AT_LEVEL[1]]: 2,
        KEYS[AT_LEVEL[2]]: 0,
    }
    assert target(Label(NOT_JUDGED, private=True)) is None


def test_ambiguous_slots_are_absent() -> None:
    assert target(Label(values(level_1=0.5))) == Target(slots=(0,) * 22)


def test_severity_is_the_score_of_the_label_else_that_of_its_values() -> None:
    assert target(Label(NOT_JUDGED, score=0.854), SEVERITY) == Target(answer="0.85")
    assert target(Label(NOTHING), SEVERITY) == Target(answer="0.00")
    assert target(Label(values(level_1=1)), SEVERITY) == Target(answer="0.72"), "0.71 would be of level 2"
    assert target(Label(values(level_1=1), score=0.1), SEVERITY) == Target(answer="0.10")
    assert target(Label(values(level_4=1)), SEVERITY) == Target(answer="0.01"), "the text demands more than 0"
    assert target(Label(values(level_4=0.5)), SEVERITY) == Target(answer="0.00"), "ambiguous counts as absent"
    assert target(Label(values(level_4=1), score=0.0), SEVERITY) == Target(answer="0.00")


def test_a_severity_answer_is_of_the_level_of_the_score() -> None:
    """Of all 1,320 combinations but the three whose score is that of a more severe level's mildest."""
    s_lex = np.arange(NUM_COMBINATIONS)
    score, level = score_table(s_lex), level_table(s_lex)
    ties = np.isin(score, [low for low, _ in BANDS]) & (np.roll(score, -1) == score)
    answers = [target(Label(NOT_JUDGED, score=float(one)), SEVERITY) for one in score]
    read = np.array([float(one.answer or "") for one in answers if one is not None])
    bands = np.array([next(n for n, (low, _) in enumerate(BANDS, 1) if one >= low) for one in read])
    assert (bands == np.where(level == 0, 4, level))[~ties].all()
    assert ties.sum() == 4
    assert np.abs(read - score).max() < 0.01


def test_severity_is_open_if_an_attribute_was_not_judged() -> None:
    partly = values(level_1=1, level_4=np.nan)
    assert target(Label(partly), SEVERITY) is None
    assert target(Label(NOT_JUDGED, private=True), SEVERITY) is None


@pytest.mark.parametrize(
    ("label", "answer"),
    [
        (Label(NOT_JUDGED, private=True), "Yes"),
        (Label(values(level_1=1), private=False), "No"),
        (Label(values(level_2=1)), "Yes"),
        (Label(values(NOT_JUDGED, level_1=1)), "Yes"),
        (Label(values(level_3=1, level_4=1)), "No"),
        (Label(values(level_1=0.5)), "No"),
        (Label(values(level_3=np.nan)), "No"),
        (Label(values(level_2=np.nan)), None),
        (Label(NOT_JUDGED, score=0.9, class_name="face"), None),
    ],
)
def test_private_is_what_the_label_says_else_a_value_of_level_1_or_2(label: Label, answer: str | None) -> None:
    found = target(label, BINARY)
    assert (None if found is None else found.answer) == answer


@pytest.mark.parametrize(
    ("given", "level"),
    [
        (NOTHING, 0),
        (values(level_2=1, level_4=1), 2),
        (values(level_2=1, level_3=np.nan), 2),
        (values(level_2=1, level_1=np.nan), None),
        (values(level_4=np.nan), None),
        (values(level_1=0.5), 0),
    ],
)
def test_a_level_is_known_if_nothing_more_severe_is_open(given: np.ndarray, level: int | None) -> None:
    assert level_of(Label(given)) == level


def test_levels_of_whole_values_are_those_of_a_run() -> None:
    rows = np.random.default_rng(1).choice(np.array([0, 1], np.float32), (200, 22), p=[0.9, 0.1])
    of_run = severity.level_of(severity.lexicographic(severity.level_counts(rows == 1)))
    assert [level_of(Label(row)) for row in rows] == of_run.tolist()
    private = [is_private(Label(row)) for row in rows]
    assert private == [level in (1, 2) for level in of_run]


@pytest.mark.parametrize("texts", [b"", b"score_field: privacy_score"])
@pytest.mark.parametrize("score", [0.0, 0.004, 0.5, 0.857, 1.0])
def test_the_severity_answer_is_one_that_the_protocol_reads(texts: bytes, score: float) -> None:
    asked = protocol("severity", texts or None)
    found = target(Label(NOT_JUDGED, score=score), asked)
    assert found is not None
    assert found.answer is not None
    assert found.answer.startswith("{") == bool(texts)
    read = asked.parse([TextAnswer(found.answer)])
    assert isinstance(read, Assessment)
    assert read.holistic_score is not None
    assert abs(read.holistic_score - score) <= 0.005


def test_the_binary_answer_is_in_the_words_of_the_prompt_file() -> None:
    asked = protocol("binary:ours-2", b"answers: {yes: [ja, jawohl], no: [nein]}")
    found = [target(Label(NOT_JUDGED, private=private), asked) for private in (True, False)]
    assert [one and one.answer for one in found] == ["ja", "nein"]
    read = [asked.parse([TextAnswer(one.answer or "")]) for one in found if one]
    assert [one.private for one in read] == [True, False]  # type: ignore[union-attr]


def test_masks_alone_are_no_different_answers() -> None:
    one, other = Target(slots=(None, 0) + (0,) * 20), Target(slots=(0, None) + (0,) * 20)
    assert one != other
    assert not differ([one, other])
    assert differ([one, Target(slots=(0, 2) + (0,) * 20), other])
    assert differ([Target(answer="Yes"), Target(answer="No")])
    assert not differ([Target(answer="Yes"), Target(answer="Yes")])
    assert not differ([])
