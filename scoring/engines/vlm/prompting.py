"""Protocol prompt -> tokens, with the model's own chat template and tokenizer."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from ingest.errors import EngineError
from ingest.sample import printable
from scoring.engines.vlm.chat_template import check_template
from scoring.engines.vlm.checkpoint import max_tokens, read_json
from scoring.protocols.interface import (
    FirstToken,
    FirstTokenAnswer,
    Generate,
    Prompt,
    Protocol,
    SlotAnswer,
    Slots,
    Text,
    Token,
)
from scoring.protocols.reading import MIN_SHARE

VLLM_MAX_TOKENS = 16384
"""Tokens of prompt, picture and answer for which vLLM reserves room, if the model allows that many."""


@dataclass(frozen=True)
class TokenPrompt:
    """A prompt as tokens of the model."""

    text: str
    """The whole prompt, with one placeholder for the image."""

    token_ids: tuple[int, ...]
    """The same as tokens."""

    slots_from_end: tuple[int, ...] = ()
    """Positions at which probabilities are read, negative in token_ids: for `Slots` before each slot, for
    `FirstToken` at the last token. Empty for `Generate`, whose answer follows the last token."""

    candidate_ids: tuple[int, ...] = ()
    """Tokens of the choices of `Slots` or `FirstToken`, or of `Generate.probability_tokens`, as they appear in an
    answer.

    Empty if none are wanted, or if two candidates of `Generate` begin with the same token.
    """

    choice_of_candidate: tuple[int, ...] = ()
    """For `FirstToken`: number of the choice of each candidate."""


class Prompter:
    """A model's own processor and tokenizer, as transformers loads them.

    image_size: setting of the image processor that limits visual tokens to max_pixels; None for families of models
    that measure images in another way.
    """

    def __init__(self, folder: Path, max_pixels: int):
        self.processor: Any = processor_of(folder)
        self.tokenizer: Any = self.processor.tokenizer
        self._last: tuple[Prompt, TokenPrompt] | None = None
        # The Qwen family gives the least and the largest width x height as the `edges` of its size.
        images, edges = self.processor.image_processor, ("shortest_edge", "longest_edge")
        size = dict(getattr(images, "size", None) or {})
        is_in_pixels = hasattr(images, "merge_size") and size.keys() >= set(edges)
        self.image_size = {edge: min(size[edge], max_pixels) for edge in edges} if is_in_pixels else None
        self._name, self._side_px = folder.name, math.isqrt(max_pixels)
        self._max_tokens = min(self.tokenizer.model_max_length, max_tokens(folder) or self.tokenizer.model_max_length)

    def check(self, protocol: Protocol, most: int | None = None) -> None:
        """Raise EngineError if this prompt fails for every picture. most: tokens that the engine takes at once."""
        prompt = protocol.prompt
        self.check_template(prompt)
        try:
            tokens = self.tokens(prompt)
            ids: Sequence[int] = tokens.token_ids
            if prompt.has_image:
                blank = Image.new("RGB", (self._side_px, self._side_px))
                ids = self.processed(tokens.text, blank)["input_ids"][0].tolist()
        except EngineError:
            raise
        except Exception as error:  # the edge: a chat template is a program, and a processor obeys its files
            raise EngineError(
                f'the model "{self._name}" cannot be asked ({type(error).__name__}): its chat template or its '
                "processor refuses the prompt; choose another model, or another --protocol"
            ) from error
        if prompt.has_image and self.image_token_id is not None and self.image_token_id not in ids:
            raise EngineError(
                f'the model "{self._name}" cannot be asked: its chat template leaves out the picture; choose an '
                "instruction-tuned vision model"
            )
        num_tokens = len(ids) + (prompt.wanted.max_tokens if isinstance(prompt.wanted, Generate) else 0)
        limit = min(self._max_tokens, most or self._max_tokens)
        if num_tokens > limit:
            raise EngineError(
                f'the prompt, a picture and the answer take {num_tokens:,} tokens, and the model "{self._name}" takes '
                f"{limit:,}; shorten the --prompt-file, lower --max-pixels, or choose another --protocol"
            )

    def check_template(self, prompt: Prompt) -> None:
        """Raise EngineError if the chat template takes too much time or memory, for the prompt or for a chat that
        continues with an answer."""
        templates = self.processor.chat_template
        template = templates.get("default") if isinstance(templates, dict) else templates
        if not isinstance(template, str):
            return  # transformers says so
        chat = _messages(prompt)
        check_template(self._name, template, self.tokenizer.special_tokens_map, [chat, [*chat, _turn("yes")]])

    def tokens(self, prompt: Prompt) -> TokenPrompt:
        """Return the tokens of a prompt and the positions of its answer, for scoring and for tuning.

        EngineError if the tokenizer does not keep the digits of slots as single tokens, or does not tell the choices
        of `FirstToken` apart.

        The prompt of a first pass is the same object for every view, and computed once.
        """
        if self._last is None or self._last[0] is not prompt:
            chat = self.processor.apply_chat_template(_messages(prompt), tokenize=False, add_generation_prompt=True)
            if isinstance(prompt.wanted, Slots):
                made = self._with_slots(chat, prompt.wanted)
            elif isinstance(prompt.wanted, FirstToken):
                made = self._with_first_tokens(chat, prompt.wanted)
            else:
                made = TokenPrompt(chat, self._ids(chat), (), self._candidates(chat, prompt.wanted))
            self._last = (prompt, made)
        return self._last[1]

    def answer_ids(self, prompt: Prompt, answer: str) -> tuple[int, ...]:
        """Return the target of tuning after `tokens(prompt)`, for `Generate` and `FirstToken`: the answer, as it is
        tokenised there, and the token that ends the turn in the chat template, else the tokenizer's own.

        EngineError if the tokenizer joins the answer to the prompt, or has no such token.
        """
        text = self.tokens(prompt).text
        held, ids = self._ids(text), self._ids(text + answer)
        if ids[: len(held)] != held or len(ids) == len(held):
            raise EngineError(
                f'the tokenizer of the model "{self._name}" joins the answer to the prompt; choose another'
            )
        chat: str = self.processor.apply_chat_template([*_messages(prompt), _turn(answer)], tokenize=False)
        after = self._ids(chat.rpartition(answer)[2])
        end = after[0] if after and after[0] in self.tokenizer.all_special_ids else self.tokenizer.eos_token_id
        if end is None:
            raise EngineError(f'the tokenizer of the model "{self._name}" has no token that ends an answer')
        return (*ids[len(held) :], int(end))

    @property
    def image_token_id(self) -> int | None:
        """Placeholder that occurs once in a prompt; the processor repeats it for every visual token."""
        token = getattr(self.processor, "image_token_id", None)
        return None if token is None else int(token)

    def processed(self, text: str, image: Image.Image) -> Any:
        """Return the model's inputs for one picture, as tensors with a batch of 1, by argument name."""
        size = {} if self.image_size is None else {"size": self.image_size}
        return self.processor(text=[text], images=[image], return_tensors="pt", add_special_tokens=False, **size)

    def _with_slots(self, chat: str, wanted: Slots) -> TokenPrompt:
        """Find the slots. The last placeholder is left out: nothing is read after it."""
        filled = {
            digit: self._ids(chat + "".join(piece + digit for piece in wanted.pieces))
            for digit in (*wanted.choices, wanted.placeholder)
        }
        first, second = filled[wanted.choices[0]], filled[wanted.choices[1]]
        slots = [index for index, (a, b) in enumerate(zip(first, second, strict=False)) if a != b]
        between = {tuple(token for index, token in enumerate(ids) if index not in slots) for ids in filled.values()}
        lengths = {len(ids) for ids in filled.values()}
        candidates = {tuple(filled[choice][index] for choice in wanted.choices) for index in slots}
        held, text = filled[wanted.placeholder], chat + wanted.placeholder.join(wanted.pieces)
        # A token that joins a digit and the text before it would leave a prompt that ends in another token.
        is_regular = (
            len(between) == len(candidates) == 1 and lengths == {slots[-1] + 1} and self._ids(text) == held[:-1]
        )
        if len(slots) != len(wanted.pieces) or not is_regular:
            raise EngineError(
                "the model's tokenizer does not keep single digits as single tokens, the same in every slot, which the "
                "slots protocol needs; choose --protocol json or another model"
            )
        return TokenPrompt(text, held[:-1], tuple(index - len(held) for index in slots), candidates.pop())

    def _with_first_tokens(self, chat: str, wanted: FirstToken) -> TokenPrompt:
        """Find the first tokens. Choices can share a token's beginning of a character, such as two words of a script
        that the tokenizer has only as bytes."""
        choice_by_token: dict[int, tuple[int, str]] = {}
        for choice, spellings in enumerate(wanted.choices):
            for word in spellings:
                token = self._first_token(chat, word, may_be_part_of_character=True)
                if token is None:
                    raise EngineError(
                        f'the tokenizer of the model "{self._name}" has no token that begins the answer "{word}"; '
                        "choose another spelling, or binary:lenient"
                    )
                other, its_word = choice_by_token.setdefault(token, (choice, word))
                if other != choice:
                    raise EngineError(
                        f'the tokenizer of the model "{self._name}" begins the answers "{its_word}" and "{word}" with '
                        "the same token, so that the first token cannot tell them apart; choose other answers, or "
                        "binary:lenient"
                    )
        choices = tuple(choice for choice, _ in choice_by_token.values())
        return TokenPrompt(chat, self._ids(chat), (-1,), tuple(choice_by_token), choices)

    def _candidates(self, chat: str, wanted: Generate) -> tuple[int, ...]:
        """Return candidates where the answer begins, or at the first value of its form: a tokenizer of the
        SentencePiece kind has one token for a word at the start of a text or after a space, and another one for it
        elsewhere."""
        before = chat
        if wanted.json_schema is not None:
            before += f'{{"{next(iter(wanted.json_schema["properties"]))}":'
        first = [self._first_token(before, word) for word in wanted.probability_tokens]
        known = tuple(token for token in first if token is not None)
        return known if len(set(known)) == len(first) else ()

    def _first_token(self, before: str, word: str, *, may_be_part_of_character: bool = False) -> int | None:
        """Return the token that begins the word there, or None."""
        held, ids = self._ids(before), self._ids(before + word)
        keeps = ids[: len(held)] == held
        token = ids[len(held)] if keeps else self._ids(word)[0]
        text_before, text = self.tokenizer.decode(held), self.tokenizer.decode([*held, token])
        if not text.startswith(text_before):
            return None
        added = text.removeprefix(text_before)
        if may_be_part_of_character and keeps and set(added) == {"�"}:
            return token
        added = added.lstrip(" ") if keeps else added
        return token if added and word.startswith(added) else None

    def _ids(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])


def _messages(prompt: Prompt) -> list[dict[str, Any]]:
    return [
        {
            "role": message.role,
            "content": [
                {"type": "text", "text": part.text} if isinstance(part, Text) else {"type": "image"}
                for part in message.parts
            ],
        }
        for message in prompt.messages
    ]


def _turn(answer: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": answer}]}


def read_answer(
    wanted: Slots | FirstToken, tokens: TokenPrompt, probabilities: npt.NDArray[np.float32]
) -> SlotAnswer | FirstTokenAnswer:
    """Build an answer. probabilities: shape (slots_from_end, candidate_ids), each row summing to 1."""
    if isinstance(wanted, Slots):
        return SlotAnswer(probabilities)
    sums = np.bincount(tokens.choice_of_candidate, weights=probabilities[0], minlength=len(wanted.choices))
    return FirstTokenAnswer(tuple(sums.tolist()))


def added_texts(tokenizer: Any, token_ids: Sequence[int]) -> list[str]:
    """Return the text that each generated token adds; joined they are the answer without special tokens."""
    texts: list[str] = []
    decoded = ""
    for end in range(1, len(token_ids) + 1):
        now = tokenizer.decode(token_ids[:end], skip_special_tokens=True)
        # A character can be spread over several tokens: until it is whole, decoding ends in a replacement mark.
        whole = now.rstrip("�") if end < len(token_ids) else now
        texts.append(whole[len(decoded) :] if whole.startswith(decoded) else "")
        decoded = whole if whole.startswith(decoded) else decoded
    return texts


def generated_tokens(
    tokenizer: Any,
    token_ids: Sequence[int],
    spreads: Sequence[tuple[float, ...]],
    prompt: TokenPrompt,
    wanted: Generate,
) -> tuple[Token, ...]:
    """Return the generated tokens with the probabilities of the candidates at each.

    A token can read like a candidate and be another one, such as the word with a space before it, which does not show
    at the start of an answer: then they count from `MIN_SHARE` on, as for a spelling that shows.
    """
    candidates = dict(zip(wanted.probability_tokens, prompt.candidate_ids, strict=True))
    return tuple(
        Token(text, None if candidates.get(text, token) != token and sum(spread) < MIN_SHARE else spread)
        for text, token, spread in zip(added_texts(tokenizer, token_ids), token_ids, spreads, strict=True)
    )


def processor_of(folder: Path) -> Any:
    """Load the processor. EngineError for a model that needs its own code, a missing package, or a model that takes no
    chat with images."""
    try:
        from transformers import CONFIG_MAPPING, AutoProcessor
    except ImportError as error:
        raise EngineError(
            f"transformers cannot be loaded ({type(error).__name__}), mostly because torch and torchvision do not "
            "belong together; install both from one index"
        ) from error
    kind = str(read_json(folder / "config.json", f'the model folder "{folder}"').get("model_type"))
    if kind not in CONFIG_MAPPING:
        raise EngineError(
            f'the model "{folder.name}" is of the type "{printable(kind)}", which this version of transformers lacks; '
            "models that need code of their own are not loaded, privsieve help engines lists those that are"
        )
    try:
        processor: Any = AutoProcessor.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # the edge: transformers passes on whatever a wrong file made it raise
        raise EngineError(
            f'the processor of the model "{folder.name}" cannot be loaded ({type(error).__name__}); models that need '
            "code of their own are not loaded"
        ) from error
    has_images = getattr(processor, "image_processor", None) is not None
    if not has_images or getattr(processor, "chat_template", None) is None:
        what = "chat template" if has_images else "image processor"
        raise EngineError(f'the model "{folder.name}" has no {what}; choose an instruction-tuned vision model')
    return processor
