"""`privsieve scan … --dry-run`: what would be asked, and what the first pictures would cost; nothing is written.

No weights are loaded and no Ray is started. Of the endpoint or the model only its small files are looked at.
"""

import math
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from ingest.formats import Source
from ingest.images.decode import ImageLimits, Pixels, Rejected, decode
from ingest.sample import Sample
from jobs.console.terminal import write_line, write_lines
from scoring.assessment import EngineDescription, EngineOptions
from scoring.engines.openai.settings import DEFAULT_PROTOCOL as DEFAULT_CHAT_PROTOCOL
from scoring.engines.picture import prepared
from scoring.engines.vlm.checkpoint import IMAGE_PROCESSORS, checkpoint, read_json
from scoring.engines.vlm.settings import DEFAULT_MAX_PIXELS, DEFAULT_PROTOCOL
from scoring.protocols import protocol
from scoring.protocols.interface import Prompt, Protocol, ProtocolOptions, Slots, Text
from scoring.taxonomy import KEYS

NUM_PICTURES = 4

DEFAULT_PROTOCOLS = {
    "transformers": DEFAULT_PROTOCOL,
    "vllm": DEFAULT_PROTOCOL,
    "openai": DEFAULT_CHAT_PROTOCOL,
}
"""Engine that is asked by a prompt -> the protocol where none is said."""


def show(
    corpus: Source, engine: str, options: EngineOptions, description: EngineDescription, limits: ImageLimits
) -> None:
    """Prints everything. EngineError, SourceError, StorageError where the scan itself could not begin."""
    write_line(f"engine     {description.name}")
    write_line(f"protocol   {description.protocol}")
    write_line(f"assesses   {_assessed(description)}")
    if engine not in DEFAULT_PROTOCOLS:
        write_line("prompt     none: this engine is not asked in words")
        _show_pictures(corpus, limits, lambda pixels: f"seen at {pixels.shape[1]}x{pixels.shape[0]}")
        return
    said = ProtocolOptions(options.prompt_file, options.thresholds, bool(options.keep_rationale))
    asked = protocol(options.protocol or DEFAULT_PROTOCOLS[engine], said)
    max_pixels = options.max_pixels or DEFAULT_MAX_PIXELS
    _show_prompt(asked)
    if engine == "openai" or options.model is None:
        write_line("tokens     not known here: the endpoint has the tokenizer")
        _show_pictures(corpus, limits, lambda pixels: _as_sent(pixels, max_pixels))
        return
    folder = checkpoint(options.model, with_weights=False).folder
    write_line(f"tokens     {_num_tokens(folder, asked.prompt, max_pixels):,} of text per picture")
    _show_pictures(corpus, limits, lambda pixels: _as_seen(folder, pixels, max_pixels))


def _assessed(description: EngineDescription) -> str:
    if len(description.assessed) == len(KEYS):
        return "all 22 attributes"
    missing = [key for key in KEYS if key not in description.assessed]
    if not description.assessed:
        return "no attribute; the image as a whole"
    return f"{len(description.assessed)} of the 22 attributes, not: {', '.join(missing)}"


def _show_prompt(asked: Protocol) -> None:
    write_line(f"prompt     {asked.name}, version {asked.version}")
    for message in asked.prompt.messages:
        write_line(f"--- {message.role}")
        for part in message.parts:
            write_lines(part.text if isinstance(part, Text) else "[the picture]")
    wanted = asked.prompt.wanted
    if isinstance(wanted, Slots):
        write_line("--- assistant, of which the probabilities at the digits are read")
        write_lines("".join(piece + wanted.placeholder for piece in wanted.pieces))
    else:
        form = "a JSON form" if wanted.json_schema else f"as {wanted.regex}" if wanted.regex else "free"
        write_line(f"--- assistant: {form}, at most {wanted.max_tokens} tokens")
    if asked.passes > 1:
        write_line(f"--- then {asked.passes - 1} more without the picture, about the answer")


def _num_tokens(folder: Path, prompt: Prompt, max_pixels: int) -> int:
    """Of the prompt in the model's words, without those of the picture."""
    from scoring.engines.vlm.prompting import Prompter

    tokens = Prompter(folder, max_pixels).tokens(prompt)
    return len(tokens.token_ids) - prompt.has_image


def _show_pictures(corpus: Source, limits: ImageLimits, told: Callable[[Pixels], str]) -> None:
    """One line for each of the first pictures; by number, since names may tell what is to be seen."""
    samples = list(islice(_samples(corpus), NUM_PICTURES))
    write_line(f"pictures   the first {len(samples)}:")
    for sample in samples:
        image = Rejected(*sample.fault) if sample.fault is not None else decode(sample.encoded, limits)
        where = f"  {sample.shard} {sample.index}"
        if isinstance(image, Rejected):
            write_line(f"{where}: quarantined, {image.reason}")
            continue
        views = f", {len(image.views)} views" if len(image.views) > 1 else ""
        write_line(f"{where}: {image.width}x{image.height}{views}, {told(image.views[0])}")


def _samples(corpus: Source) -> Iterator[Sample]:
    for shard in corpus.shards:
        for piece in corpus.slices(shard):
            yield from corpus.read(piece)


def _as_sent(pixels: Pixels, max_pixels: int) -> str:
    from scoring.engines.openai.chat import jpeg_of

    picture = prepared(pixels, max_pixels)
    return f"sent at {picture.width}x{picture.height}, {len(jpeg_of(pixels, max_pixels)):,} bytes"


def _as_seen(folder: Path, pixels: Pixels, max_pixels: int) -> str:
    picture = prepared(pixels, max_pixels)
    number = visual_tokens(folder, picture.width, picture.height, max_pixels)
    known = "visual tokens not known for this family of models" if number is None else f"{number} visual tokens"
    return f"seen at {picture.width}x{picture.height}, {known}"


def visual_tokens(folder: Path, width: int, height: int, max_pixels: int) -> int | None:
    """What a picture of the Qwen family costs, by the files of the model alone: both sides are rounded to whole
    tokens of patch_size x merge_size pixels, within the least and the largest area that the processor allows.

    None where the model's files tell no such arithmetic. EngineError where they are no JSON.
    """
    for name in reversed(IMAGE_PROCESSORS):
        if (folder / name).is_file():
            said = read_json(folder / name, f'the model folder "{folder}"')
            said = said.get("image_processor", said)
            break
    else:
        return None
    size = said.get("size") or {}
    edges = (size.get("shortest_edge", said.get("min_pixels")), size.get("longest_edge", said.get("max_pixels")))
    numbers = [number for number in (said.get("patch_size"), said.get("merge_size"), *edges) if isinstance(number, int)]
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
