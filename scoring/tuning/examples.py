"""Turns picture and target into tokens, with the prompt code of the engines.

The prompt's tokens come from `Prompter`, so a tuned model meets the same tokens in a scan. The expected answer comes
after them: for `slots` nothing, since the form is part of the prompt; for texts the answer and the token that ends it.
A conversation replaces the prompt, and the model learns the assistant's turns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from PIL import Image
from torch.utils.data import Dataset

from ingest.errors import EngineError, LabelsError
from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits
from ingest.sample import printable
from scoring.engines.picture import max_side_px, prepared
from scoring.engines.vlm.prompting import Prompter
from scoring.engines.vlm.transformers.engine import PER_TOKEN
from scoring.protocols.interface import Image as PromptImage
from scoring.protocols.interface import Prompt, Slots
from scoring.tuning.targets import Target, Turns
from scoring.tuning.training_set import Item

IGNORED = -100
"""A position without a target."""

MAX_ANSWER_LENGTH = 20_000
"""Limit of an answer in characters."""

KEPT_BYTES = 64 * 2**20
"""Memory for the first examples, which later epochs take as they are: all of a few hundred small pictures."""


@dataclass(frozen=True)
class Example:
    """One picture with its prompt and expected answer."""

    per_token: dict[str, torch.Tensor]
    """Shape (tokens,): input_ids, attention_mask and the processor's other outputs for each token."""

    per_image: dict[str, torch.Tensor]
    """The processor's other outputs."""

    positions: tuple[int, ...]
    """Negative positions, counted from the last token, at which the model predicts a target."""

    targets: tuple[int, ...]
    """Token id at each position, or for `slots` a class 0–2; `IGNORED` if unknown."""


class Encoder:
    """Makes examples of one protocol's prompt for one model."""

    def __init__(self, prompter: Prompter, prompt: Prompt, text_tokens: int | None = None):
        """text_tokens: see `Recipe.text_tokens`."""
        self._prompter = prompter
        self._text_tokens = text_tokens
        self._tokens = prompter.tokens(prompt)
        self._prompt = prompt
        self.candidate_ids = self._tokens.candidate_ids if isinstance(prompt.wanted, Slots) else ()
        """For `slots`: the tokens of the classes; else empty, and every token of the vocabulary is a candidate."""

    def example(self, item: Item, max_pixels: int) -> Example:
        """Make the example of an item. LabelsError if the picture cannot be decoded or prepared for this model."""
        decoded = decode(item.encoded(), ImageLimits(max_frames=1, max_side_px=max_side_px(max_pixels)))
        problem = "cannot be decoded"
        if isinstance(decoded, DecodedImage):
            try:
                image = prepared(decoded.views[0], max_pixels)
                if item.target.turns is not None:
                    key, turns = printable(item.key), item.target.turns
                    return dialogue_example(self._prompter, self._prompt, turns, image, key, self._text_tokens)
                return self.example_of(image, item.target)
            except (EngineError, LabelsError):
                raise
            except Exception as error:  # the edge: what processors raise may hold content, so only its type is kept
                problem = f"cannot be prepared for this model ({type(error).__name__})"
        raise LabelsError(
            f'the picture "{printable(item.key)}" of the training set {problem}; take its label out and make the set '
            "again"
        )

    def example_of(self, image: Image.Image, target: Target) -> Example:
        """Make the example of a picture that is small enough. EngineError if the tokenizer joins the answer to the
        prompt."""
        processed = self._prompter.processed(self._tokens.text, image)
        per_token = {name: processed[name][0] for name in PER_TOKEN if name in processed}
        per_token.setdefault("attention_mask", torch.ones_like(per_token["input_ids"]))
        per_image = {name: value for name, value in processed.items() if name not in PER_TOKEN}
        if target.slots is not None:
            classes = tuple(IGNORED if slot is None else slot for slot in target.slots)
            return Example(per_token, per_image, self._tokens.slots_from_end, classes)
        answer_ids = self._prompter.answer_ids(self._prompt, target.answer or "")
        per_token = {name: _with(name, values, answer_ids[:-1]) for name, values in per_token.items()}
        return Example(per_token, per_image, tuple(range(-len(answer_ids), 0)), answer_ids)


def dialogue_example(
    prompter: Prompter, prompt: Prompt, turns: Turns, image: Image.Image, key: str, text_tokens: int | None = None
) -> Example:
    """Encode a conversation in the model's own chat template, the picture in its first turn, on the side of the text
    on which the protocol's prompt has it. Targets are the assistant's turns, each with the token that ends it.

    LabelsError if a text holds a special token of the model, or the template does not keep the turns apart.
    """
    tokenizer = prompter.tokenizer

    def ids(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    special = set(tokenizer.all_special_ids) | {prompter.image_token_id}
    if any(special & set(ids(text)) for _, text in turns):
        raise LabelsError(f"{key}: its conversation holds a special token of the model; take it out of the texts")
    messages: list[dict[str, Any]] = [
        {"role": role, "content": [{"type": "text", "text": text}]} for role, text in turns
    ]
    image_index = 0 if isinstance(prompt.messages[-1].parts[0], PromptImage) else 1
    messages[0]["content"].insert(image_index, {"type": "image"})
    chat = partial(prompter.processor.apply_chat_template, tokenize=False)
    spans: list[tuple[int, int]] = []
    checked_ids: list[int] = []
    for turn in range(1, len(turns), 2):
        before = ids(chat(messages[:turn], add_generation_prompt=True))
        whole = ids(chat(messages[: turn + 1]))
        end = len(ids(chat(messages[:turn], add_generation_prompt=True) + turns[turn][1]))
        is_apart = (
            before[: len(checked_ids)] == checked_ids
            and whole[: len(before)] == before
            and len(before) < end < len(whole)
        )
        if not is_apart or whole[end] not in special:
            raise LabelsError(
                f"{key}: the model's chat template or tokenizer does not keep turns apart; choose another"
            )
        checked_ids = whole[: end + 1]
        spans.append((len(before), end + 1))
    text = chat(messages)
    all_ids = ids(text)
    if text_tokens is not None and len(all_ids) > text_tokens:
        raise LabelsError(
            f"{key}: its conversation has {len(all_ids):,} tokens of text, and the recipe's text_tokens are "
            f"{text_tokens:,}; shorten it"
        )
    processed = prompter.processed(text, image)
    if (num := len(processed["input_ids"][0])) > tokenizer.model_max_length:
        raise LabelsError(f"{key}: its conversation has {num:,} tokens, more than the model takes; shorten it")
    cut = len(all_ids) - spans[-1][1] + 1
    # Number of tokens at the end from which nothing is predicted: the last one that ends a turn, and the rest.
    per_token = {name: processed[name][0][:-cut] for name in PER_TOKEN if name in processed}
    per_token.setdefault("attention_mask", torch.ones_like(per_token["input_ids"]))
    per_image = {name: value for name, value in processed.items() if name not in PER_TOKEN}
    token_indices = [index for start, end in spans for index in range(start, end)]
    targets = tuple(all_ids[index] for index in token_indices)
    return Example(per_token, per_image, tuple(index - spans[-1][1] for index in token_indices), targets)


def check_targets(items: Sequence[Item], *, is_slots: bool) -> None:
    """Raise LabelsError if a target is of another kind."""
    for item in items:
        is_text = item.target.turns is not None or 0 < len(item.target.answer or "") <= MAX_ANSWER_LENGTH
        if not (item.target.slots is not None if is_slots else is_text):
            raise LabelsError(f"{item.shard}: a target is damaged; make the set again")


class Examples(Dataset):  # type: ignore[misc]  # of an untyped package
    """The pictures of one split, decoded and prepared when they are first asked for."""

    def __init__(self, items: Sequence[Item], encoder: Encoder, max_pixels: int):
        self._items = items
        self._encoder = encoder
        self._max_pixels = max_pixels
        self._kept: dict[int, Example] = {}
        self._num_bytes_left = KEPT_BYTES

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> Example:
        if index in self._kept:
            return self._kept[index]
        example = self._encoder.example(self._items[index], self._max_pixels)
        num_bytes = sum(values.nbytes for values in (*example.per_token.values(), *example.per_image.values()))
        if num_bytes <= self._num_bytes_left:
            self._kept[index] = example
            self._num_bytes_left -= num_bytes
        return example


class Collator:
    """Joins examples to a batch, padded on the left, so that positions from the end are the same in every row."""

    def __init__(self, pad_id: int):
        self._pad_id = pad_id

    def __call__(self, examples: Sequence[Example]) -> dict[str, torch.Tensor]:
        """Return the model's inputs, and `positions` (K,) and `targets` (batch, K)."""
        length = max(len(example.per_token["input_ids"]) for example in examples)
        batch: dict[str, torch.Tensor] = {}
        for name in examples[0].per_token:
            fill = self._pad_id if name == "input_ids" else 0
            rows = [example.per_token[name] for example in examples]
            padded = [torch.nn.functional.pad(row, (length - len(row), 0), value=fill) for row in rows]
            batch[name] = torch.stack(padded)
        for name in examples[0].per_image:
            batch[name] = torch.cat([example.per_image[name] for example in examples])
        positions = sorted({position for example in examples for position in example.positions})
        column = {position: number for number, position in enumerate(positions)}
        targets = torch.full((len(examples), len(positions)), IGNORED)
        for row, example in enumerate(examples):
            for position, target in zip(example.positions, example.targets, strict=True):
                targets[row, column[position]] = target
        batch["positions"] = torch.tensor(positions) + length
        batch["targets"] = targets
        return batch


def _with(name: str, values: torch.Tensor, added: tuple[int, ...]) -> torch.Tensor:
    """Append the per-token values of the answer: text, which is attended to."""
    answer = {"input_ids": torch.tensor(added), "attention_mask": torch.ones(len(added))}
    appended = answer.get(name, torch.zeros(len(added)))
    return torch.cat([values, appended.to(values.dtype)])
