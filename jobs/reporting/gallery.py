"""`--gallery`: small pictures of the most severe images, read from the source again, with their boxes drawn.

The source is as hostile as in a scan: it is decoded with the same limits. A thumbnail is encoded anew from pixels, so
that no metadata of a file is included.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image, ImageDraw

from ingest.errors import SourceError
from ingest.images.pixels import Pixels
from ingest.sample import printable
from jobs.runtime.hash_list import NOTHING, HashList
from jobs.runtime.pictures import COLUMNS, PictureRef, clear_of, first_frames
from jobs.runtime.progress import Feedback
from reports.report.opened import OpenRun
from reports.report.page import PagePicture
from reports.run.figures import SevereImage
from reports.words import whole_boxes
from scoring.table import Col

SIZES = ((288, 65), (288, 40), (208, 40), (144, 35))
"""Longer side in pixels and JPEG quality. The first pair with which the pictures fit into a page is used."""

SIDE_PX = SIZES[0][0]
MAX_BYTES = 420_000
"""Limit of all pictures of a page together, before base64 makes them a third larger."""

BLURRED_SIDE_PX = 18
"""The longer side to which a blurred picture is reduced before it is drawn large again: no face and no text is left."""


@dataclass(frozen=True)
class Wanted:
    image: SevereImage
    where: PictureRef
    boxes: Sequence[Any]


def pictures(run: OpenRun, severest: Sequence[SevereImage], is_clear: bool, feedback: Feedback) -> list[PagePicture]:
    """Return the pictures that the source still holds unchanged; a notice counts the others.

    SourceError if the source cannot be read. severest: without pictures on the hash list (`without_listed`).
    """
    wanted = _wanted(run, severest)
    try:
        frames = list(first_frames(run.record, [item.where for item in wanted], 4 * SIDE_PX, feedback))
    except SourceError as error:
        raise SourceError(f"--gallery reads the pictures from the source again: {error}") from None
    return [
        small_picture(item, pixels, is_clear, MAX_BYTES // len(wanted))
        for item, pixels in zip(wanted, frames, strict=True)
        if pixels is not None
    ]


def small_picture(wanted: Wanted, pixels: Pixels, is_clear: bool, max_bytes: int) -> PagePicture:
    """Encode the picture in the largest of `SIZES` with at most `max_bytes` bytes, or in the smallest if none fits."""
    jpeg = b""
    for side_px, quality in SIZES:
        jpeg = thumbnail(pixels, wanted.boxes, is_clear, side_px, quality)
        if len(jpeg) <= max_bytes:
            break
    return PagePicture(wanted.image.key, f"level {wanted.image.level}", jpeg, (side_px, quality) != SIZES[0])


def thumbnail(
    pixels: Pixels, boxes: Sequence[Any], is_clear: bool, side_px: int = SIDE_PX, quality: int = SIZES[0][1]
) -> bytes:
    """Return a small JPEG. boxes: of the column `boxes`; those of the first view are drawn. side_px: the longer one."""
    image = Image.fromarray(np.ascontiguousarray(pixels))
    image.thumbnail((side_px, side_px))
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
    image.save(encoded, "JPEG", quality=quality, subsampling=0, optimize=True)
    return encoded.getvalue()


def _corners(box: Any, size: tuple[int, int]) -> tuple[float, float, float, float]:
    x = sorted(min(1.0, max(0.0, float(box[name]))) * (size[0] - 1) for name in ("x_min", "x_max"))
    y = sorted(min(1.0, max(0.0, float(box[name]))) * (size[1] - 1) for name in ("y_min", "y_max"))
    return x[0], y[0], x[1], y[1]


def without_listed(
    run: OpenRun, severest: Sequence[SevereImage], hash_list: HashList, feedback: Feedback
) -> tuple[tuple[SevereImage, ...], str | None]:
    """Return the images that may be named and shown; and how many are left out, in words, None if none is.

    SourceError if pictures must be compared and cannot be read.
    """
    if hash_list is NOTHING:
        return tuple(severest), None
    rows = _rows(run, severest)
    table = pa.Table.from_pylist(
        [{name: row[name] for name in COLUMNS} for row in rows.values()],
        schema=pa.schema({name: pa.int64() if name == Col.INDEX else pa.string() for name in COLUMNS}),
    )
    is_clear, note = clear_of(run, table, hash_list, "image", feedback)
    clear = {place for place, may_name in zip(rows, is_clear, strict=True) if may_name}
    return tuple(image for image in severest if (image.shard, image.index) in clear), note


def _wanted(run: OpenRun, severest: Sequence[SevereImage]) -> list[Wanted]:
    rows = _rows(run, severest)
    pairs = [(image, rows.get((image.shard, image.index))) for image in severest]
    return [
        Wanted(
            image,
            PictureRef(row[Col.SHARD], row[Col.INDEX], row[Col.SHA256], row[Col.KEY]),
            whole_boxes(row[Col.BOXES]),
        )
        for image, row in pairs
        if row is not None and row[Col.SHA256]
    ]


def _rows(run: OpenRun, severest: Sequence[SevereImage]) -> dict[tuple[str, int], dict[str, Any]]:
    """Return (printable shard, index) -> row, of these images at least."""
    if not severest:
        return {}
    least = min(image.s_lex for image in severest)
    indices = ", ".join(str(image.index) for image in severest)
    asked = f'SELECT shard, "index", sha256, key, boxes FROM scored WHERE s_lex >= {least} AND "index" IN ({indices})'
    wanted = {(image.shard, image.index) for image in severest}
    rows = {(printable(row[Col.SHARD]), row[Col.INDEX]): row for row in run.sql(asked).to_pylist()}
    return {number: row for number, row in rows.items() if number in wanted}
