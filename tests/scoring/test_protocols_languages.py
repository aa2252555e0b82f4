"""`binary` in German, Russian and Chinese: its words, and answers that models give in these languages."""

import re

import pytest

from scoring.assessment import Unscored
from scoring.protocols.interface import FirstToken, TextAnswer
from tests.scoring.asking import ask, assessed, texts_of

LETTERS = {"de": "[a-zäöüß]", "ru": "[а-яё]", "zh": "[\u4e00-\u9fff]"}


@pytest.mark.parametrize("language", LETTERS)
@pytest.mark.parametrize("wording", ["ours-1", "ours-2", "ours-3", "ours-4"])
@pytest.mark.parametrize("ending", ["", ",class-names", ",classes,reason"])
def test_every_text_is_in_the_language(language: str, wording: str, ending: str) -> None:
    text = texts_of(ask(f"binary:{wording},{language}{ending}").prompt)
    words = re.findall(r"\w+", text.lower())
    assert all(re.fullmatch(f"{LETTERS[language]}+", word) for word in words)
    english = texts_of(ask(f"binary:{wording}{ending}").prompt)
    assert text.count("\n\n") == english.count("\n\n")
    assert not set(text.splitlines()) & set(english.splitlines()) - {""}


@pytest.mark.parametrize(
    ("name", "text", "private"),
    [
        ("binary:de", "Ja.", True),
        ("binary:de", "nein", False),
        ("binary:de", "Yes", True),
        ("binary:de,lenient", "Ja, ein Gesicht ist zu sehen", True),
        ("binary:de,reason", "Nein. Das Bild zeigt nur einen Baum.", False),
        ("binary:ru", "Да", True),
        ("binary:ru", "НЕТ!", False),
        ("binary:ru,lenient", "Нет, на фото нет людей", False),
        ("binary:ru,reason", "Да. Видно лицо человека.", True),
        ("binary:zh", "是。", True),
        ("binary:zh", "否", False),
        ("binary:zh", "没有。", False),
        ("binary:zh,lenient", "不是，图片里只有一棵树。", False),
        ("binary:zh,reason", "是。可以看到一张脸。", True),
        ("binary:zh", "No", False),
    ],
)
def test_answers_are_read_in_their_language(name: str, text: str, private: bool) -> None:
    assert assessed(ask(name).parse([TextAnswer(text)])).private is private


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("binary:de,lenient", "Es tut mir leid, ich kann dabei nicht helfen.", "the answer is a refusal"),
        ("binary:de,lenient", "Nein, tut mir leid, darauf kann ich nicht antworten.", "the answer is a refusal"),
        ("binary:ru", "Извините, я не могу помочь с этим.", "the answer is a refusal"),
        ("binary:zh", "抱歉，我无法回答。", "the answer is a refusal"),
        ("binary:zh,reason", "是。抱歉，我不能描述这张图片。", "the answer is a refusal"),
        ("binary:zh", "I'm sorry, I can't help with that.", "the answer is a refusal"),
        ("binary:de,lenient", "Ja und nein", "the answer says both yes and no"),
        ("binary:ru,lenient", "Дата на стене", "the answer is neither yes nor no"),
        ("binary:zh,lenient", "但是没有人", "the answer is neither yes nor no"),
        ("binary", "Ja", "the answer is neither yes nor no"),
    ],
)
def test_rejections_are_told_apart_in_their_language(name: str, text: str, message: str) -> None:
    assert ask(name).parse([TextAnswer(text)]) == Unscored("rejection", message)


def test_the_first_token_is_compared_in_the_language() -> None:
    assert ask("binary:ru,first").prompt.wanted == FirstToken((("Да", "Yes"), ("Нет", "No")))


def test_a_prompt_file_replaces_texts_of_the_language() -> None:
    asked = ask("binary:de", prompts=b"ours_1: Ist hier etwas privat?")
    assert texts_of(asked.prompt) == "Ist hier etwas privat?\n\nAntworte nur mit dem Wort Ja oder Nein."
    assert asked.version != ask("binary:de").version


def test_the_list_of_names_is_shorter_than_the_definitions_and_names_no_cards() -> None:
    names, definitions = (texts_of(ask(f"binary:{list_}").prompt) for list_ in ("class-names", "classes"))
    assert len(names) < len(definitions) / 2
    assert names.count(",") == 5, "seven names"
    assert "card" not in names
    assert "card" in definitions
