"""A picture whose pixels are damaged is not scored as if it were whole, or docs/limits.md names its format."""

import zlib
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from PIL import Image

from ingest.images.decode import DecodedImage, decode
from ingest.images.files.metadata import MAX_CHUNKS, png_chunks
from ingest.images.pixels import ImageLimits
from ingest.images.rewriting import cleaned
from tests.ingest.crafted import gif, heif, icon, jpeg, riff_chunk, segment, thumbnail, webp, with_chunks, with_segments
from tests.ingest.pictures import refused
from tests.nasty import PNG_MAGIC, chunk, encoded, png

NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)).resize((300, 200))
ROWS = [b"\0" + row.tobytes() for row in np.asarray(NOISE)]
BITMAP = NOISE.convert("1")
SECOND = {"save_all": True, "append_images": [NOISE.rotate(180)]}


def flipped(whole: bytes) -> bytes:
    """A byte in the middle is wrong."""
    middle = len(whole) // 2
    return whole[:middle] + bytes([whole[middle] ^ 0x55]) + whole[middle + 1 :]


def zeroed(whole: bytes) -> bytes:
    """A part that was never written, as a full disk leaves it."""
    first, last = len(whole) * 6 // 10, len(whole) * 9 // 10
    return whole[:first] + bytes(last - first) + whole[last:]


def empty(whole: bytes) -> bytes:
    first, last = len(whole) // 10, len(whole) * 9 // 10
    return whole[:first] + bytes(last - first) + whole[last:]


def cut(whole: bytes) -> bytes:
    return whole[: len(whole) * 6 // 10]


def tiff(compression: str) -> bytes:
    return encoded(BITMAP if "group" in compression else NOISE, "TIFF", compression=compression)


DAMAGES = {"flipped": flipped, "zeroed": zeroed, "empty": empty, "cut": cut}
TIFF_NOTICED = {
    "tiff_adobe_deflate": "flipped zeroed empty cut",
    "tiff_lzw": "zeroed empty cut",
    "lzma": "zeroed empty cut",
    "packbits": "zeroed empty cut",
    "zstd": "empty cut",
    "jpeg": "zeroed empty cut",
    "group3": "cut",
    "group4": "cut",
    "raw": "cut",
}
FILES: dict[str, tuple[Callable[[], bytes], str]] = {
    "JPEG": (lambda: encoded(NOISE, "JPEG"), "zeroed empty cut"),
    "JPEG progressive": (lambda: encoded(NOISE, "JPEG", progressive=True), "zeroed empty cut"),
    "JPEG CMYK": (lambda: encoded(NOISE.convert("CMYK"), "JPEG"), "zeroed empty cut"),
    "MPO": (lambda: encoded(NOISE, "MPO", **SECOND), "zeroed empty cut"),
    "PNG": (lambda: encoded(NOISE, "PNG"), "flipped zeroed empty cut"),
    "PNG palette": (lambda: encoded(NOISE.quantize(64), "PNG"), "flipped zeroed empty cut"),
    "PNG animated": (lambda: encoded(NOISE, "PNG", **SECOND), "flipped zeroed empty cut"),
    "GIF": (lambda: encoded(NOISE.quantize(64), "GIF"), "zeroed empty cut"),
    "WEBP": (lambda: encoded(NOISE, "WEBP"), "cut"),
    "WEBP lossless": (lambda: encoded(NOISE, "WEBP", lossless=True), "cut"),
    "AVIF": (lambda: encoded(NOISE, "AVIF"), "cut"),
    "HEIF": (lambda: heif(NOISE), "cut"),
    "JPEG 2000": (lambda: encoded(NOISE, "JPEG2000"), "cut"),
    "ICO": (lambda: icon(NOISE, 64), "flipped zeroed empty cut"),
    "ICO of a bitmap": (lambda: icon(NOISE, 64, bitmap_format="bmp"), "cut"),
    "BMP": (lambda: encoded(NOISE, "BMP"), "cut"),
    "PPM": (lambda: encoded(NOISE, "PPM"), "cut"),
    **{f"TIFF {name}": (partial(tiff, name), noticed) for name, noticed in TIFF_NOTICED.items()},
}


def is_noticed(content: bytes) -> bool:
    """Damage of a later frame leaves those before it."""
    result = decode(content, ImageLimits())
    return not isinstance(result, DecodedImage) or result.num_frames_decoded < result.num_frames


@pytest.mark.parametrize("name", FILES)
def test_damage_of_the_pixels_is_noticed_in_each_format(name: str) -> None:
    """Without a checksum a wrong byte is noticed where it makes no valid code, which is chance."""
    maker, noticed = FILES[name]
    whole = maker()
    assert not is_noticed(whole)
    assert [kind for kind in noticed.split() if not is_noticed(DAMAGES[kind](whole))] == []


NOT_NEEDED = "gAMA cHRM sRGB pHYs iCCP tRNS tEXt zTXt iTXt eXIf acTL fcTL fdAT bKGD prVt".split()  # noqa: SIM905
STILL = png(300, 200, 8, 2, b"".join(ROWS))


def with_pixels(packed: bytes) -> bytes:
    """A PNG of NOISE's size with these bytes as its packed pixels."""
    header = chunk(b"IHDR", b"\0\0\1\x2c\0\0\0\xc8\x08\2\0\0\0")
    return PNG_MAGIC + header + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (with_pixels(zlib.compress(b"".join(ROWS[:100]))), "truncated"),
        (with_pixels(zlib.compress(b"".join([*ROWS[:99], b"\x09" + ROWS[99][1:], *ROWS[100:]]))), "corrupt"),
        (with_pixels(zlib.compress(b"".join(ROWS))[:-4] + b"\0\0\0\0"), "corrupt"),
        (with_pixels(b"no packed pixels" * 99), "corrupt"),
        (with_pixels(b""), "truncated"),
    ],
    ids=["half of the rows", "a filter that is none", "wrong checksum", "garbage", "no pixels"],
)
def test_a_png_whose_pixels_are_not_all_there_is_neither_scored_nor_cleaned(content: bytes, reason: str) -> None:
    result = refused(content)
    assert (result.reason, result.width, result.height, result.format) == (reason, 300, 200, "png")
    assert cleaned(content, 1) is None


@pytest.mark.parametrize(
    "behind",
    [
        chunk(b"tEXt", b"Comment\0words")[:-9],
        chunk(b"gAMA", b"\1") + chunk(b"IEND", b""),
        chunk(b"fdAT", b"\0\0\0\0words") + chunk(b"IEND", b""),
        b"",
    ],
    ids=["a text that is cut", "gamma of one byte", "a frame without animation", "no end mark"],
)
def test_damage_behind_the_pixels_of_a_png_is_no_harm(behind: bytes) -> None:
    assert_whole(STILL.removesuffix(chunk(b"IEND", b"")) + behind)


def assert_whole(content: bytes) -> DecodedImage:
    """The first frame is there, and a cleaned file too."""
    results = [decode(file, ImageLimits()) for file in (content, getattr(cleaned(content, 16), "content", b""))]
    images = [result for result in results if isinstance(result, DecodedImage)]
    assert [(image.views[0] == np.asarray(NOISE)).all() for image in images] == [True, True]
    assert images[1].unseen == ()
    return images[0]


@pytest.mark.parametrize("name", NOT_NEEDED)
@pytest.mark.parametrize("content", [b"", b"\0", bytes(26), b"\xff" * 40], ids=["empty", "short", "zeros", "ones"])
def test_faults_of_a_part_that_a_png_does_not_need_are_no_harm(name: str, content: bytes) -> None:
    part = chunk(name.encode(), content)
    for before in (part, part[:-1] + bytes([part[-1] ^ 1])):
        assert_whole(with_chunks(before, before=b"IDAT", whole=STILL))


def test_faults_of_a_part_that_a_png_needs_count() -> None:
    assert is_noticed(STILL.replace(b"IHDR\0\0\1\x2c", b"IHDR\0\0\1\x2d"))


@pytest.mark.parametrize(
    "content",
    [
        with_chunks(*[chunk(b"prVt", b"")] * MAX_CHUNKS, whole=STILL),
        with_segments(*[segment(0xFE, b"")] * 10_001),
        webp(*[riff_chunk(b"prVt", b"")] * MAX_CHUNKS),
        gif().replace(b",\0\0\0\0", b"!\xfe\1a\0" * (MAX_CHUNKS + 1) + b",\0\0\0\0", 1),
    ],
    ids=["png", "jpeg", "webp", "gif"],
)
def test_a_file_of_too_many_parts_is_neither_scored_nor_cleaned(content: bytes) -> None:
    """Each part takes time and memory."""
    assert getattr(decode(content, ImageLimits()), "reason", None) == "corrupt"
    assert cleaned(content, 1) is None


def test_too_many_parts_of_a_copy_behind_a_picture_are_no_damage() -> None:
    copy = with_segments(*[segment(0xFE, b"")] * 10_001, whole=thumbnail())
    assert getattr(decode(jpeg() + copy, ImageLimits()), "unseen", None) == ("trailing_data",)


@pytest.mark.parametrize("fault", ["number", "cut", "gone"])
@pytest.mark.parametrize(
    ("kind", "which", "num_whole"),
    [("acTL", 0, 1), ("fcTL", 0, 1), ("fcTL", 1, 1), ("fdAT", 0, 1), ("fcTL", 2, 2), ("fdAT", -1, 2)],
)
def test_of_a_faulty_animation_the_frames_before_the_fault_are_scanned(
    kind: str, which: int, num_whole: int, fault: str
) -> None:
    file = encoded(NOISE, "PNG", save_all=True, append_images=[NOISE.rotate(180), NOISE])
    chunks = [(name, file[first:last]) for name, first, last in png_chunks(file)]
    part = [number for number, (name, _) in enumerate(chunks) if name == kind.encode()][which]
    name, content = chunks[part]
    number = b"\0\0\0\x4d" if name != b"acTL" else b"\0\0\0\0"
    changed = {"number": [(name, number + content[4:])], "cut": [(name, content[: len(content) // 2])], "gone": []}
    chunks[part : part + 1] = changed[fault]
    image = assert_whole(PNG_MAGIC + b"".join(chunk(name, content) for name, content in chunks))
    assert image.num_frames_decoded == (1 if (kind, which, fault) == ("fcTL", 2, "gone") else num_whole)
    assert image.unseen == ("frames",)
