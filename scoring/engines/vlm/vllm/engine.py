"""The vLLM engine: a request per view and pass, all in flight at once; a bad request costs its view only.

`assess` may be called by several threads: then the engine works on all their views together and never runs dry
between two batches. vLLM runs in processes of its own; when it dies, `assess` raises.
"""

import asyncio
import itertools
import math
import os
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL.Image import Image
from vllm import AsyncEngineArgs, ModelRegistry, PoolingParams, SamplingParams
from vllm.platforms import current_platform
from vllm.sampling_params import StructuredOutputsParams
from vllm.usage.usage_lib import UsageContext
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError

from ingest.errors import EngineError
from ingest.machine import default_variable
from scoring.assessment import ENGINE_ERROR, BuiltWith, Outcome, Unscored, View
from scoring.engines.canary import CircuitBreaker
from scoring.engines.picture import prepared
from scoring.engines.vlm.checkpoint import max_tokens, read_json, stored_dtype
from scoring.engines.vlm.loading import FAULTS, head_rows
from scoring.engines.vlm.prompting import VLLM_MAX_TOKENS, Prompter, TokenPrompt, generated_tokens, read_answer
from scoring.engines.vlm.settings import VlmSettings
from scoring.engines.vlm.vllm.inputs import FRAMES, InputMaker
from scoring.engines.vlm.vllm.options import COMPILATION, VARIABLES
from scoring.engines.vlm.vllm.starting import SOCKETS_VARIABLE, alone_on_gpu, last_words
from scoring.engines.vlm.vllm.worker import ADAPTER, LOADER, STILLS, overrides
from scoring.protocols.interface import Answer, Generate, Prompt, Protocol, TextAnswer

PREPARING_THREADS = 2
"""That make the model's inputs, at least."""

KNOWN_AFTER = 32
"""Answers from which on their mean says how many tokens a request takes."""

DEATH_SEEN_S = 1.0
"""How often a call waits before it looks whether vLLM still lives."""

PIXELS_PER_TOKEN = 32 * 32
"""Value for the Qwen family, assumed before anything is answered."""


@dataclass(frozen=True)
class VllmSetup:
    """Settings of vLLM for this machine, in addition to those of the model and the protocol."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """Values of the options in `scoring.engines.vlm.vllm.options`."""

    cpus: float | None = None
    gpu_share: float | None = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of vLLM, whose own share of the memory is for a GPU that nothing else uses."""
        arguments_: dict[str, Any] = {}
        if self.gpu_share is not None and self.gpu_share < 1:
            arguments_["gpu_memory_utilization"] = AsyncEngineArgs.gpu_memory_utilization * self.gpu_share
        apart = {*COMPILATION, *VARIABLES}
        arguments_ |= {name: value for name, value in self.options.items() if name not in apart}
        if compilation := {name: self.options[name] for name in COMPILATION if name in self.options}:
            arguments_["compilation_config"] = compilation
        return arguments_

    def set_variables(self) -> None:
        """Set the environment variables for the options that vLLM reads from there."""
        for name, variable in VARIABLES.items():
            if name in self.options:
                os.environ[variable] = str(int(self.options[name]))

    @property
    def num_preparing_threads(self) -> int:
        return max(PREPARING_THREADS, math.ceil(self.cpus or 0))


@dataclass(frozen=True)
class _Picture:
    """A picture that the model can be asked about."""

    image: Image
    name: str
    first_input: dict[str, Any]
    """What vLLM takes for the first question."""


def _lost(error: Exception) -> Unscored:
    return Unscored(ENGINE_ERROR, f"vLLM refused or lost the request ({type(error).__name__})")


class VllmEngine:
    def __init__(self, chosen: VlmSettings, setup: VllmSetup, skeleton: Any = None):
        """Start vLLM. skeleton: the model without its weights; None for random weights, which measure as well."""
        self._protocol = chosen.protocol
        self._max_pixels = chosen.max_pixels
        self._circuit_breaker = CircuitBreaker(chosen.max_pixels)
        self.prompter = Prompter(chosen.checkpoint.folder, chosen.max_pixels)
        self._numbers = itertools.count()
        self.usage: Counter[str] = Counter()
        """Tokens by kind, as vLLM reports them with each output."""
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(setup.num_preparing_threads))
        self._preparing = threading.Semaphore(setup.num_preparing_threads)
        threading.Thread(target=self._loop.run_forever, name="vllm requests", daemon=True).start()
        self._num_outcomes_left = 0
        self._lock = threading.Lock()
        self._sockets = TemporaryDirectory(prefix="vllm-")  # short, since paths of sockets are
        with default_variable(SOCKETS_VARIABLE, self._sockets.name):
            self._engine = _started(chosen, self.prompter, setup, skeleton)
        self._in_workers("end_with", os.getpid())
        self._inputs = InputMaker(self._engine, self.prompter)

    def assess(self, views: Sequence[View]) -> list[Outcome]:
        return self.assess_with(self._protocol, views)

    def assess_with(self, protocol: Protocol, views: Sequence[View]) -> list[Outcome]:
        """Assess with another protocol. All that generate share an engine; `slots` and `binary:first` need one each.

        EngineError if the engine no longer answers."""
        outcomes = self._asked(protocol, views)
        self._circuit_breaker.check(outcomes, lambda plain: self._asked(protocol, plain))
        return outcomes

    @property
    def requests_per_step(self) -> int:
        """As `TakesSteps`: bounded by the tokens of a step, or of the cache where answers are written, too."""
        config = self._engine.vllm_config
        scheduler, cache = config.scheduler_config, config.cache_config
        if isinstance(self._protocol.prompt.wanted, Generate):  # a token each in nearly every step
            most = cache.num_gpu_blocks * cache.block_size if cache.num_gpu_blocks else None
            fitting = scheduler.max_num_seqs if most is None else int(most / self._tokens_per_request())
        else:
            fitting = int(scheduler.max_num_batched_tokens / self._tokens_per_request(without="cached"))
        return max(1, min(int(scheduler.max_num_seqs), fitting))

    def _tokens_per_request(self, without: str = "") -> float:
        num_requests = self.usage["requests"]
        if num_requests < KNOWN_AFTER:  # among which are made pictures, which are small
            text = self.prompter.tokens(self._protocol.prompt).token_ids
            return len(text) + self._max_pixels / PIXELS_PER_TOKEN
        return max(1.0, (self.usage["prompt"] - self.usage[without]) / num_requests)

    @property
    def num_requests(self) -> int:
        return int(self._engine.get_num_unfinished_requests())

    @property
    def num_prepared(self) -> int:
        return max(0, self._num_outcomes_left - self.num_requests)

    @property
    def built_with(self) -> BuiltWith:
        config = self._engine.vllm_config
        scheduler, cache = config.scheduler_config, config.cache_config
        facts: BuiltWith = {
            "device": str(current_platform.get_device_name()),
            "max_num_batched_tokens": scheduler.max_num_batched_tokens,
            "max_num_seqs": scheduler.max_num_seqs,
            "max_model_len": config.model_config.max_model_len,
            "gpu_memory_utilization": cache.gpu_memory_utilization,
            "kv_cache_memory_bytes": cache.kv_cache_memory_bytes or 0,
            "tensor_parallel_size": config.parallel_config.tensor_parallel_size,
            "performance_mode": config.performance_mode,
            "enforce_eager": config.model_config.enforce_eager,
            "enable_prefix_caching": bool(cache.enable_prefix_caching),
            "quantization": config.model_config.quantization or "none",
            "cudagraph_mode": config.compilation_config.cudagraph_mode.name.lower(),
            "cudagraph_mm_encoder": config.compilation_config.cudagraph_mm_encoder,
            "use_v2_model_runner": config.use_v2_model_runner,
        }
        return facts

    def _asked(self, protocol: Protocol, views: Sequence[View]) -> list[Outcome]:
        """Prepare the pictures in the thread of the caller: passing each on to another costs more than it gains."""
        self._count_outcomes_left(len(views))
        with self._preparing:
            pictures = [self._picture(protocol.prompt, view) for view in views]
        return list(self._wait(self._gathered(protocol, pictures)))

    def _picture(self, prompt: Prompt, view: View) -> _Picture | Unscored:
        try:
            image = prepared(view.pixels, self._max_pixels)
            # vLLM would hash each picture to know it again; a name that none had before spares that.
            name = f"picture {next(self._numbers)}"
            return _Picture(image, name, self._input(prompt, image, name))
        except Exception as error:  # the edge, as in `_outcome`
            return _lost(error)

    def _input(self, prompt: Prompt, image: Image, name: str) -> dict[str, Any]:
        tokens = self.prompter.tokens(prompt)
        if prompt.has_image:
            return self._inputs.input_of(tokens, image, name)
        return {"prompt_token_ids": list(tokens.token_ids)}

    def _count_outcomes_left(self, number: int) -> None:
        with self._lock:
            self._num_outcomes_left += number

    def gpu_memory(self) -> tuple[int, int]:
        """As `ReportsGpuMemory`."""
        return max(map(tuple, self._in_workers("gpu_memory")), default=(0, 0))

    def close(self) -> None:
        """End vLLM's processes, and remove the sockets that they leave."""
        self._wait(self._closed())
        self._sockets.cleanup()
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _closed(self) -> None:
        """End vLLM on the loop, so that the task which reads its outputs ends before it can take this for a failure."""
        self._engine.shutdown()
        del self._engine  # its destructor would run too late, when Python itself ends

    async def _gathered(self, protocol: Protocol, pictures: Sequence[_Picture | Unscored]) -> list[Outcome]:
        return list(await asyncio.gather(*(self._counted_outcome(protocol, picture) for picture in pictures)))

    async def _counted_outcome(self, protocol: Protocol, picture: _Picture | Unscored) -> Outcome:
        try:
            return picture if isinstance(picture, Unscored) else await self._outcome(protocol, picture)
        finally:
            self._count_outcomes_left(-1)

    async def _outcome(self, protocol: Protocol, picture: _Picture) -> Outcome:
        try:
            answers: list[Answer] = []
            prompt, asked = protocol.prompt, picture.first_input
            while True:
                answers.append(await self._answer(prompt, asked))
                result = protocol.parse(answers)
                if not isinstance(result, Prompt):
                    return result
                prompt = result
                asked = await asyncio.to_thread(self._input, prompt, picture.image, picture.name)
        except EngineDeadError:
            raise
        except Exception as error:  # the edge: what vLLM raises may hold content, so only its type is kept
            if self._engine.errored:
                raise EngineDeadError from error
            return _lost(error)

    async def _answer(self, prompt: Prompt, asked: dict[str, Any]) -> Answer:
        tokens = self.prompter.tokens(prompt)
        if isinstance(prompt.wanted, Generate):
            return await self._text(asked, tokens, prompt.wanted)
        return read_answer(prompt.wanted, tokens, await self._read(asked, tokens))

    async def _read(self, asked: dict[str, Any], tokens: TokenPrompt) -> npt.NDArray[np.float32]:
        """Return the probabilities of the candidates, shape (slots_from_end, candidate_ids).

        Tokens that the cache already knows give no logits. The text before the picture may be among them, but not the
        slots, since no two pictures have the same name. A question without a picture may be known whole."""
        wanted = PoolingParams(
            task="token_classify", use_activation=False, skip_reading_prefix_cache="mm_kwargs" not in asked
        )
        logits = (await self._finished(self._engine.encode, asked, wanted)).outputs.data.float()
        at_slots = logits[list(tokens.slots_from_end)]
        probabilities: npt.NDArray[np.float32] = at_slots.softmax(dim=-1).cpu().numpy().astype(np.float32)
        return probabilities

    async def _text(self, asked: dict[str, Any], tokens: TokenPrompt, wanted: Generate) -> TextAnswer:
        candidates = list(tokens.candidate_ids)
        sampling = SamplingParams(
            temperature=0,
            max_tokens=wanted.max_tokens,
            logprob_token_ids=candidates or None,
            structured_outputs=_structure(wanted),
        )
        written = (await self._finished(self._engine.generate, asked, sampling)).outputs[0]
        is_cut_off = written.finish_reason == "length"
        ids = list(written.token_ids) if is_cut_off else list(written.token_ids)[:-1]
        # Not vLLM's own text, which leaves out an incomplete character at the end.
        text = self.prompter.tokenizer.decode(ids, skip_special_tokens=True)
        if not candidates:
            return TextAnswer(text, (), is_cut_off)
        spreads = [tuple(float(np.exp(step[token].logprob)) for token in candidates) for step in written.logprobs]
        tokens_of_text = generated_tokens(self.prompter.tokenizer, ids, spreads[: len(ids)], tokens, wanted)
        return TextAnswer(text, tokens_of_text, is_cut_off)

    async def _finished(self, ask: Any, asked: dict[str, Any], wanted: Any) -> Any:
        """Return the last output of a request; there are others only if an engine streams."""
        number = str(next(self._numbers))
        outputs = [output async for output in ask(asked, wanted, number)]
        if getattr(outputs[-1], "error", None) is not None:
            raise RuntimeError("the request failed inside of vLLM")
        last = outputs[-1]
        generated = getattr(last.outputs[0], "token_ids", ()) if isinstance(last.outputs, list) else ()
        self.usage.update(
            requests=1, prompt=len(last.prompt_token_ids), cached=last.num_cached_tokens or 0, generated=len(generated)
        )
        return last

    def _in_workers(self, method: str, *arguments: Any) -> list[Any]:
        """Return what a method of `InWorker` returns in each worker. EngineDeadError if vLLM dies meanwhile."""
        return list(self._wait(self._answers(method, arguments)))

    async def _answers(self, method: str, arguments: tuple[Any, ...]) -> list[Any]:
        answers = asyncio.ensure_future(self._engine.collective_rpc(method, args=arguments))
        while not answers.done():  # if vLLM dies, it ends its requests, but never these calls
            if self._engine.errored:
                answers.cancel()
                raise EngineDeadError
            await asyncio.wait([answers], timeout=DEATH_SEEN_S)
        return list(await answers)

    def _wait(self, task: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(task, self._loop).result()


def _structure(wanted: Generate) -> StructuredOutputsParams | None:
    if wanted.json_schema is not None:
        return StructuredOutputsParams(json=dict(wanted.json_schema))
    return None if wanted.regex is None else StructuredOutputsParams(regex=wanted.regex)


def _started(chosen: VlmSettings, prompter: Prompter, setup: VllmSetup, skeleton: Any) -> AsyncLLM:
    pooling: dict[str, Any] = {}
    changes: dict[str, Any] = {}
    if not isinstance(chosen.protocol.prompt.wanted, Generate):
        # The candidates' rows of the vocabulary head instead of all of it, read at every token of one prefill.
        candidates = prompter.tokens(chosen.protocol.prompt).candidate_ids
        rows = None if skeleton is None else head_rows(skeleton, chosen.checkpoint, chosen.adapter, candidates)
        pooling = {"runner": "pooling", "convert": "classify", "pooler_config": {"task": "token_classify"}}
        changes = overrides(prompter.tokenizer.convert_ids_to_tokens(list(candidates)), rows)
    processing: dict[str, Any] = {} if prompter.image_size is None else {"size": prompter.image_size}
    is_for_stills = prompter.image_size is not None and _takes_frames(chosen.checkpoint.folder)
    if is_for_stills:  # a picture is sent once, instead of as a video of two equal frames
        changes["vision_config"] = {FRAMES: 1}
        processing[FRAMES] = 1
    loading: dict[str, Any] = {"load_format": "dummy"}
    if skeleton is not None:
        adapter = None if chosen.adapter is None else str(chosen.adapter.folder)
        loading = {"load_format": LOADER, "model_loader_extra_config": {ADAPTER: adapter, STILLS: is_for_stills}}
    if current_platform.is_cpu():
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "4")  # GiB; it would take nearly all memory there is
    num_gpus = chosen.tensor_parallel_size or 1
    own_limits = (prompter.tokenizer.model_max_length, max_tokens(chosen.checkpoint.folder) or VLLM_MAX_TOKENS)
    standard: dict[str, Any] = {"enforce_eager": current_platform.is_cpu(), "enable_prefix_caching": True}
    setup.set_variables()
    with alone_on_gpu(setup.gpu_share), last_words() as said:
        try:
            arguments = AsyncEngineArgs(
                model=str(chosen.checkpoint.folder),
                trust_remote_code=False,
                dtype=chosen.dtype or stored_dtype(chosen.checkpoint.folder) or "auto",  # "auto" halves float32
                max_model_len=int(min(VLLM_MAX_TOKENS, *own_limits)),
                tensor_parallel_size=num_gpus,
                distributed_executor_backend="mp" if num_gpus > 1 else "uni",
                limit_mm_per_prompt={"image": 1, "video": 0},
                mm_processor_kwargs=processing,
                hf_overrides=changes,
                mm_processor_cache_gb=0,  # a corpus shows every picture once
                structured_outputs_config={"backend": "xgrammar", "disable_any_whitespace": True},
                generation_config="vllm",
                worker_extension_cls="scoring.engines.vlm.vllm.worker.InWorker",
                **pooling,
                **loading,
                **(standard | setup.arguments()),
            )
            # Steps as large as this GPU takes them: by default they would be those of a server on a small one.
            return AsyncLLM.from_engine_args(arguments, usage_context=UsageContext.LLM_CLASS)
        except (*FAULTS, NotImplementedError) as error:
            why = said() or f"{type(error).__name__}, and it logs more with VLLM_LOGGING_LEVEL=INFO"
            if lacks_code_for(chosen.checkpoint.folder):
                why = "it has no code of its own for this architecture; take --engine transformers"
            raise EngineError(f'vLLM does not start with the model "{chosen.checkpoint.name}": {why}') from error


def _takes_frames(folder: Path) -> bool:
    """Return whether the model is of the Qwen family, and its patches are of several frames of a video."""
    config = read_json(folder / "config.json", "the model")
    vision = config.get("vision_config") or {}
    return str(config.get("model_type")).startswith("qwen") and vision.get(FRAMES, 1) > 1


def lacks_code_for(folder: Path) -> bool:
    """Return whether vLLM has no class for the architecture: what it then takes of transformers mostly fails."""
    named = read_json(folder / "config.json", "the model").get("architectures") or []
    return not set(named) & set(ModelRegistry.get_supported_archs())
