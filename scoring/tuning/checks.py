"""Checks for faults of a tuning run before it starts and before anything is written."""

from scoring.engines.vlm.prompting import Prompter
from scoring.protocols.interface import Slots
from scoring.tuning.examples import Encoder, check_targets
from scoring.tuning.memory import refuse_too_large
from scoring.tuning.training import TrainingRequest, batches


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
