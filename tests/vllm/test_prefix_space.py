"""Tokenizers of the SentencePiece kind: a word is another token at the start of a text or after a space than elsewhere.
The place of an answer decides which of them it begins with."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingest.errors import EngineError
from scoring.assessment import View
from scoring.engines.vlm.prompting import Prompter, generated_tokens
from scoring.protocols import protocol
from scoring.protocols.interface import Generate
from tests.making import Folders
from tests.vllm.conftest import MAX_PIXELS, probabilities
from tests.vllm.verbatim import same_words

OPENING = "{{- '<|im_start|>assistant\\n' -}}"
"""What the chat template of the micro model ends with."""


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    """folder(prepend, splits_digits=True) -> a model's small files."""

    def made(prepend: str, *, splits_digits: bool = True, opening: str = OPENING) -> Path:
        from tests.vllm.micro import make_config, make_prefix_space_tokenizer, save_processor

        tokenizer = make_prefix_space_tokenizer(prepend, splits_digits=splits_digits)
        save_processor(tmp_path, tokenizer)
        make_config(tokenizer).save_pretrained(tmp_path)
        template = (tmp_path / "chat_template.jinja").read_text()
        assert OPENING in template
        (tmp_path / "chat_template.jinja").write_text(template.replace(OPENING, opening))
        return tmp_path

    return made


def candidates(prompter: Prompter, name: str) -> list[str]:
    found: list[str] = prompter.tokenizer.convert_ids_to_tokens(
        list(prompter.tokens(protocol(name).prompt).candidate_ids)
    )
    return found


@pytest.mark.parametrize("prepend", ["first", "always"])
@pytest.mark.parametrize("splits_digits", [True, False])
def test_the_tokens_of_answers_are_those_of_their_place(
    folder: Callable[..., Path], prepend: str, splits_digits: bool
) -> None:
    prompter = Prompter(folder(prepend, splits_digits=splits_digits), MAX_PIXELS)
    alone = prompter.tokenizer.tokenize("Yes"), prompter.tokenizer.tokenize("0")
    assert alone == (["▁Yes"], ["▁", "0"] if splits_digits else ["▁0"]), "else this tests nothing"
    assert candidates(prompter, "binary:ours-1") == ["Yes", "No"]
    assert candidates(prompter, "json") == ["0", "1", "2"]
    assert candidates(prompter, "slots") == ["0", "1", "2"]


def test_an_answer_right_after_a_special_token_begins_with_a_space(folder: Callable[..., Path]) -> None:
    opening = "{{- '<|im_start|>' -}}"
    assert candidates(Prompter(folder("always", opening=opening), MAX_PIXELS), "binary:ours-1") == ["▁Yes", "▁No"]


def test_words_without_a_token_of_their_own_get_no_probabilities(folder: Callable[..., Path]) -> None:
    """After the space that the prompt ends with, the tokenizer would write `▁Yes` in one, which the model cannot."""
    prompter = Prompter(folder("first", opening="{{- '<|im_start|>assistant ' -}}"), MAX_PIXELS)
    assert candidates(prompter, "binary:ours-1") == []


def test_a_word_that_only_reads_like_a_candidate_is_not_taken_for_it(folder: Callable[..., Path]) -> None:
    """Both decode to "Yes" at the start of an answer. The second is not what the probabilities speak of, unless yes and
    no hold together half of all probability."""
    prompter = Prompter(folder("first"), MAX_PIXELS)
    wanted = protocol("binary:ours-1").prompt.wanted
    assert isinstance(wanted, Generate)
    without, with_space = prompter.tokenizer.convert_tokens_to_ids(["Yes", "▁Yes"])
    prompt = prompter.tokens(protocol("binary:ours-1").prompt)

    def read(token: int, spread: tuple[float, float]) -> tuple[str, tuple[float, ...] | None]:
        (one,) = generated_tokens(prompter.tokenizer, [token], [spread], prompt, wanted)
        return one.text, one.probabilities

    assert read(without, (0.02, 0.01)) == ("Yes", (0.02, 0.01))
    assert read(with_space, (0.02, 0.01)) == ("Yes", None)
    assert read(with_space, (0.4, 0.2)) == ("Yes", (0.4, 0.2))


def _joined(folder: Path, words: list[str]) -> None:
    """The tokenizer keeps each of these as one token."""
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    number = max(token["id"] for token in tokenizer["added_tokens"]) + 1
    like = tokenizer["added_tokens"][0] | {"special": False}
    tokenizer["added_tokens"] += [like | {"id": number + at, "content": word} for at, word in enumerate(words)]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


def _refused(folder: Path, name: str, **options: bytes) -> str:
    with pytest.raises(EngineError) as refused:
        Prompter(folder, MAX_PIXELS).check(protocol(name, **options))
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_digits_joined_with_what_stands_before_them_are_refused(folder: Callable[..., Path]) -> None:
    """All of them, so that every slot still is one token: but the prompt, in which the last slot is open, is not."""
    made = folder("first")
    _joined(made, [f"{letter}{digit}" for letter in "ABCDEFGHIJKLMNOPQRSTUV" for digit in "0129"])
    assert "does not keep single digits as single tokens, the same in every slot" in _refused(made, "slots")


def test_a_first_slot_of_other_tokens_than_the_rest_is_refused(folder: Callable[..., Path]) -> None:
    made = folder("always", splits_digits=False, opening="{{- '<|im_start|>' -}}")
    slot_first = json.dumps({"form_line": "{slot} {key}\n"}).encode()
    result = _refused(made, "slots", prompts=slot_first)
    assert "does not keep single digits as single tokens, the same in every slot" in result
    Prompter(made, MAX_PIXELS).check(protocol("slots"))


@pytest.fixture(scope="module")
def spaced(tmp_path_factory: Folders) -> Path:
    from tests.vllm.micro import make_checkpoint, make_prefix_space_tokenizer

    made = tmp_path_factory.mktemp("models") / "micro-spaced"
    return make_checkpoint(made, tokenizer=make_prefix_space_tokenizer("first"))


def test_both_engines_agree_on_slots(engine: Callable[..., Any], views: list[View], spaced: Path) -> None:
    found = [
        probabilities(engine(name, model=str(spaced), protocol="slots").assess(views))
        for name in ("transformers", "vllm")
    ]
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)
    assert np.ptp(found[0], axis=0).max() > 0.01, "the answers must depend on the picture"


@pytest.mark.parametrize("name", ["json", "binary:ours-1"])
def test_both_engines_say_the_same(engine: Callable[..., Any], views: list[View], spaced: Path, name: str) -> None:
    found = same_words(lambda each, **options: engine(each, model=str(spaced), **options), views[:3], protocol(name))
    assert all(options[0].tokens for options, _ in found)
