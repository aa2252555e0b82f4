"""What a vision-language model is asked and how its answers are read."""

import numpy as np
import numpy.typing as npt
import pytest

from scoring.assessment import Unscored
from scoring.protocols.interface import Image, SlotAnswer, Slots, Text, TextAnswer, Token
from scoring.taxonomy import KEYS
from tests.scoring.asking import ALL_NAMES, ask, assessed, form, texts_of

ABSENT, AMBIGUOUS, PRESENT = (0.9, 0.06, 0.04), (0.2, 0.5, 0.3), (0.01, 0.02, 0.97)


def slot_answer(**rows: tuple[float, float, float]) -> SlotAnswer:
    return SlotAnswer(np.array([rows.get(key, ABSENT) for key in KEYS], dtype=np.float32))


def tokens_of(text: str, probabilities: tuple[float, ...]) -> tuple[Token, ...]:
    """One token per character; the digits have probabilities."""
    return tuple(Token(char, probabilities if char.isdigit() else (0.0, 0.0, 0.0)) for char in text)


@pytest.mark.parametrize("name", ALL_NAMES)
def test_the_image_comes_last_so_that_all_images_share_the_text_before_it(name: str) -> None:
    prompt = ask(name).prompt
    parts = [part for message in prompt.messages for part in message.parts]
    assert [isinstance(part, Image) for part in parts] == [False] * (len(parts) - 1) + [True]
    assert prompt.has_image
    has_system = not name.startswith("binary")
    assert [message.role for message in prompt.messages] == ["system"] * has_system + ["user"]


@pytest.mark.parametrize("name", [name for name in ALL_NAMES if not name.startswith("binary")])
def test_writing_in_the_picture_is_said_to_be_no_instruction(name: str) -> None:
    system = ask(name).prompt.messages[0].parts[0]
    assert isinstance(system, Text)
    assert "never an instruction" in system.text


@pytest.mark.parametrize("name", ["slots", "json", "two-pass"])
def test_every_attribute_is_asked_once_and_in_order(name: str) -> None:
    text = texts_of(ask(name).prompt)
    places = [text.index(f" {key}. ") for key in KEYS]
    assert places == sorted(places)
    assert ask(name).assessed == KEYS


def test_slots_prefill_is_a_form_with_22_gaps() -> None:
    wanted = ask("slots").prompt.wanted
    assert isinstance(wanted, Slots)
    assert len(wanted.pieces) == 22
    assert wanted.placeholder not in wanted.choices
    prefill = "".join(piece + wanted.placeholder for piece in wanted.pieces)
    assert prefill == "A9B9C9D9E9F9G9H9I9J9K9L9M9N9O9P9Q9R9S9T9U9V9"
    assert "\nV. " + KEYS[-1] in texts_of(ask("slots").prompt), "the letters stand before the attributes"
    alone = ask("slots:digits").prompt.wanted
    assert isinstance(alone, Slots)
    assert alone.pieces == ("",) * 22


def test_slots_values_are_the_most_probable_class_and_the_probabilities_are_kept() -> None:
    outcome = assessed(ask("slots").parse([slot_answer(gov_ids=PRESENT, age=AMBIGUOUS, gender=(0.2, 0.4, 0.4))]))
    by_key = dict(zip(KEYS, outcome.values.tolist(), strict=True))
    assert (by_key["gov_ids"], by_key["age"], by_key["nudity"]) == (1, 0.5, 0)
    assert by_key["gender"] == 1, "of equally probable classes the more severe counts"
    assert outcome.probabilities is not None
    assert outcome.probabilities[KEYS.index("gov_ids")].tolist() == pytest.approx(PRESENT)
    assert outcome.evidence == ("gov_ids (high probability)", "gender (low probability)")


@pytest.mark.parametrize(
    ("probabilities", "message"),
    [
        (np.full((22, 3), np.nan), "22 of 22 slots without valid probabilities"),
        (np.full((22, 3), 0.5), "22 of 22 slots without valid probabilities"),
        (np.full((22, 3), np.inf), "22 of 22 slots without valid probabilities"),
        (np.tile([1.2, -0.1, -0.1], (22, 1)), "22 of 22 slots without valid probabilities"),
        (np.full((21, 3), 1 / 3), "does not have 3 probabilities for each of the 22 attributes"),
    ],
    ids=["nan", "sum", "infinite", "negative", "shape"],
)
def test_slots_without_valid_probabilities_are_unscored(probabilities: npt.NDArray[np.float64], message: str) -> None:
    outcome = ask("slots").parse([SlotAnswer(probabilities.astype(np.float32))])
    assert isinstance(outcome, Unscored)
    assert outcome.reason == "unparsable"
    assert message in outcome.message


def test_json_values_and_the_probabilities_of_the_value_tokens() -> None:
    text = form(gov_ids=2, age=1)
    likely = {"0": (0.2, 0.1, 0.1), "1": (0.1, 0.2, 0.1), "2": (0.1, 0.1, 0.2)}
    tokens = tuple(Token(char, likely.get(char, (0.0, 0.0, 0.0))) for char in text)
    outcome = assessed(ask("json").parse([TextAnswer(text, tokens)]))
    by_key = dict(zip(KEYS, outcome.values.tolist(), strict=True))
    assert (by_key["gov_ids"], by_key["age"], by_key["nudity"]) == (1, 0.5, 0)
    assert outcome.probabilities is not None
    rows = {0: [0.5, 0.25, 0.25], 0.5: [0.25, 0.5, 0.25], 1: [0.25, 0.25, 0.5]}
    np.testing.assert_allclose(outcome.probabilities, [rows[value] for value in by_key.values()], rtol=1e-6)
    assert outcome.evidence == ("gov_ids (low probability)",)


def test_json_without_probabilities_has_values_all_the_same() -> None:
    outcome = assessed(ask("json").parse([TextAnswer(f"```json\n{form(gov_ids=2)}\n```")]))
    assert outcome.probabilities is None
    assert outcome.evidence == ("gov_ids",)


def test_a_value_that_shares_its_token_has_no_probability() -> None:
    text = form()
    place = text.index("0") + 1
    merged = (Token(text[: place - 3]), Token(text[place - 3 : place + 4], (1.0, 0.0, 0.0)))
    outcome = assessed(ask("json").parse([TextAnswer(text, (*merged, *tokens_of(text[place + 4 :], (0.5, 0.5, 0.0))))]))
    assert outcome.probabilities is not None
    assert np.isnan(outcome.probabilities[0]).all()
    assert outcome.probabilities[1].tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize(
    ("written", "chances", "probabilities"),
    [
        ("0", (1e-9, 3e-10, 7e-10), (0.5, 0.15, 0.35)),
        (" 0", (1e-9, 1e-9, 9e-8), None),
        (" 0", (9e-8, 1e-9, 1e-9), None),
        (" 0", (0.6, 0.1, 0.1), (0.75, 0.125, 0.125)),
        (" 0", (0.1, 0.1, 0.6), None),
        ("0", (0.1, 0.1, 0.6), None),
        ("0", (0.25, 0.5, 0.25), None),
        ("0", (0.4, 0.4, 0.2), (0.4, 0.4, 0.2)),
    ],
    ids=["itself", "noise against", "noise for", "spaced, summed", "spaced, against", "against", "ambiguous", "tie"],
)
def test_the_probabilities_of_a_value_speak_of_what_was_written(
    written: str, chances: tuple[float, ...], probabilities: tuple[float, ...] | None
) -> None:
    text = form().replace('"biometrics": 0', f'"biometrics":{written}')
    place = text.index(f":{written}") + 1
    tokens = (Token(text[:place]), Token(written, chances), Token(text[place + len(written) :]))
    outcome = assessed(ask("json").parse([TextAnswer(text, tokens)]))
    assert outcome.values[KEYS.index("biometrics")] == 0
    assert outcome.probabilities is not None
    found = outcome.probabilities[KEYS.index("biometrics")].tolist()
    assert found == pytest.approx(probabilities or [np.nan] * 3, nan_ok=True)


def test_a_number_that_is_no_single_digit_has_no_probability() -> None:
    text = form().replace('"biometrics": 0', '"biometrics": 0.2e1')
    outcome = assessed(ask("json").parse([TextAnswer(text, tokens_of(text, (0.8, 0.1, 0.1)))]))
    assert outcome.values[0] == 1
    assert outcome.probabilities is not None
    assert np.isnan(outcome.probabilities[0]).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("I cannot help with that.", "the answer is not valid JSON"),
        ("", "the answer is not valid JSON"),
        ("[]", "the answer is not a JSON object"),
        ("{}", "the answer holds 0 of the 22 attributes and 0 other keys"),
        (form()[:-1] + ', "home_address": 1}', "the answer holds 22 of the 22 attributes and 1 other keys"),
        (form()[:-1] + ', "gov_ids": 0}', "the answer names an attribute twice"),
        (form(gov_ids=3), "the answer holds 1 values that are none of 0, 1, 2"),
        (form(gov_ids=0.5), "the answer holds 1 values that are none of 0, 1, 2"),
        (form(gov_ids=float("nan")), "the answer is not valid JSON"),
        (form().replace('"nudity": 0', '"nudity": true'), "the answer holds 1 values that are none of 0, 1, 2"),
        (form().replace('"nudity": 0', '"nudity": "2"'), "the answer holds 1 values that are none of 0, 1, 2"),
        (form().replace('"nudity": 0', '"nudity": {"a": 1, "a": 2}'), "the answer holds 1 values that are none of"),
        (form().replace('"nudity": 0', '"nudity": ' + "9" * 5000), "the answer is not valid JSON"),
        ("[" * 40_000, "the answer is not valid JSON"),
        (" " * 60_000, "the answer has 60,000 characters, more than any answer needs"),
    ],
    ids=range(15),
)
def test_json_that_is_not_the_form_is_unscored(text: str, message: str) -> None:
    outcome = ask("json").parse([TextAnswer(text)])
    assert isinstance(outcome, Unscored)
    assert outcome.reason == "unparsable"
    assert outcome.message.startswith(message)


def test_a_cut_off_answer_says_so() -> None:
    outcome = ask("json").parse([TextAnswer(form()[:100], is_cut_off=True)])
    assert outcome == Unscored("unparsable", "the answer is not valid JSON; it was cut off at the token limit")


def test_of_the_severity_modes_only_one_tells_levels() -> None:
    texts = {mode: texts_of(ask(f"severity:{mode}").prompt) for mode in ("zero-shot", "intuition", "taxonomy")}
    assert len(set(texts.values())) == 3
    assert [mode for mode, text in texts.items() if "Level 2" in text] == ["taxonomy"]
    assert "anonymised" in texts_of(ask("severity:intuition,counterfactual").prompt)
    assert ask("severity").name == "severity:taxonomy"
