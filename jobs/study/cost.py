"""What tuning costs on pictures that have nothing to do with it."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from ingest.errors import EngineError, SourceError
from ingest.extras import install_command
from ingest.formats import open_source
from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits, Pixels
from jobs.study.request import CostRequest
from scoring.engines.picture import DEFAULT_MAX_PIXELS, max_side_px
from scoring.engines.vlm.adapter import adapter, check_fits
from scoring.engines.vlm.adapter_card import read_card
from scoring.engines.vlm.checkpoint import checkpoint

if TYPE_CHECKING:
    from scoring.tuning.cost import Cost


def run_cost(request: CostRequest) -> "Cost":
    """EngineError or SourceError in one line."""
    given = adapter(request.adapter)
    model = checkpoint(request.model, with_weights=True)
    check_fits(given, model.folder)
    card = read_card(given.folder)
    max_pixels = request.max_pixels or (card.max_pixels if card else DEFAULT_MAX_PIXELS)
    drawn = drawn_pictures(request, max_pixels)
    until_first: list[Pixels | None] = []
    for picture in drawn:
        until_first.append(picture)
        if picture is not None:
            break
    else:
        raise SourceError(f"{request.pictures} holds no picture that can be decoded")
    try:
        from scoring.tuning.cost import cost
    except ImportError as error:
        raise EngineError(f"study cost needs the package {error.name}: {install_command('tune')}") from None
    return cost(model, given, chain(until_first, drawn), max_pixels)


def drawn_pictures(request: CostRequest, max_pixels: int) -> Iterator[Pixels | None]:
    """The pictures whose hashes come first, None for each that cannot be decoded.

    The choice is the same for a seed, whatever the order of the corpus. Each slice is read twice at most.
    """
    source = open_source(request.pictures, None, None)
    ranked = []
    slices = [slice_ for shard in source.shards for slice_ in source.slices(shard)]
    for number, slice_ in enumerate(slices):
        for at, sample in enumerate(source.read(slice_)):
            if sample.fault is None:
                name = f"{request.seed} {hashlib.sha256(sample.encoded).hexdigest()}"
                ranked.append((hashlib.sha256(name.encode()).hexdigest(), number, at))
    chosen: dict[int, set[int]] = defaultdict(set)
    for _, number, at in sorted(ranked)[: request.num_pictures]:
        chosen[number].add(at)
    limits = ImageLimits(max_frames=1, max_side_px=max_side_px(max_pixels))
    for number, places in sorted(chosen.items()):
        for at, sample in enumerate(source.read(slices[number])):
            if at in places:
                decoded = decode(sample.encoded, limits)
                yield decoded.views[0] if isinstance(decoded, DecodedImage) else None
