"""The pixels of a frame as its file stores them, with opacity.

Viewers lay a frame over earlier ones, so colour under its transparent pixels is in no composed frame. They also skip
the opacity of a WebP whose header says that it has none.
"""

import io

from PIL import Image, ImageFile
from PIL.PngImagePlugin import Blend, PngImageFile

from ingest.images.files import webp
from ingest.images.files.metadata import png_metadata


class StoredFrames:
    """Reads the frames of one file in order."""

    def __init__(self, encoded: bytes):
        self._encoded = encoded
        self._png: PngImageFile | None = None

    def has_more(self, image: ImageFile.ImageFile, index: int) -> bool:
        """Return whether a frame may store more than viewers show of it. image: at this frame."""
        if isinstance(image, PngImageFile):
            return index > 0 and image.info.get("blend") == Blend.OP_OVER and image.has_transparency_data
        is_shown = index == 0 and image.mode == "RGBA"
        return image.format == "WEBP" and not is_shown and webp.stored_frame(self._encoded, index) is not None

    def picture(self, image: ImageFile.ImageFile, index: int) -> Image.Image | None:
        """Return a frame on an empty canvas, RGBA; None if every pixel is opaque. Errors are those of Pillow."""
        stored, place = self._png_frame(index) if image.format == "PNG" else self._of_webp(index)
        stored = stored.convert("RGBA")
        if stored.getchannel("A").getextrema() == (255, 255):
            return None
        if stored.size == image.size:
            return stored
        canvas = Image.new("RGBA", image.size)
        canvas.paste(stored, place)
        return canvas

    def used_colours(self, num_frames: int) -> set[int]:
        """Return the entries of a PNG's palette that pixels of its first frames have."""
        frames = (self._png_frame(index)[0].histogram() for index in range(num_frames))
        return {number for counts in frames for number, count in enumerate(counts) if count}

    def _png_frame(self, index: int) -> tuple[Image.Image, tuple[int, int]]:
        if self._png is None:
            self._png = PngImageFile(io.BytesIO(png_metadata(self._encoded)[1]))
        self._png.seek(index)
        self._png.blend_op = Blend.OP_SOURCE  # so that Pillow leaves the frame as it is
        whole = (0, 0, *self._png.size)  # of one that is not animated
        left, top, right, bottom = map(int, getattr(self._png, "dispose_extent", whole))
        return self._png.crop((left, top, right, bottom)), (left, top)

    def _of_webp(self, index: int) -> tuple[Image.Image, tuple[int, int]]:
        file, place = webp.stored_frame(self._encoded, index) or (b"", (0, 0))
        return Image.open(io.BytesIO(file), formats=("WEBP",)), place


def has_unused_opacity(encoded: bytes, image: ImageFile.ImageFile) -> bool:
    """Return whether a WebP of one frame has transparent pixels that viewers show as opaque."""
    frames = StoredFrames(encoded)
    return frames.has_more(image, 0) and frames.picture(image, 0) is not None
