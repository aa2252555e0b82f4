"""The transformers engine: views in batches, each one prefill; a failure of one view costs only that view."""

import gc
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ingest.errors import EngineError
from scoring.assessment import ENGINE_ERROR, ENGINE_OOM, Outcome, Unscored, View
from scoring.engines.canary import CircuitBreaker
from scoring.engines.picture import prepared
from scoring.engines.vlm.adapter import Adapter
from scoring.engines.vlm.checkpoint import Checkpoint
from scoring.engines.vlm.loading import gpu_memory, model_of
from scoring.engines.vlm.merging import AdapterDeltas
from scoring.engines.vlm.prompting import Prompter, TokenPrompt, read_answer
from scoring.engines.vlm.settings import VlmSettings
from scoring.engines.vlm.transformers.forward import Greedy, Prefill, Prefilled, Request
from scoring.protocols.interface import Answer, Generate, Prompt, Protocol

DEFAULT_BATCH_SIZE = 16
GROW_AFTER = 8
"""Batches in a row with enough memory, after which a batch that was halved is doubled again."""

PER_TOKEN = ("input_ids", "attention_mask", "mm_token_type_ids", "token_type_ids")
"""Outputs of a processor per token; everything else is per image and handed to the model as it is."""


class TransformersEngine:
    def __init__(self, chosen: VlmSettings, model: Any):
        self._protocol = chosen.protocol
        self._max_pixels = chosen.max_pixels
        self._batch_size = chosen.batch_size or DEFAULT_BATCH_SIZE
        self._num_at_once, self._num_good = self._batch_size, 0
        self._circuit_breaker = CircuitBreaker(chosen.max_pixels)
        self.prompter = Prompter(chosen.checkpoint.folder, chosen.max_pixels)
        self.model = model
        self.prefill = Prefill(self.model)
        self._greedy = Greedy(self.model, self.prefill, self.prompter.tokenizer)
        self.usage: Counter[str] = Counter()

    def assess(self, views: Sequence[View]) -> list[Outcome]:
        return self.assess_with(self._protocol, views)

    def assess_with(self, protocol: Protocol, views: Sequence[View]) -> list[Outcome]:
        """Answer as in `assess` for another protocol. EngineError if the engine no longer answers; the accelerator's
        own error if it failed for good, which only a new process can cure."""
        with torch.inference_mode():
            outcomes = self._assess(protocol, views)
            self._circuit_breaker.check(outcomes, lambda plain: self._assess(protocol, plain))
            return outcomes

    def gpu_memory(self) -> tuple[int, int]:
        """As `ReportsGpuMemory`."""
        return gpu_memory()

    def close(self) -> None:
        """Release the model's memory."""
        del self.model, self.prefill, self._greedy
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _assess(self, protocol: Protocol, views: Sequence[View]) -> list[Outcome]:
        outcomes: dict[int, Outcome] = {}
        answers: dict[int, list[Answer]] = {index: [] for index in range(len(views))}
        open_prompts = dict.fromkeys(range(len(views)), protocol.prompt)
        while open_prompts:
            for index, answer in self._ask(views, open_prompts).items():
                if isinstance(answer, Unscored):
                    outcomes[index] = answer
                    del open_prompts[index]
                    continue
                answers[index].append(answer)
                result = protocol.parse(answers[index])
                if isinstance(result, Prompt):
                    open_prompts[index] = result
                else:
                    outcomes[index] = result
                    del open_prompts[index]
        return [outcomes[index] for index in range(len(views))]

    def _ask(self, views: Sequence[View], asked: dict[int, Prompt]) -> dict[int, Answer | Unscored]:
        """Run one pass: return the answer of every view in `asked`."""
        answers: dict[int, Answer | Unscored] = {}
        ready: list[tuple[int, Prompt, TokenPrompt, Request]] = []
        for index, prompt in asked.items():
            try:
                tokens = self.prompter.tokens(prompt)
                ready.append((index, prompt, tokens, self._request(prompt, tokens, views[index])))
            except Exception as error:  # the edge: what processors raise may hold content, so only its type is kept
                answers[index] = Unscored(ENGINE_ERROR, f"the picture cannot be prepared ({type(error).__name__})")
        while ready:
            batch, ready = ready[: self._num_at_once], ready[self._num_at_once :]
            answered = self._isolated([entry[1:] for entry in batch])
            answers.update(zip((entry[0] for entry in batch), answered, strict=True))
        return answers

    def _isolated(self, batch: Sequence[tuple[Prompt, TokenPrompt, Request]]) -> list[Answer | Unscored]:
        """Halve the batch if memory runs out, and those that follow, until some went well; after any other failure ask
        one by one, so that it costs one view."""
        try:
            answers: list[Answer | Unscored] = list(self._answers(batch))
            self._num_good += 1
            if self._num_good % GROW_AFTER == 0:
                self._num_at_once = min(2 * self._num_at_once, self._batch_size)
            return answers
        except Exception as error:  # the edge: what models raise may hold content, so only its type is kept
            if not _is_out_of_memory(error):
                is_untyped = isinstance(error, RuntimeError) and "CUDA error" in str(error)
                if is_untyped or isinstance(error, torch.AcceleratorError):  # after it every call fails
                    raise
                if len(batch) > 1:
                    return [answer for entry in batch for answer in self._isolated([entry])]
                return [Unscored(ENGINE_ERROR, f"the model failed ({type(error).__name__})")]
        # Outside of the handler: its traceback holds the tensors that have to go.
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        if len(batch) == 1:
            return [Unscored(ENGINE_OOM, "out of memory with this picture alone; lower --max-pixels")]
        half = len(batch) // 2
        self._num_at_once, self._num_good = min(half, self._num_at_once), 0
        return [answer for part in (batch[:half], batch[half:]) for answer in self._isolated(part)]

    def _answers(self, batch: Sequence[tuple[Prompt, TokenPrompt, Request]]) -> Sequence[Answer]:
        prompts = [tokens for _, tokens, _ in batch]
        wanted = batch[0][0].wanted
        was_computed, was_generated = self.prefill.num_forward_tokens, self._greedy.num_generated
        before = self.prefill([request for _, _, request in batch], self._prefix(prompts))
        num_prompt = sum(len(request.token_ids) for _, _, request in batch)
        num_cached = num_prompt - (self.prefill.num_forward_tokens - was_computed)
        answers: Sequence[Answer]
        if isinstance(wanted, Generate):
            answers = self._greedy.answers(before, prompts, wanted)
        else:
            answers = [read_answer(wanted, prompts[0], read) for read in self._read(before, prompts[0])]
        num_generated = self._greedy.num_generated - was_generated
        self.usage.update(requests=len(batch), prompt=num_prompt, cached=num_cached, generated=num_generated)
        return answers

    def _read(self, before: Prefilled, prompt: TokenPrompt) -> npt.NDArray[np.float32]:
        """Return the probabilities of the candidates, shape (batch, slots_from_end, candidate_ids)."""
        head = self.model.get_output_embeddings()
        candidates = list(prompt.candidate_ids)
        positions = before.lengths[:, None] + torch.tensor(prompt.slots_from_end, device=before.lengths.device)
        hidden = torch.take_along_dim(before.hidden, positions[:, :, None], dim=1).float()
        logits = hidden @ head.weight[candidates].float().T
        if head.bias is not None:
            logits = logits + head.bias[candidates].float()
        probabilities: npt.NDArray[np.float32] = logits.softmax(dim=-1).cpu().numpy().astype(np.float32)
        return probabilities

    def _prefix(self, prompts: Sequence[TokenPrompt]) -> tuple[int, ...]:
        """Return the tokens before the image if all prompts are the same; other prompts share nothing."""
        image = self.prompter.image_token_id
        ids = prompts[0].token_ids
        if any(prompt is not prompts[0] for prompt in prompts) or image not in ids or not self.prefill.can_share:
            return ()
        return ids[: ids.index(image)]

    def _request(self, prompt: Prompt, tokens: TokenPrompt, view: View) -> Request:
        if not prompt.has_image:
            return Request(torch.tensor(tokens.token_ids), None, {})
        processed = self.prompter.processed(tokens.text, prepared(view.pixels, self._max_pixels))
        types = processed.get("mm_token_type_ids")
        return Request(
            processed["input_ids"][0],
            None if types is None else types[0],
            {name: value for name, value in processed.items() if name not in PER_TOKEN},
        )


def _is_out_of_memory(error: Exception) -> bool:
    """Return whether memory ran out; only CUDA has its own type for it."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    phrases = ("out of memory", "can't allocate memory", "not enough memory", "STATUS_ALLOC_FAILED")
    return isinstance(error, RuntimeError) and any(words in str(error) for words in phrases)


def loaded(checkpoint: Checkpoint, adapter: Adapter | None, dtype: str | None) -> Any:
    """Load the model, with its adapter merged, on the accelerator. EngineError if they are incomplete.

    dtype: None for the stored one.
    """
    device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    model = model_of(checkpoint, dtype)
    if adapter is not None:
        try:
            for name, weight in AdapterDeltas(adapter.folder).merged(model.named_parameters()):
                parameter = model.get_parameter(name)
                if weight is not parameter:
                    parameter.data = weight.data
        except ValueError as error:
            raise EngineError(f'the adapter "{adapter.shown}" cannot be loaded: {error}') from error
    return placed(model, device, checkpoint.name).eval()


def placed(model: Any, device: str, name: str) -> Any:
    """Move the model. EngineError if the device has no room for the model, or fails."""
    try:
        return model.to(device)
    except RuntimeError as error:
        if _is_out_of_memory(error):
            problem = "has no room for it; end what else runs there, or choose a smaller model or --dtype bfloat16"
        else:
            problem = f"fails ({type(error).__name__}); run privsieve doctor --engine transformers"
        raise EngineError(f'the model "{name}" cannot be put on {device}, which {problem}') from error
