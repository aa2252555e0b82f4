"""BMP and PPM: a header and plain pixels. `image.tile` of Pillow says where they begin."""

import io
import re
from collections.abc import Iterator

import numpy as np
from PIL import Image, ImageFile

from ingest.images.files.pieces import METADATA, TRAILING_DATA, UNKNOWN_CHUNK, Piece, unclaimed

_COMMENT = re.compile(rb"#[^\r\n]*")
_WHITESPACE = b" \t\n\x0b\x0c\r"
_IS_WORD = bytes(value not in _WHITESPACE for value in range(256))

_FILE_HEADER_BYTES, _MAX_INFO_BYTES, _MASK_BYTES = 14, 124, 16
_LINKED_PROFILE = b"DEBM"
_END_OF_LINE, _END_OF_BITMAP, _JUMP = range(3)


def bmp_pieces(encoded: bytes) -> Iterator[Piece]:
    """Yield the parts of a BMP. The header's size of run-length coded pixels is not trusted."""
    image = _opened(encoded)
    decoder, _, pixels, arguments = image.tile[0]
    info_bytes = min(_MAX_INFO_BYTES, _number(encoded, 14, 4))
    num_colours = 2 ** _number(encoded, 28, 2) if info_bytes > 12 and _number(encoded, 28, 2) <= 8 else 0
    header = _FILE_HEADER_BYTES + info_bytes + _MASK_BYTES + 4 * (num_colours or 256 * (info_bytes <= 12))
    if decoder == "raw" and isinstance(arguments, tuple):
        num_bytes = int(arguments[1]) * image.height
    else:
        is_four_bit = isinstance(arguments, tuple) and bool(arguments[1])
        num_bytes = _end_of_runs(encoded, pixels, image.size, is_four_bit) - pixels
    profile = (0, 0)
    if info_bytes == _MAX_INFO_BYTES and encoded[70:74] == _LINKED_PROFILE:
        first = _FILE_HEADER_BYTES + _number(encoded, 126, 4)
        profile = (first, first + _number(encoded, 130, 4))
        yield Piece(METADATA, encoded[slice(*profile)])
    for first, last in unclaimed([(0, header), (pixels, pixels + num_bytes), profile], len(encoded)):
        yield Piece(TRAILING_DATA if last == len(encoded) else UNKNOWN_CHUNK, encoded[first:last])


def _end_of_runs(encoded: bytes, offset: int, size: tuple[int, int], is_four_bit: bool) -> int:
    """Return where Pillow stops reading: after the end mark, or after the last pixel."""
    width, num_pixels = size[0], size[0] * size[1]
    column = num_read = 0
    while num_read < num_pixels and offset + 2 <= len(encoded):
        count, value = encoded[offset], encoded[offset + 1]
        offset += 2
        if count:
            count = min(count, max(0, width - column))
            num_read += count
            column += count
        elif value == _END_OF_LINE:
            num_read += -num_read % width
            column = 0
        elif value == _END_OF_BITMAP:
            break
        elif value == _JUMP:
            num_read += _number(encoded, offset, 1) + _number(encoded, offset + 1, 1) * width
            column = num_read % width
            offset += 2
        else:
            num_bare = min(value, num_pixels - num_read)
            num_read += num_bare
            column += value
            offset += (num_bare + 1) // 2 if is_four_bit else num_bare
            offset += offset % 2
    return offset


def _opened(encoded: bytes) -> ImageFile.ImageFile:
    """Open the image without loading it, since that empties `tile`."""
    return Image.open(io.BytesIO(encoded), formats=("BMP", "PPM"))


def _number(encoded: bytes, offset: int, num_bytes: int) -> int:
    return int.from_bytes(encoded[offset : offset + num_bytes], "little")


def ppm_pieces(encoded: bytes) -> Iterator[Piece]:
    image = _opened(encoded)
    decoder, _, first, given = image.tile[0]
    arguments = given if isinstance(given, tuple) else (given,)
    mode = str(arguments[0])
    header = encoded[:first]
    num_values = image.width * image.height * Image.getmodebands(image.mode)
    if decoder == "ppm_plain":
        yield Piece(UNKNOWN_CHUNK, b"".join(_COMMENT.findall(encoded, first)))
        words = _COMMENT.sub(lambda comment: b" " * len(comment[0]), encoded[first:])
        last = first + _end_of_word(words, num_values, is_digit=image.mode == "1")
    elif mode.startswith("1"):
        last = first + -(-image.width // 8) * image.height
    else:
        is_wide = mode.startswith("I;16") or (decoder == "ppm" and arguments[1] > 255)
        last = first + num_values * (4 if mode.startswith("F") else 2 if is_wide else 1)
    yield Piece(UNKNOWN_CHUNK, b"".join(_COMMENT.findall(header)))
    yield Piece(TRAILING_DATA, encoded[last:])


def _end_of_word(words: bytes, number: int, is_digit: bool) -> int:
    """Return where word `number` ends; each digit of a bitmap is a word, even without spaces."""
    is_word = np.frombuffer(words.translate(_IS_WORD), np.uint8)
    is_end = is_word.copy()
    if not is_digit:
        is_end[:-1] &= is_word[1:] == 0
    ends = np.flatnonzero(is_end)
    return int(ends[number - 1]) + 1 if 0 < number <= len(ends) else len(words)
