"""Greedy generation under a grammar, with the probabilities of candidate tokens. Gives the same answers as vLLM."""

import json
from collections.abc import Sequence
from typing import Any

import torch
import xgrammar

from scoring.engines.vlm.prompting import TokenPrompt, generated_tokens
from scoring.engines.vlm.transformers.prefill import Prefill, Prefilled
from scoring.protocols.interface import Generate, TextAnswer


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
        return [
            self._answer(ids, token_probabilities, prompt, wanted, cut)
            for ids, token_probabilities, prompt, cut in zip(written, probabilities, prompts, is_open, strict=True)
        ]

    def _answer(
        self,
        ids: list[int],
        token_probabilities: list[tuple[float, ...]],
        prompt: TokenPrompt,
        wanted: Generate,
        cut: bool,
    ) -> TextAnswer:
        text = self._tokenizer.decode(ids, skip_special_tokens=True)
        if not prompt.candidate_ids:
            return TextAnswer(text, (), cut)
        return TextAnswer(text, generated_tokens(self._tokenizer, ids, token_probabilities, prompt, wanted), cut)

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
