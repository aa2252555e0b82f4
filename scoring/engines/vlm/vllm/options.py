"""`--vllm-option NAME=VALUE`: which settings of vLLM can be chosen. None changes what is asked.

Only `quantization` changes the answers, so that it is a setting of the run (`scoring.engines.vlm.vllm.describe`).
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ingest.errors import EngineError, did_you_mean
from ingest.sample import printable

Whole = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(gt=0, le=1)]

QUANTIZATION = "quantization"
COMPILATION = ("cudagraph_mode", "cudagraph_mm_encoder")
"""Settings in vLLM's `compilation_config`."""

VARIABLES = {"use_v2_model_runner": "VLLM_USE_V2_MODEL_RUNNER"}
"""Setting -> environment variable from which vLLM reads it."""


class VllmOptions(BaseModel):
    """Settings that vLLM has by the same names: as arguments of its engine, or in `COMPILATION` or `VARIABLES`.

    docs/engines.md says what they are.
    """

    model_config = ConfigDict(frozen=True)

    max_num_batched_tokens: Whole | None = None
    max_num_seqs: Whole | None = None
    performance_mode: Literal["balanced", "throughput"] | None = None
    gpu_memory_utilization: Share | None = None
    kv_cache_memory_bytes: Whole | None = None
    enforce_eager: bool | None = None
    enable_prefix_caching: bool | None = None
    quantization: Literal["fp8"] | None = None
    cudagraph_mode: Literal["none", "piecewise", "full", "full_and_piecewise"] | None = None
    cudagraph_mm_encoder: bool | None = None
    use_v2_model_runner: bool | None = None


def vllm_options(given: tuple[str, ...] | None) -> dict[str, Any]:
    """Return setting -> value. EngineError in one line for an unknown name, a bad value, or a name given twice."""
    texts: dict[str, str] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise EngineError(f'--vllm-option "{printable(text):.80}": give NAME=VALUE, such as max_num_seqs=512')
        known = VllmOptions.model_fields
        if name not in known:
            shown = f"{printable(name):.80}"
            raise EngineError(
                f'unknown --vllm-option "{shown}"{did_you_mean(name, known)}; there are: {", ".join(known)}'
            )
        if name in texts:
            raise EngineError(f"--vllm-option {name} is given twice; leave one of them out")
        texts[name] = value
    try:
        return VllmOptions.model_validate(texts).model_dump(exclude_none=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0])
        raise EngineError(f'--vllm-option {name}="{printable(texts[name]):.80}": {first["msg"].lower()}') from None
