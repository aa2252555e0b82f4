"""What a file holds beyond the pictures that are scanned. A release ships the file, all of it.

One walker per format (`jpeg`, `png`, …) says what each part of the file is, and `unseen_in` judges the parts. Padding
does not count, nor does a smaller copy of what was scanned. Damage never raises; parts that a walker does not reach
count as unseen. Content inside the compressed pixels is not found, such as rows beyond those that the header states.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from PIL import ImageFile

from ingest.images.files import avif, bare, gif, jpeg, png, tiff, webp
from ingest.images.files.copies import Scanned
from ingest.images.files.jpeg import Stream
from ingest.images.files.pictures import Inner, InnerPictures, PictureSearch, inner_pictures
from ingest.images.files.pieces import (
    EMBEDDED_IMAGE,
    FRAMES,
    IGNORED_BYTES,
    METADATA,
    PIXELS,
    TRAILING_DATA,
    UNKNOWN_CHUNK,
    Piece,
    unclaimed,
)

MAX_INNER = 64
"""Limit of `Unseen.pictures` of one file; a None at the end means that there are more."""


@dataclass(frozen=True)
class Unseen:
    """Content of a file that is not scanned."""

    kinds: tuple[str, ...]
    """Keys of `ingest.images.files.pieces.UNSEEN_KINDS`, sorted; empty if everything is scanned."""

    num_bytes: int
    """Its size in the file."""

    pictures: tuple[Inner | None, ...]
    """Positions in this content where pictures may begin. None: it may hold some that cannot be taken out of the file,
    such as frames after those that were scanned. Some are missing unless `unseen_in` was asked for pictures."""


def pieces_of(image: ImageFile.ImageFile, encoded: bytes, num_seen: int, streams: Sequence[Stream]) -> Iterator[Piece]:
    """Yield the parts of a file. num_seen: frames that are scanned. streams: their positions in a JPEG."""
    match image.format:
        case "JPEG" | "MPO":
            return jpeg.pieces(encoded, streams)
        case "PNG":
            return png.pieces(encoded, num_seen)
        case "GIF":
            return gif.pieces(encoded, num_seen)
        case "WEBP":
            return webp.pieces(encoded, num_seen)
        case "TIFF":
            return tiff.pieces(encoded, num_seen)
        case "AVIF":
            return avif.pieces(encoded, num_seen, has_alpha=image.mode == "RGBA")
        case "BMP":
            return bare.bmp_pieces(encoded)
        case _:
            return bare.ppm_pieces(encoded)


def unseen_in(
    encoded: bytes, pieces: Iterable[Piece], scanned: Scanned, has_more_frames: bool, takes_pictures: bool = False
) -> Unseen:
    """Judge the pieces of a file. has_more_frames: than were scanned. takes_pictures: return `pictures`."""
    search, num_bytes, num_unpadded = PictureSearch(scanned), Counter[str](), Counter[str]()
    kinds = {FRAMES} if has_more_frames else set[str]()
    pictures: list[Inner | None] = [None] if has_more_frames else []
    for piece in pieces:
        if piece.num_bytes is not None:
            if piece.num_bytes and not (piece.content and search.is_copy(piece.content)):
                kinds.add(piece.kind)
                num_bytes[piece.kind] += piece.num_bytes
                pictures += [Inner(piece.content, 0, name, 0) for name in ("TIFF", "PPM")] if piece.content else [None]
            continue
        inside = search.look(piece.content, is_pixels=piece.kind == PIXELS) if piece.content else InnerPictures()
        if inside.new is not None:
            kinds.add(EMBEDDED_IMAGE)
            most = MAX_INNER + 1 if takes_pictures else 0
            pictures += islice(inner_pictures(piece.content, piece.kind == PIXELS), most)
        if piece.kind not in (METADATA, PIXELS):
            rest = b"".join(piece.content[first:last] for first, last in unclaimed(inside.copies, len(piece.content)))
            unpadded = rest.strip(rest[:1])
            num_unpadded[piece.kind] += len(unpadded)
            num_bytes[piece.kind] += len(rest) if unpadded else 0
        elif inside.new is not None:
            num_bytes[EMBEDDED_IMAGE] += len(piece.content) - inside.new
    kinds |= {kind for kind in (TRAILING_DATA, UNKNOWN_CHUNK) if num_unpadded[kind] > IGNORED_BYTES}
    if len(pictures) > MAX_INNER:
        pictures = [*pictures[:MAX_INNER], None]
    size = min(sum(num_bytes[kind] for kind in kinds), len(encoded))
    return Unseen(tuple(sorted(kinds)), size, tuple(pictures))
