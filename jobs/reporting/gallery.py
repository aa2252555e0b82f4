"""`--gallery`: small pictures of the most severe images, read from the source again, with their boxes drawn.

The source is as hostile as in a scan: it is decoded with the same limits. A thumbnail is encoded anew from pixels, so
that nothing of a file's metadata comes along.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from ingest.errors import SourceError
from ingest.images.decode import DecodedImage, ImageLimits, Pixels, decode
from ingest.sample import printable
from jobs.runtime.feedback import Feedback
from jobs.runtime.hash_list import HashList
from jobs.runtime.pictures import Pictures, Where
from reports.opened import OpenRun
from reports.page.render import Picture
from reports.report.figures import SevereImage

MAX_PICTURES = 20
SIDE_PX = 288
QUALITY = 65
BLURRED_SIDE_PX = 18
"""The longer side to which a blurred picture is reduced before it is drawn large again: no face and no text is left."""


@dataclass(frozen=True)
class Wanted:
    """An image that the page shows."""

    image: SevereImage
    where: Where
    boxes: Sequence[Any]
    """Of the column `boxes`."""


def pictures(
    run: OpenRun, severest: Sequence[SevereImage], is_clear: bool, hash_list: HashList, feedback: Feedback
) -> list[Picture]:
    """Those that the source still holds unchanged and that are not on the list; notices count the others.

    SourceError if the source cannot be read.
    """
    wanted = _wanted(run, severest)
    try:
        source = Pictures(run.record, [one.where for one in wanted])
    except SourceError as error:
        raise SourceError(f"--gallery reads the pictures from the source again: {error}") from None
    limits = ImageLimits(max_pixels=run.record.max_pixels, max_frames=1, max_side_px=4 * SIDE_PX)
    shown, num_listed = list[Picture](), 0
    for one in wanted:
        decoded = None if one.where.sha256 in hash_list.sha256 else decode(source.read(one.where).encoded, limits)
        if decoded is None or (isinstance(decoded, DecodedImage) and hash_list.looks_alike(decoded.views[0])):
            num_listed += 1
        elif isinstance(decoded, DecodedImage):
            jpeg = thumbnail(decoded.views[0], one.boxes, is_clear)
            shown.append(Picture(one.image.key, f"level {one.image.level}", jpeg))
    if num_listed:
        feedback.notice(f"{num_listed} of {len(wanted)} pictures are on the hash list and are left out")
    if missing := len(wanted) - len(shown) - num_listed:
        feedback.notice(f"{missing} of {len(wanted)} pictures are left out: the source holds them no more as scanned")
    return shown


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
    indices = ", ".join(str(one.index) for one in severest)
    asked = f'SELECT shard, "index", sha256, key, boxes FROM scored WHERE s_lex >= {least} AND "index" IN ({indices})'
    rows = {(printable(row["shard"]), row["index"]): row for row in run.sql(asked).to_pylist()}
    found = [(image, rows.get((image.shard, image.index))) for image in severest]
    return [
        Wanted(image, Where(row["shard"], row["index"], row["sha256"], row["key"]), row["boxes"] or ())
        for image, row in found
        if row is not None and row["sha256"]
    ]
