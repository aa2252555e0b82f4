"""`binary` with the prompt files of `examples/papers/languages`: their words, and answers in these languages."""

import re
from pathlib import Path

import pytest

from scoring.assessment import Unscored
from scoring.protocols.interface import FirstToken, Protocol, TextAnswer
from tests.scoring.asking import ask, assessed, texts_of

FOLDER = Path(__file__).parents[2] / "examples" / "papers" / "languages"
LETTERS = {"de": "[a-zäöüß]", "ru": "[а-яё]", "zh": "[\u4e00-\u9fff]"}


def in_language(language: str, name: str) -> Protocol:
    return ask(name, None if language == "en" else (FOLDER / f"{language}.yaml").read_bytes())


@pytest.mark.parametrize("language", LETTERS)
@pytest.mark.parametrize("wording", ["ours-1", "ours-2", "ours-3", "ours-4"])
@pytest.mark.parametrize("ending", ["", ",class-names", ",classes,reason"])
def test_every_text_is_in_the_language(language: str, wording: str, ending: str) -> None:
    text = texts_of(in_language(language, f"binary:{wording}{ending}").prompt)
    words = re.findall(r"\w+", text.lower())
    assert all(re.fullmatch(f"{LETTERS[language]}+", word) for word in words)
    english = texts_of(ask(f"binary:{wording}{ending}").prompt)
    assert text.count("\n\n") == english.count("\n\n")
    assert not set(text.splitlines()) & set(english.splitlines()) - {""}


@pytest.mark.parametrize(
    ("language", "name", "text", "private"),
    [
        ("de", "binary", "Ja.", True),
        ("de", "binary", "nein", False),
        ("de", "binary", "Yes", True),
        ("de", "binary:lenient", "Ja, ein Gesicht ist zu sehen", True),
        ("de", "binary:reason", "Nein. Das Bild zeigt nur einen Baum.", False),
        ("ru", "binary", "Да", True),
        ("ru", "binary", "НЕТ!", False),
        ("ru", "binary:lenient", "Нет, на фото нет людей", False),
        ("ru", "binary:reason", "Да. Видно лицо человека.", True),
        ("zh", "binary", "是。", True),
        ("zh", "binary", "否", False),
        ("zh", "binary", "没有。", False),
        ("zh", "binary:lenient", "不是，图片里只有一棵树。", False),
        ("zh", "binary:reason", "是。可以看到一张脸。", True),
        ("zh", "binary", "No", False),
    ],
)
def test_answers_are_read_in_their_language(language: str, name: str, text: str, private: bool) -> None:
    assert assessed(in_language(language, name).parse([TextAnswer(text)])).private is private


@pytest.mark.parametrize(
    ("language", "name", "text", "message"),
    [
        ("de", "binary:lenient", "Es tut mir leid, ich kann dabei nicht helfen.", "the answer is a refusal"),
        ("de", "binary:lenient", "Nein, tut mir leid, darauf kann ich nicht antworten.", "the answer is a refusal"),
        ("ru", "binary", "Извините, я не могу помочь с этим.", "the answer is a refusal"),
        ("zh", "binary", "抱歉，我无法回答。", "the answer is a refusal"),
        ("zh", "binary:reason", "是。抱歉，我不能描述这张图片。", "the answer is a refusal"),
        ("zh", "binary", "I'm sorry, I can't help with that.", "the answer is a refusal"),
        ("de", "binary:lenient", "Ja und nein", "the answer says both yes and no"),
        ("ru", "binary:lenient", "Дата на стене", "the answer is neither yes nor no"),
        ("zh", "binary:lenient", "但是没有人", "the answer is neither yes nor no"),
        ("en", "binary", "Ja", "the answer is neither yes nor no"),
    ],
)
def test_rejections_are_told_apart_in_their_language(language: str, name: str, text: str, message: str) -> None:
    assert in_language(language, name).parse([TextAnswer(text)]) == Unscored("rejection", message)


def test_the_first_token_is_compared_in_the_language() -> None:
    assert in_language("ru", "binary:first").prompt.wanted == FirstToken((("Да", "Yes"), ("Нет", "No")))
