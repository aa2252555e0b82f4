"""Forward passes of a batch of prompts through a transformers model.

The prefill computes once what all prompts share. Greedy generation under a grammar follows it, with the probabilities
of candidate tokens; it gives the same answers as vLLM.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import xgrammar
from transformers import DynamicCache

from scoring.engines.vlm.prompting import TokenPrompt, generated_tokens
from scoring.protocols.interface import Generate, TextAnswer

PICTURE_MASK = "cross_attention_mask"
"""Argument of models that see a picture by cross attention: (batch, tokens, pictures, tiles)."""


@dataclass(frozen=True)
class Request:
    """One prompt with its picture."""

    token_ids: torch.Tensor
    """Token ids, one dimension, with the image's placeholder repeated."""

    type_ids: torch.Tensor | None
    """The processor's type ids, of the same shape; None if it gives none."""

    pixels: dict[str, torch.Tensor]
    """The processor's tensors for the image, by argument name; empty for a prompt without image."""


@dataclass
class Prefilled:
    """The state of the model after a batch of prompts."""

    hidden: torch.Tensor
    """Hidden states after the shared prefix, (batch, tokens, width), right-padded."""

    lengths: torch.Tensor
    """(batch,): number of tokens after the shared prefix."""

    attention_mask: torch.Tensor
    """Mask of shape (batch, prefix + tokens)."""

    next_positions: torch.Tensor
    """(batch,): position of the first token to generate."""

    cache: Any

    picture_mask: torch.Tensor | None = None
    """Which tiles of the picture the next token sees, for models that see it by cross attention; else None."""


class Prefill:
    """model: a ForConditionalGeneration. Remembers the last prefix; num_forward_tokens counts tokens computed."""

    def __init__(self, model: Any):
        self._model = model
        self._core = model.model
        self._prefix_ids: tuple[int, ...] = ()
        self._prefix: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.num_forward_tokens = 0

    @property
    def device(self) -> torch.device:
        device: torch.device = self._model.device
        return device

    @property
    def can_share(self) -> bool:
        """Whether texts before a picture can be computed without it. In Llama 3.2-Vision every layer of cross attention
        needs the picture from the first token on."""
        return not getattr(self._model.config.get_text_config(), "cross_attention_layers", None)

    def __call__(self, requests: Sequence[Request], prefix_ids: tuple[int, ...]) -> Prefilled:
        """Run the batch. prefix_ids: first tokens of all requests, possibly none, computed only when they change."""
        prefix = self._cached(prefix_ids)
        num_prefix = len(prefix_ids)
        ids = _right_padded([r.token_ids for r in requests]).to(self.device)
        num_tokens = torch.tensor([len(r.token_ids) for r in requests], device=self.device)
        mask = (torch.arange(ids.shape[1], device=self.device) < num_tokens[:, None]).long()
        types = None
        if all(r.type_ids is not None for r in requests):
            types = _right_padded([r.type_ids for r in requests if r.type_ids is not None]).to(self.device)
        pixels = self._joined(requests)
        positions = self._positions(ids, mask, types, pixels)
        cache = DynamicCache(
            [(k.expand(len(requests), -1, -1, -1), v.expand(len(requests), -1, -1, -1)) for k, v in prefix] or None,
            config=self._model.config,
        )
        if types is not None and pixels:
            pixels["mm_token_type_ids"] = types[:, num_prefix:]
        out = self._core(
            input_ids=ids[:, num_prefix:],
            attention_mask=mask,
            position_ids=positions[..., num_prefix:],
            past_key_values=cache,
            use_cache=True,
            **pixels,
        )
        self.num_forward_tokens += int(num_tokens.sum()) - num_prefix * len(requests)
        last = positions if positions.ndim == 2 else positions.amax(dim=0)
        next_positions = last.masked_fill(mask == 0, -1).amax(dim=1) + 1
        masks = pixels.get(PICTURE_MASK)
        picture_mask = None if masks is None else masks[:, -1:]
        return Prefilled(out.last_hidden_state, num_tokens - num_prefix, mask, next_positions, cache, picture_mask)

    def decode(self, before: Prefilled, token_ids: torch.Tensor) -> torch.Tensor:
        """Add a token per request, token_ids (batch,) -> hidden (batch, width). Updates `before` for the next call."""
        before.attention_mask = torch.cat([before.attention_mask, torch.ones_like(token_ids)[:, None]], dim=1)
        positions = before.next_positions[:, None]
        if hasattr(self._core, "get_rope_index"):
            positions = positions.expand(3, -1, -1)
        out = self._core(
            input_ids=token_ids[:, None],
            attention_mask=before.attention_mask,
            position_ids=positions,
            past_key_values=before.cache,
            use_cache=True,
            **({} if before.picture_mask is None else {PICTURE_MASK: before.picture_mask}),
        )
        before.next_positions = before.next_positions + 1
        self.num_forward_tokens += len(token_ids)
        hidden: torch.Tensor = out.last_hidden_state[:, -1]
        return hidden

    def _cached(self, prefix_ids: tuple[int, ...]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        if not prefix_ids:
            return []
        if prefix_ids != self._prefix_ids:
            cache = DynamicCache(config=self._model.config)
            ids = torch.tensor([prefix_ids], device=self.device)
            mask = torch.ones_like(ids)
            positions = self._positions(ids, mask, torch.zeros_like(ids), {})
            self._core(
                input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True
            )
            self._prefix = [(layer.keys, layer.values) for layer in cache.layers]
            self._prefix_ids = prefix_ids
            self.num_forward_tokens += len(prefix_ids)
        return self._prefix

    def _positions(
        self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor | None, pixels: dict[str, Any]
    ) -> torch.Tensor:
        """Return (batch, tokens), or (3, batch, tokens) if the model numbers time, rows and columns of an image
        apart."""
        plain = (mask.cumsum(dim=1) - 1).clamp(min=0)
        if not hasattr(self._core, "get_rope_index"):
            return plain
        if "image_grid_thw" not in pixels:
            return plain.expand(3, -1, -1)
        positions, _ = self._core.get_rope_index(
            ids, mm_token_type_ids=types, image_grid_thw=pixels["image_grid_thw"], attention_mask=mask
        )
        made: torch.Tensor = positions
        return made

    def _joined(self, requests: Sequence[Request]) -> dict[str, Any]:
        names = requests[0].pixels
        joined = {name: torch.cat([r.pixels[name] for r in requests]).to(self.device) for name in names}
        return {n: t.to(self._model.dtype) if t.is_floating_point() else t for n, t in joined.items()}


def _right_padded(rows: Sequence[torch.Tensor]) -> torch.Tensor:
    """Pad on the right, which cannot change earlier tokens, since attention is causal."""
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=0)


class Greedy:
    """Greedy decoding. num_generated: tokens of all answers, each including the token that ends it."""

    def __init__(self, model: Any, prefill: Prefill, tokenizer: Any):
        self._head = model.get_output_embeddings()
        self._prefill = prefill
        self._tokenizer = tokenizer
        self._vocabulary: int = model.config.get_text_config().vocab_size
        ends = model.generation_config.eos_token_id
        self._ends = frozenset([ends] if isinstance(ends, int) else ends or []) | {tokenizer.eos_token_id}
        information = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=self._vocabulary)
        self._compiler = xgrammar.GrammarCompiler(information)
        self.num_generated = 0

    def answers(self, before: Prefilled, prompts: Sequence[TokenPrompt], wanted: Generate) -> list[TextAnswer]:
        """Generate one answer per request of `before`; all requests have the same `wanted`."""
        matchers = self._matchers(wanted, len(prompts))
        rows = torch.arange(len(prompts), device=before.hidden.device)
        hidden = before.hidden[rows, before.lengths - 1]
        written: list[list[int]] = [[] for _ in prompts]
        probabilities: list[list[tuple[float, ...]]] = [[] for _ in prompts]
        is_open = [True] * len(prompts)
        for step in range(wanted.max_tokens):
            logits = self._allowed(self._head(hidden).float(), matchers, is_open)
            chosen = logits.argmax(dim=-1)
            spread = logits.softmax(dim=-1)
            for row, token in enumerate(chosen.tolist()):
                if not is_open[row]:
                    continue
                self.num_generated += 1
                if token in self._ends:
                    is_open[row] = False
                    continue
                written[row].append(token)
                candidates = list(prompts[row].candidate_ids)
                probabilities[row].append(tuple(spread[row, candidates].tolist()))
                if matchers is not None:
                    matchers[row].accept_token(token)
            if not any(is_open) or step + 1 == wanted.max_tokens:
                break
            hidden = self._prefill.decode(before, chosen)
        answers = []
        for ids, spreads, prompt, is_cut_off in zip(written, probabilities, prompts, is_open, strict=True):
            tokens = generated_tokens(self._tokenizer, ids, spreads, prompt, wanted) if prompt.candidate_ids else ()
            answers.append(TextAnswer(self._tokenizer.decode(ids, skip_special_tokens=True), tokens, is_cut_off))
        return answers

    def _matchers(self, wanted: Generate, count: int) -> list[Any] | None:
        if wanted.json_schema is not None:
            schema = json.dumps(wanted.json_schema)
            grammar = self._compiler.compile_json_schema(schema, any_whitespace=False, separators=(",", ":"))
        elif wanted.regex is not None:
            grammar = self._compiler.compile_regex(wanted.regex)
        else:
            return None
        return [xgrammar.GrammarMatcher(grammar) for _ in range(count)]

    def _allowed(self, logits: torch.Tensor, matchers: list[Any] | None, is_open: Sequence[bool]) -> torch.Tensor:
        if matchers is None:
            return logits
        bitmask = xgrammar.allocate_token_bitmask(len(matchers), self._vocabulary)
        for row, matcher in enumerate(matchers):
            if is_open[row]:
                matcher.fill_next_token_bitmask(bitmask, row)
        xgrammar.apply_token_bitmask_inplace(logits, bitmask.to(logits.device))
        return logits
