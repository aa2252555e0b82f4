"""What a file holds beyond the pictures that are scanned: found in every place, and only where there is something."""

import io
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from ingest.images.decode import decode
from ingest.images.files import gif as gif_walker
from ingest.images.files import heif as heif_walker
from ingest.images.files import jpeg as jpeg_walker
from ingest.images.files import jpeg2000 as jpeg2000_walker
from ingest.images.files import png as png_walker
from ingest.images.files import tiff as tiff_walker
from ingest.images.files import unseen
from ingest.images.files import webp as webp_walker
from ingest.images.files.pieces import UNSEEN_KINDS, DamagedError, Piece
from ingest.images.pixels import ImageLimits
from ingest.sample import Sample
from jobs.scanning.batch import BatchScorer
from scoring.engines.canned import CannedEngine
from tests.ingest.crafted import CARD, HIDING, SHOWING, frames, gif, jpeg, segment, tiff, with_chunks, with_segments
from tests.ingest.pictures import LIMITS, decoded, refused
from tests.nasty import chunk, encoded

ENGINE_LIMITS = ImageLimits(max_side_px=200)


@pytest.mark.parametrize("name", HIDING)
def test_what_is_hidden_in_a_file_is_named(name: str) -> None:
    """In views for an engine; test_cleaning.py says the same of views at full size."""
    maker, kinds = HIDING[name]
    image = decoded(maker(), ENGINE_LIMITS)
    assert image.unseen == kinds
    assert set(kinds) <= set(UNSEEN_KINDS)
    assert 64 < image.unseen_bytes <= len(maker())


@pytest.mark.parametrize("name", SHOWING)
def test_a_file_that_shows_everything_has_nothing_unseen(name: str) -> None:
    image = decoded(SHOWING[name](), ENGINE_LIMITS)
    assert (image.unseen, image.unseen_bytes) == ((), 0)


def test_unseen_bytes_are_those_of_what_is_hidden() -> None:
    hidden = bytes(range(256)) * 3
    assert decoded(jpeg() + hidden).unseen_bytes == len(hidden)
    assert decoded(with_chunks(chunk(b"prVt", hidden))).unseen_bytes == len(hidden)
    assert decoded(with_segments(segment(0xE9, hidden), segment(0xEA, hidden))).unseen_bytes == 2 * len(hidden)


def test_an_image_without_pixels_says_nothing_of_what_is_unseen() -> None:
    samples = [Sample("s", 0, "k", None, jpeg()[:-900]), Sample("s", 1, "k", None, jpeg() + CARD)]
    rows = BatchScorer(CannedEngine(), LIMITS, num_threads=1).rows(samples).to_pylist()
    assert [row["status"] for row in rows] == ["quarantined", "scored"]
    assert [row["unseen"] for row in rows] == [None, ["embedded_image", "trailing_data"]]
    assert rows[0]["unseen_bytes"] is None
    assert rows[1]["unseen_bytes"] == len(CARD)


def test_fewer_frames_scanned_means_more_unseen() -> None:
    whole = frames(4, "GIF")
    assert decoded(whole).unseen == ()
    assert decoded(whole, ImageLimits(max_frames=3)).unseen == ("frames",)


@pytest.mark.slow
@pytest.mark.parametrize("change", ["cut", "flipped"])
@pytest.mark.parametrize("name", [*HIDING, *SHOWING])
def test_damage_anywhere_is_a_row_and_never_an_error(name: str, change: str) -> None:
    """The pieces are looked at by themselves too, since an image that is damaged is often refused before."""
    whole = HIDING[name][0]() if name in HIDING else SHOWING[name]()
    places = np.random.default_rng(len(whole)).integers(16, len(whole), 6)
    for place in map(int, places):
        damaged = whole[:place] if change == "cut" else whole[:place] + b"\xff" * 4 + whole[place + 4 :]
        decode(damaged, LIMITS)
        walker = WALKERS.get(name.rpartition(".")[2])
        with suppress(DamagedError):
            assert walker is None or sum(len(piece.content) for piece in walker(damaged)) >= 0


def is_opened(encoded: bytes) -> bool:
    try:
        Image.open(io.BytesIO(encoded), formats=("BMP",))
    except (OSError, SyntaxError):
        return False
    return True


WALKERS: dict[str, Callable[[bytes], Iterable[Piece]]] = {
    "jpg": lambda encoded: jpeg_walker.pieces(encoded, jpeg_walker.streams(encoded, [0])),
    "png": lambda encoded: png_walker.pieces(encoded, 16),
    "gif": lambda encoded: gif_walker.pieces(encoded, 16),
    "webp": lambda encoded: webp_walker.pieces(encoded, 16),
    "tiff": lambda encoded: tiff_walker.pieces(encoded, 16),
    "bmp": lambda encoded: unseen.bmp_pieces(encoded) if is_opened(encoded) else (),
    "heic": lambda encoded: heif_walker.pieces(encoded, False),
    "jp2": jpeg2000_walker.pieces,
    "avif": lambda encoded: heif_walker.pieces(encoded, False),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        b"\xff\xd8\xff\xe0" * 500_000,
        b"/9j/" * 500_000,
        b"II*\0\x08\0\0\0" * 200_000,
        b"\xff\xd0" * 1_000_000,
        bytes(range(1, 255)) * 8_000,
    ],
    ids=["jpeg_heads", "base64_heads", "tiff_heads", "markers", "bytes"],
)
@pytest.mark.parametrize("format_name", ["jpg", "png", "gif", "tiff"])
def test_two_megabytes_of_the_same_take_no_time_by_the_square(format_name: str, more: bytes) -> None:
    """By the square this would take hours."""
    makers = {
        "jpg": lambda: with_segments(*(segment(0xE9, more[at : at + 60_000]) for at in range(0, len(more), 60_000))),
        "png": lambda: with_chunks(chunk(b"prVt", more)),
        "gif": lambda: gif(more.replace(b";", b"-")),
        "tiff": lambda: tiff() + more,
    }
    assert set(decoded(makers[format_name]()).unseen) & {"unknown_chunk", "trailing_data"}


def test_many_pages_of_a_tiff_are_counted_once_each() -> None:
    whole = bytearray(frames(16, "TIFF"))
    at, place = struct.unpack("<I", whole[4:8])[0], 0
    while at:
        place = at + 2 + 12 * struct.unpack("<H", whole[at : at + 2])[0]
        at = struct.unpack("<I", whole[place : place + 4])[0]
    end = len(whole)
    whole[place : place + 4] = struct.pack("<I", end)
    num_more = 40_000
    for number in range(1, num_more + 1):
        whole += b"\0\0" + struct.pack("<I", end + 6 * number if number < num_more else 0)
    image = decoded(bytes(whole))
    assert (image.num_frames, image.num_frames_decoded, image.unseen) == (16 + num_more, 16, ("frames",))


@pytest.mark.parametrize(("num_more", "reason"), [(50, "corrupt"), (200, "too_many_scans")])
def test_a_jpeg_of_very_many_scans_is_refused_before_it_is_decoded(num_more: int, reason: str) -> None:
    whole = jpeg(progressive=True)
    scan = whole[whole.rindex(b"\xff\xda") : -2]
    result = refused(whole[:-2] + scan * num_more + whole[-2:])
    assert (result.reason, result.format) == (reason, "jpeg")
    if reason == "too_many_scans":
        assert "the limit is 100 for its size" in result.message


def test_the_largest_pictures_may_have_fewer_scans() -> None:
    whole = jpeg(progressive=True)
    scan = whole[whole.rindex(b"\xff\xda") : -2]
    result = refused(whole[:-2] + scan * 20 + whole[-2:], ImageLimits(max_pixels=256 * 192))
    assert (result.reason, result.message) == ("too_many_scans", "30 scans in one JPEG, the limit is 20 for its size")


@pytest.mark.parametrize("limits", [LIMITS, ENGINE_LIMITS], ids=["full_size", "downscaled"])
@pytest.mark.parametrize(
    "values",
    [
        np.linspace(0, 900, 1600 * 700, dtype=np.float32).reshape(1600, 700),
        np.where(np.arange(900 * 700).reshape(900, 700) % 7, np.float32(200), np.float32("nan")),
        np.where(np.arange(900 * 700).reshape(900, 700) < 3, np.float32("inf"), np.float32(200)),
    ],
    ids=["many_strips", "no_numbers", "infinity"],
)
def test_float_pictures_are_scaled_strip_by_strip(values: NDArray[np.float32], limits: ImageLimits) -> None:
    view = decoded(encoded(Image.fromarray(values), "TIFF"), limits).views[0]
    largest = max(255.0, float(values.max(where=np.isfinite(values), initial=0)))
    expected = np.clip(np.nan_to_num(values, nan=0, posinf=1e9) * 255 / largest, 0, 255).astype(np.uint8)
    if limits is ENGINE_LIMITS:
        assert abs(float(view.mean()) - float(expected.mean())) < 2
    else:
        assert np.abs(view.astype(int) - expected[:, :, None]).max() <= 1
