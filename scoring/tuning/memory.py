"""Whether a tuning run fits into the memory of a GPU, estimated before it starts."""

from ingest.errors import EngineError
from scoring.engines.vlm.checkpoint import weight_shapes
from scoring.tuning.training import LANGUAGE_HEAD, VISION_PARTS, TrainingRequest

BYTES_PER_WEIGHT = 2
"""bfloat16."""

BYTES_PER_TUNED_WEIGHT = 16
"""In float32: the weight, its gradient and the two moments of AdamW."""

BYTES_PER_PICTURE = 2**30
"""Activations of one picture with its prompt, layers recomputed (gradient checkpointing); our rough figure."""


def estimated_bytes(request: TrainingRequest) -> int:
    """Of GPU memory that the run will need."""
    shapes = weight_shapes(request.checkpoint.folder)
    num_weights = num_tuned = 0
    for name, shape in shapes.items():
        size = 1
        for side in shape:
            size *= side
        num_weights += size
        parts = name.split(".")
        is_tuned = len(shape) == 2 and LANGUAGE_HEAD not in parts and "embed" not in name
        if is_tuned and (request.recipe.vision or not set(parts) & set(VISION_PARTS)):
            num_tuned += request.recipe.rank * sum(shape)
    return (
        num_weights * BYTES_PER_WEIGHT
        + num_tuned * BYTES_PER_TUNED_WEIGHT
        + request.micro_batch_size * BYTES_PER_PICTURE
    )


def refuse_too_large(request: TrainingRequest) -> None:
    """EngineError if the GPU of this machine is too small; without a GPU nothing is refused."""
    import torch

    if not torch.cuda.is_available():
        return
    has = torch.cuda.get_device_properties(0).total_memory
    needs = estimated_bytes(request)
    if needs > has:
        raise EngineError(
            f"tuning would take about {needs / 2**30:.0f} GiB of GPU memory, and the GPU has {has / 2**30:.0f}; lower "
            "--micro-batch-size, the recipe's rank or --max-pixels, or choose a smaller model"
        )
