"""What is known of a vision-language engine without its weights: the prompt, its number of tokens, and its costs."""

import math
from functools import partial
from pathlib import Path

from ingest.images.pixels import Pixels
from scoring.assessment import EngineOptions
from scoring.engine_facts import Costs, Preview, RecordedHostCost, RecordedSpeed
from scoring.engines.picture import DEFAULT_MAX_PIXELS, prepared
from scoring.engines.vlm.checkpoint import IMAGE_PROCESSORS, read_json
from scoring.engines.vlm.settings import DEFAULT_PROTOCOL, VlmSettings
from scoring.protocols import chosen_protocol
from scoring.protocols.interface import Prompt, prompt_parts


def preview_of(chosen: VlmSettings) -> Preview:
    folder, max_pixels = chosen.checkpoint.folder, chosen.max_pixels
    return Preview(
        describe_picture=partial(_size_as_seen, folder=folder, max_pixels=max_pixels),
        protocol=f"{chosen.protocol.name}, version {chosen.protocol.version}",
        parts=prompt_parts(chosen.protocol),
        num_text_tokens=_num_text_tokens(folder, chosen.protocol.prompt, max_pixels),
    )


def _num_text_tokens(folder: Path, prompt: Prompt, max_pixels: int) -> int:
    """Count the tokens of the prompt without the placeholder of the picture."""
    from scoring.engines.vlm.prompting import Prompter

    prompter = Prompter(folder, max_pixels)
    prompter.check_template(prompt)
    tokens = prompter.tokens(prompt)
    return len(tokens.token_ids) - prompt.has_image


def _size_as_seen(pixels: Pixels, folder: Path, max_pixels: int) -> str:
    picture = prepared(pixels, max_pixels)
    number = visual_tokens(folder, picture.width, picture.height, max_pixels)
    known = "visual tokens not known for this family of models" if number is None else f"{number} visual tokens"
    return f"seen at {picture.width}x{picture.height}, {known}"


def visual_tokens(folder: Path, width: int, height: int, max_pixels: int) -> int | None:
    """Return the number of tokens of a picture in a model of the Qwen family.

    Both sides are rounded to whole tokens of patch_size x merge_size pixels, and the area is kept between the smallest
    and the largest that the image processor allows.
    None if the model's files have no such settings. EngineError if they are not JSON.
    """
    for name in reversed(IMAGE_PROCESSORS):
        if (folder / name).is_file():
            config = read_json(folder / name, f'the model folder "{folder}"')
            config = config.get("image_processor", config)
            break
    else:
        return None
    size = config.get("size") or {}
    edges = (size.get("shortest_edge", config.get("min_pixels")), size.get("longest_edge", config.get("max_pixels")))
    numbers = [n for n in (config.get("patch_size"), config.get("merge_size"), *edges) if isinstance(n, int)]
    if len(numbers) < 4 or min(numbers) < 1:
        return None
    side_px = numbers[0] * numbers[1]
    least, largest = (min(edge, max_pixels) for edge in numbers[2:])
    across, down = (round(side / side_px) for side in (width, height))
    area = across * down * side_px**2
    if area > largest:
        scale = math.sqrt(width * height / largest)
        across, down = (max(1, math.floor(side / scale / side_px)) for side in (width, height))
    elif area < least:
        scale = math.sqrt(least / (width * height))
        across, down = (math.ceil(side * scale / side_px) for side in (width, height))
    return across * down


MACHINE = "one thread of an AMD EPYC with two cores, vLLM 0.32 and transformers 5.19"
"""Machine on which `python -m tests.benchmarks.host_cost` measured the `HOST_COST` of both engines."""


def costs_of(options: EngineOptions, host: RecordedHostCost, speed: RecordedSpeed | None) -> Costs:
    """Return the costs. EngineError for a wrong protocol, prompt file or thresholds file."""
    chosen_protocol(options, DEFAULT_PROTOCOL)
    return Costs(options.max_pixels or DEFAULT_MAX_PIXELS, host, speed)
