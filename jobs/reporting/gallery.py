"""`--gallery`: small pictures of the most severe images, read from the source again, with their boxes drawn.

The source is as hostile as in a scan: it is decoded with the same limits. A thumbnail is encoded anew from pixels, so
that no metadata of a file is included.
"""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image, ImageDraw

from ingest.errors import SourceError
from ingest.images.pixels import Pixels
from jobs.runtime.hash_list import NOTHING, HashList
from jobs.runtime.pictures import COLUMNS, PictureRef, clear_of, first_frames
from jobs.runtime.progress import Feedback
from reports.report.opened import OpenRun
from reports.report.page import PagePicture
from reports.run.figures import SevereImage
from reports.words import whole_boxes
from scoring.sql.names import identifier, literal
from scoring.table import Col

SIZES = ((288, 65), (288, 40), (208, 40), (144, 35))
"""Longer side in pixels and JPEG quality. The first pair with which the pictures fit into a page is used."""

SIDE_PX = SIZES[0][0]
MAX_BYTES = 420_000
"""Limit of all pictures of a page together, before base64 makes them a third larger."""

BLURRED_SIDE_PX = 18
"""The longer side to which a blurred picture is reduced before it is drawn large again: no face and no text is left."""


def pictures(run: OpenRun, severest: Sequence[SevereImage], is_clear: bool, feedback: Feedback) -> list[PagePicture]:
    """Return the pictures that the source still holds unchanged; a notice counts the others.

    SourceError if the source cannot be read. severest: without pictures on the hash list (`without_listed`).
    """
    rows = _rows(run, severest).to_pylist()
    refs = [PictureRef(*(row[name] for name in COLUMNS)) for row in rows]
    try:
        frames = list(first_frames(run.record, refs, 4 * SIDE_PX, feedback))
    except SourceError as error:
        raise SourceError(f"--gallery reads the pictures from the source again: {error}") from None
    most = MAX_BYTES // max(1, len(rows))
    return [
        small_picture(image, whole_boxes(row[Col.BOXES]), pixels, is_clear, most)
        for image, row, pixels in zip(severest, rows, frames, strict=True)
        if pixels is not None
    ]


def small_picture(
    image: SevereImage, boxes: Sequence[Any], pixels: Pixels, is_clear: bool, max_bytes: int
) -> PagePicture:
    """Encode the picture in the largest of `SIZES` with at most `max_bytes` bytes, or in the smallest if none fits."""
    jpeg = b""
    for side_px, quality in SIZES:
        jpeg = thumbnail(pixels, boxes, is_clear, side_px, quality)
        if len(jpeg) <= max_bytes:
            break
    caption = f"level {image.level}" if image.level else f"score {image.score:.3f}"
    return PagePicture(image.key, caption, jpeg, (side_px, quality) != SIZES[0])


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
    is_clear, note = clear_of(run, _rows(run, severest).select(COLUMNS), hash_list, "image", feedback)
    return tuple(image for image, may_name in zip(severest, is_clear, strict=True) if may_name), note


def _rows(run: OpenRun, severest: Sequence[SevereImage]) -> pa.Table:
    """Return the row of each image. An image with the same bytes is as good."""
    listed = ", ".join(literal(image.sha256) for image in severest) or "NULL"
    columns = ", ".join(identifier(name) for name in (*COLUMNS, Col.BOXES))
    rows = run.sql(f"SELECT {columns} FROM scored WHERE sha256 IN ({listed})")
    places = {sha256: place for place, sha256 in enumerate(rows[Col.SHA256].to_pylist())}
    return rows.take([places[image.sha256] for image in severest])
