"""`--gallery`: small pictures of the most severe images, read from the source again, with their boxes drawn.

The source is as hostile as in a scan: it is decoded with the same limits. A thumbnail is encoded anew from pixels, so
that nothing of a file's metadata comes along.
"""

import hashlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from ingest.errors import SourceError
from ingest.formats import Source, open_source
from ingest.images.decode import DecodedImage, ImageLimits, Pixels, decode
from ingest.sample import Sample, printable
from jobs.runtime.feedback import Feedback
from reports.opened import OpenRun
from reports.page.render import Picture
from reports.report.figures import SevereImage
from scoring.runs.record import RunRecord

MAX_PICTURES = 20
SIDE_PX = 288
QUALITY = 65
BLURRED_SIDE_PX = 18
"""The longer side to which a blurred picture is reduced before it is drawn large again: no face and no text is left."""


@dataclass(frozen=True)
class Wanted:
    """An image that the page shows."""

    image: SevereImage
    sha256: str
    boxes: Sequence[Any]


def pictures(run: OpenRun, severest: Sequence[SevereImage], is_clear: bool, feedback: Feedback) -> list[Picture]:
    """Those that the source still holds unchanged; a notice counts the others. SourceError if it cannot be read."""
    wanted = _wanted(run, severest)
    source = _source(run.record)
    shards = {printable(shard): shard for shard in source.shards}
    limits = ImageLimits(max_pixels=run.record.max_pixels, max_frames=1, max_side_px=4 * SIDE_PX)
    found: dict[tuple[str, int], Picture] = {}
    for shard in dict.fromkeys(one.image.shard for one in wanted):
        of_shard = {one.image.index: one for one in wanted if one.image.shard == shard}
        for sample in _samples(source, shards.get(shard), of_shard):
            one = of_shard[sample.index]
            if hashlib.sha256(sample.encoded).hexdigest() != one.sha256:
                continue
            decoded = decode(sample.encoded, limits)
            if isinstance(decoded, DecodedImage):
                jpeg = thumbnail(decoded.views[0], one.boxes, is_clear)
                found[shard, sample.index] = Picture(one.image.key, f"level {one.image.level}", jpeg)
    missing = len(wanted) - len(found)
    if missing:
        feedback.notice(f"{missing} of {len(wanted)} pictures are left out: the source holds them no more as scanned")
    order = [(one.image.shard, one.image.index) for one in wanted]
    return [found[place] for place in order if place in found]


def thumbnail(pixels: Pixels, boxes: Sequence[Any], is_clear: bool) -> bytes:
    """A small JPEG. boxes: rows of the column `boxes`; those of the first view are drawn."""
    image = Image.fromarray(np.ascontiguousarray(pixels))
    image.thumbnail((SIDE_PX, SIDE_PX))
    if not is_clear:
        scale = BLURRED_SIDE_PX / max(image.size)
        size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
        image = image.resize(size, Image.Resampling.BOX).resize(image.size, Image.Resampling.BICUBIC)
    draw = ImageDraw.Draw(image)
    for box in boxes:
        if box["view"] == 0:
            corners = _corners(box, image.size)
            draw.rectangle(corners, outline=(255, 255, 255), width=4)
            draw.rectangle(corners, outline=(179, 38, 30), width=2)
    encoded = io.BytesIO()
    image.save(encoded, "JPEG", quality=QUALITY, subsampling=0, optimize=True)
    return encoded.getvalue()


def _corners(box: Any, size: tuple[int, int]) -> tuple[float, float, float, float]:
    x = sorted(min(1.0, max(0.0, float(box[name]))) * (size[0] - 1) for name in ("x_min", "x_max"))
    y = sorted(min(1.0, max(0.0, float(box[name]))) * (size[1] - 1) for name in ("y_min", "y_max"))
    return x[0], y[0], x[1], y[1]


def _wanted(run: OpenRun, severest: Sequence[SevereImage]) -> list[Wanted]:
    if not severest:
        return []
    least = min(one.s_lex for one in severest)
    places = {(one.shard, one.index): one for one in severest}
    indices = ", ".join(str(one.index) for one in severest)
    asked = f'SELECT shard, "index", sha256, boxes FROM scored WHERE s_lex >= {least} AND "index" IN ({indices})'
    rows = {(printable(row["shard"]), row["index"]): row for row in run.sql(asked).to_pylist()}
    return [
        Wanted(image, rows[place]["sha256"], rows[place]["boxes"] or ())
        for place, image in places.items()
        if place in rows and rows[place]["sha256"]
    ]


def _source(record: RunRecord) -> Source:
    try:
        return open_source(record.source, record.format, record.category)
    except SourceError as error:
        raise SourceError(f"--gallery reads the pictures from the source again: {error}") from None


def _samples(source: Source, shard: str | None, wanted: dict[int, Wanted]) -> Iterator[Sample]:
    """Only the slices that hold a wanted sample are read, and of them only these samples."""
    if shard is None:
        return
    left = set(wanted)
    for slice_ in source.slices(shard):
        locators = [locator for locator in slice_.locators if locator["index"] in left]
        if locators:
            left -= {locator["index"] for locator in locators}
            yield from (one for one in source.read(replace(slice_, locators=locators)) if one.index in wanted)
        if not left:
            return
