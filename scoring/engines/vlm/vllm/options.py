"""`--vllm-option NAME=VALUE`: which settings of vLLM can be chosen. None changes what is asked.

Only `quantization` changes the answers, so that it is a setting of the run (`scoring.engines.vlm.vllm.describe`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ingest.errors import EngineError, did_you_mean

Value = bool | int | float | str


@dataclass(frozen=True)
class VllmOption:
    """A setting that vLLM has by the same name: as an argument of its engine, or in `COMPILATION` or `VARIABLES`."""

    read: Callable[[str], Value]
    """ValueError where the text is no such value."""

    values: str
    """Which values there are, in words."""

    meaning: str


def _checked(read: Callable[[str], Value], fits: Callable[[Any], bool]) -> Callable[[str], Value]:
    """Return a reader of texts that raises ValueError unless the value fits."""

    def checked(text: str) -> Value:
        value = read(text)
        if not fits(value):
            raise ValueError
        return value

    return checked


_whole = _checked(int, lambda number: number >= 1)
_share = _checked(float, lambda number: 0 < number <= 1)
_gib = _checked(float, lambda number: 0 <= number < 10_000)


def _one_of(*names: str) -> Callable[[str], Value]:
    return _checked(str, names.__contains__)


def _switch(text: str) -> bool:
    return _checked(str.lower, ("true", "false").__contains__)(text) == "true"


WHOLE, SWITCHED = "a whole number from 1", "true or false"
QUANTIZATION = "quantization"
COMPILATION = ("cudagraph_mode", "cudagraph_mm_encoder")
"""Settings in vLLM's `compilation_config`."""

VARIABLES = {"use_v2_model_runner": "VLLM_USE_V2_MODEL_RUNNER"}
"""Setting -> environment variable from which vLLM reads it."""

VLLM_OPTIONS: Mapping[str, VllmOption] = MappingProxyType(
    {
        "max_num_batched_tokens": VllmOption(_whole, WHOLE, "tokens in one step"),
        "max_num_seqs": VllmOption(_whole, WHOLE, "requests in one step"),
        "performance_mode": VllmOption(
            _one_of("balanced", "throughput"), "balanced or throughput", "throughput doubles both defaults"
        ),
        "gpu_memory_utilization": VllmOption(_share, "a number above 0, at most 1", "part of the GPU's memory to take"),
        "kv_cache_memory_bytes": VllmOption(_whole, WHOLE, "size of the cache, instead of all that is left"),
        "cpu_offload_gb": VllmOption(_gib, "a number from 0", "GiB of weights that stay in the machine's memory"),
        "enforce_eager": VllmOption(_switch, SWITCHED, "no CUDA graphs: a shorter start, less memory, slower"),
        "enable_prefix_caching": VllmOption(_switch, SWITCHED, "compute the text before the picture only once"),
        "enable_chunked_prefill": VllmOption(_switch, SWITCHED, "divide a prompt over steps"),
        "mm_encoder_tp_mode": VllmOption(
            _one_of("weights", "data"), "weights or data", "what GPUs that share a model divide of the vision tower"
        ),
        QUANTIZATION: VllmOption(
            _one_of("fp8"), "fp8", "8-bit numbers, made of the weights when they are loaded; changes the answers"
        ),
        "cudagraph_mode": VllmOption(
            _one_of("none", "piecewise", "full", "full_and_piecewise"),
            "none, piecewise, full or full_and_piecewise",
            "which CUDA graphs are captured at the start",
        ),
        "cudagraph_mm_encoder": VllmOption(_switch, SWITCHED, "CUDA graphs of the vision tower, too"),
        "use_v2_model_runner": VllmOption(_switch, SWITCHED, "which of its two model runners works"),
    }
)


def vllm_options(given: tuple[str, ...] | None) -> dict[str, Value]:
    """Return setting -> value. EngineError in one line for an unknown name, a bad value, or a name given twice."""
    values: dict[str, Value] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise EngineError(f'--vllm-option "{text}": give NAME=VALUE, such as max_num_seqs=512')
        option = VLLM_OPTIONS.get(name)
        if option is None:
            known = ", ".join(VLLM_OPTIONS)
            raise EngineError(f'unknown --vllm-option "{name}"{did_you_mean(name, VLLM_OPTIONS)}; there are: {known}')
        if name in values:
            raise EngineError(f"--vllm-option {name} is given twice; leave one of them out")
        try:
            values[name] = option.read(value)
        except ValueError:
            raise EngineError(f'--vllm-option {name}="{value}": wanted is {option.values}') from None
    return values
