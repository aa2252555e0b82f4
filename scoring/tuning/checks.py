"""Checks for faults of a tuning run before it starts and before anything is written.

The memory of a step was not measured on a GPU: activations are counted from the parts of a layer.
"""

import math
from collections.abc import Mapping

from ingest.errors import EngineError
from scoring.engines.vlm.checkpoint import read_json, weight_shapes
from scoring.engines.vlm.prompting import Prompter
from scoring.protocols.interface import Slots
from scoring.tuning.examples import Encoder, check_targets
from scoring.tuning.training import LANGUAGE_HEAD, VISION_PARTS, TrainingRequest, batches

BYTES_PER_WEIGHT = 2
"""Bytes of a weight in bfloat16."""

BYTES_PER_TUNED_WEIGHT = 16
"""Bytes in float32 of the weight, its gradient and the two moments of AdamW."""

BYTES_KEPT_PER_TOKEN_AND_LAYER = 2
"""Bytes per number of the hidden state: the input of each layer, in bfloat16; the rest of the layer is computed
again."""

BYTES_PER_TOKEN_IN_ONE_LAYER = (40, 16)
"""Bytes per number of the hidden state, and of the widest product, that a layer holds while it is computed again,
including the copies that its adapter reads."""

RESERVE_BYTES = 2 * 2**30
"""Memory for CUDA itself, and for fragments that its allocator cannot use."""

Shapes = Mapping[str, tuple[int, ...]]


def check(request: TrainingRequest, num_processes: int) -> None:
    """Raise EngineError if the model cannot be asked, or is too large for the GPU; LabelsError if the set teaches
    nothing, is damaged, or cannot be shared out."""
    prompter = Prompter(request.checkpoint.folder, request.max_pixels)
    prompter.check(request.protocol)
    items = request.training_set.items("train")
    check_targets(
        [*items, *request.training_set.items("validation")], is_slots=isinstance(request.protocol.prompt.wanted, Slots)
    )
    shared = batches(request.recipe, len(items), request.micro_batch_size, num_processes)
    first = Encoder(prompter, request.protocol.prompt).example(items[0], request.max_pixels)
    refuse_too_large(request, shared.micro, len(first.per_token["input_ids"]))


def num_tuned_weights(shapes: Shapes, rank: int, *, vision: bool) -> int:
    """Return the number of weights of an adapter on all linear layers of the language model, and with `vision` of the
    picture's side."""
    num = 0
    for name, shape in shapes.items():
        parts = name.split(".")
        is_linear = len(shape) == 2 and LANGUAGE_HEAD not in parts and "embed" not in name
        if is_linear and (vision or not set(parts) & set(VISION_PARTS)):
            num += rank * sum(shape)
    return num


def estimated_bytes(
    shapes: Shapes, rank: int, *, vision: bool, num_layers: int, hidden_size: int, num_tokens: int
) -> int:
    """Estimate the GPU memory that a run will need.

    shapes: of weights, by name. num_layers, hidden_size: of the language model. num_tokens: per micro-batch.
    """
    num_weights = sum(math.prod(shape) for shape in shapes.values())
    widest = max(max(shape) for name, shape in shapes.items() if len(shape) == 2 and ".layers." in name)
    hidden_bytes, widest_bytes = BYTES_PER_TOKEN_IN_ONE_LAYER
    per_token = (
        BYTES_KEPT_PER_TOKEN_AND_LAYER * num_layers * hidden_size + hidden_bytes * hidden_size + widest_bytes * widest
    )
    return (
        num_weights * BYTES_PER_WEIGHT
        + num_tuned_weights(shapes, rank, vision=vision) * BYTES_PER_TUNED_WEIGHT
        + num_tokens * per_token
        + RESERVE_BYTES
    )


def refuse_too_large(request: TrainingRequest, micro_batch_size: int, tokens_per_picture: int) -> None:
    """Raise EngineError if the GPU of this machine is too small; without a GPU nothing is refused.

    tokens_per_picture: tokens of the prompt, the picture and the answer.
    """
    import torch

    if not torch.cuda.is_available():
        return
    config = read_json(request.checkpoint.folder / "config.json", f'the model "{request.checkpoint.name}"')
    text = config.get("text_config") or config
    num_layers, hidden_size = text.get("num_hidden_layers"), text.get("hidden_size")
    if not isinstance(num_layers, int) or not isinstance(hidden_size, int):
        return  # a family with other names: nothing can be estimated before the start
    needs = estimated_bytes(
        weight_shapes(request.checkpoint.folder),
        request.recipe.rank,
        vision=request.recipe.vision,
        num_layers=num_layers,
        hidden_size=hidden_size,
        num_tokens=micro_batch_size * tokens_per_picture,
    )
    has = torch.cuda.get_device_properties(0).total_memory
    if needs > has:
        raise EngineError(
            f"tuning would take about {needs / 2**30:.0f} GiB of GPU memory, and the GPU has {has / 2**30:.0f}; lower "
            "--micro-batch-size, --max-pixels or the recipe's rank, or choose a smaller model"
        )
