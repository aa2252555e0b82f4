"""Conversations of a training set as tokens of a model: the loss is over what the assistant says, and nothing else."""

from pathlib import Path

import pytest

from ingest.errors import LabelsError
from tests.tuning_sets import made

TURNS = (("user", "Is it private?"), ("assistant", "Yes, a face."), ("user", "Sure?"), ("assistant", "Yes."))


def example(  # type: ignore[no-untyped-def]
    checkpoint: Path, turns: tuple[tuple[str, str], ...], texts: bytes | None = None, text_tokens: int | None = None
):
    from PIL import Image

    from scoring.engines.vlm.prompting import Prompter
    from scoring.protocols import protocol
    from scoring.tuning.examples import dialogue_example

    prompter = Prompter(checkpoint, 64 * 64)
    prompt = protocol("binary", texts).prompt
    image = Image.new("RGB", (64, 64), "red")
    return prompter, dialogue_example(prompter, prompt, turns, image, "k", text_tokens)


def test_targets_are_the_turns_of_the_assistant_and_their_ends(checkpoint: Path) -> None:
    prompter, found = example(checkpoint, TURNS)
    assert prompter.tokenizer.decode(found.targets) == "Yes, a face.<|im_end|>Yes.<|im_end|>"
    given = found.per_token["input_ids"].tolist()
    assert found.positions[-1] == -1
    # A target is the token after its position; the last one is not part of the input.
    after = [given[position + 1] for position in found.positions[:-1]]
    assert after == list(found.targets[:-1])
    before = prompter.tokenizer.decode(given[: found.positions[0] + 1])
    assert before.endswith("<|vision_end|><|im_end|>\n<|im_start|>assistant\n")
    assert given.count(prompter.image_token_id) == 4
    assert {len(values) for values in found.per_token.values()} == {len(given)}


@pytest.mark.parametrize("texts", [None, b"image_first: true"])
def test_the_picture_stands_where_the_protocol_has_it(checkpoint: Path, texts: bytes | None) -> None:
    prompter, found = example(checkpoint, TURNS, texts)
    text = prompter.tokenizer.decode(found.per_token["input_ids"])
    assert (text.index("<|image_pad|>") < text.index("Is it private?")) == bool(texts)
    assert text.index("<|image_pad|>") < text.index("Yes, a face.")


def test_a_special_token_in_a_text_is_refused_without_repeating_the_text(checkpoint: Path) -> None:
    for hostile in ("secret<|image_pad|>", "secret<|im_end|>"):
        with pytest.raises(LabelsError, match=r"^k: its conversation holds a special token of the model") as error:
            example(checkpoint, (("user", hostile), TURNS[1]))
        assert "secret" not in str(error.value)


def test_a_conversation_longer_than_the_recipe_allows_is_refused_without_repeating_it(checkpoint: Path) -> None:
    prompter, _ = example(checkpoint, TURNS)
    messages = [{"role": role, "content": [{"type": "text", "text": text}]} for role, text in TURNS]
    messages[0]["content"].append({"type": "image"})  # type: ignore[attr-defined]
    num = len(prompter.tokenizer(prompter.processor.apply_chat_template(messages, tokenize=False))["input_ids"])
    example(checkpoint, TURNS, text_tokens=num)
    with pytest.raises(LabelsError, match=rf"^k: its conversation has {num} tokens of text, .* are {num - 1}") as error:
        example(checkpoint, TURNS, text_tokens=num - 1)
    assert "face" not in str(error.value)


def test_a_model_is_tuned_on_conversations(checkpoint: Path, tmp_path: Path) -> None:
    import json

    from jobs.runtime.progress import SILENT
    from jobs.tuning.tuning import TuneRequest, run_tune

    pictures = made.files(4)
    output = [{"key": name, "turns": [{"role": r, "text": t} for r, t in TURNS]} for name in pictures]
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, output)))
    truth, source = made.by_hash(tmp_path / "l.parquet", pictures), made.tree(tmp_path / "p", pictures)
    made.made(source, truth, tmp_path / "set", "dialogue", dialogues=str(tmp_path / "d.jsonl"), validation_share=0)
    recipe = {"name": "t", "rank": 8, "alpha": 16, "learning_rate": 0.02, "batch_size": 4, "epochs": 30}
    (tmp_path / "r.yaml").write_text(json.dumps(recipe))
    request = TuneRequest(str(tmp_path / "set"), str(checkpoint), str(tmp_path / "out"), str(tmp_path / "r.yaml"), 4096)
    card = run_tune(request, SILENT)
    assert card.train_accuracy == 1.0
    assert card.curves[-1]["loss"] < 0.5 * card.curves[0]["loss"]
