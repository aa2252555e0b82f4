"""Peak memory to decode, clean and cover pictures, in bytes per pixel, and what `ingest.images.files.memory` counts
for it. python -m benchmarks.decode_memory
"""

import gc
import io
import json
import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Sequence

import numpy as np
import pillow_heif
from PIL import Image

from ingest.images.decode import decode
from ingest.images.files.formats import READ
from ingest.images.files.memory import Views, canvas_of, coefficient_bytes, covering_bytes, decoding_bytes, opened
from ingest.images.files.orientation import orientation_of
from ingest.images.pixels import ImageLimits
from ingest.images.rewriting import cleaned, covered
from tests.nasty import chunk

WIDTH, HEIGHT = 2_000, 1_500
TURNED = b'<rdf:RDF><rdf:Description tiff:Orientation="6"/></rdf:RDF>'
PICTURES = (
    *("JPEG RGB", "JPEG RGB progressive", "JPEG CMYK", "JPEG CMYK progressive", "JPEG L", "MPO RGB animated"),
    *("PNG 1", "PNG L", "PNG P", "PNG P transparent", "PNG RGB", "PNG RGBA", "PNG RGBA noise", "PNG LA", "PNG I;16"),
    *("PNG RGB deep", "PNG RGBA deep", "PNG LA deep", "BMP RGB skipped"),
    *("BMP RGB", "PPM RGB", "PPM L", "TIFF F", "TIFF RGB", "TIFF RGBA", "TIFF CMYK", "TIFF LAB", "TIFF RGB animated"),
    *("TIFF RGB turned", "TIFF RGBA turned", "JPEG RGB turned", "PNG RGB turned"),
    *("AVIF RGB", "AVIF RGBA", "AVIF RGBA animated", "WEBP RGB", "WEBP RGBA", "WEBP RGBA lossless", "GIF P", "GIF L"),
    *("GIF P transparent", "GIF P animated", "GIF P transparent animated", "PNG RGBA animated"),
    *("WEBP RGBA animated", "HEIF RGB", "HEIF RGBA", "HEIF RGBA deep", "JPEG2000 L", "JPEG2000 RGB", "JPEG2000 RGBA"),
)


def encoded(picture: str) -> bytes:
    """A picture with shapes on a ground of many values, and hidden shapes under half transparency."""
    format_name, mode, *how = picture.split()
    draw = np.random.default_rng(7)
    size = (HEIGHT, WIDTH) if "noise" in how else (HEIGHT // 20, WIDTH // 20)
    frames = []
    for _ in range(3 if "animated" in how else 1):
        values = draw.integers(0, 256, (*size, 4), np.uint8)
        image = Image.fromarray(values, "RGBA").resize((WIDTH, HEIGHT), Image.Resampling.NEAREST)
        if mode == "I;16":
            image = Image.fromarray(np.asarray(image.getchannel("R")).astype(np.uint16) * 200)
        elif mode == "P" and "transparent" in how:
            image = image.quantize(200)
        elif mode in ("CMYK", "LAB", "P", "F"):
            image = image.convert("L" if mode == "F" else "RGB")
            image = image.convert(mode) if mode != "LAB" else Image.merge("LAB", image.split())
        else:
            image = image.convert(mode)
        frames.append(image)
    if format_name == "HEIF":
        return heif(frames[0], is_deep="deep" in how)
    if "deep" in how:
        return deep_png(frames[0])
    if "skipped" in how:
        return skipped_bmp(frames[0])
    options: dict[str, object] = {"save_all": True, "append_images": frames[1:]} if len(frames) > 1 else {}
    if format_name in ("GIF", "PNG") and len(frames) > 1:
        options["disposal"] = 2
    if format_name == "JPEG":
        options |= {"progressive": "progressive" in how, "subsampling": 0, "comment": b"x"}
    if format_name == "WEBP":
        options |= {"lossless": "lossless" in how, "exact": True, "method": 0}
    if format_name == "AVIF":
        options |= {"speed": 10}
    if "turned" in how:  # by XMP, a TIFF by its tag
        options |= {"xmp": TURNED, "tiffinfo": {274: 6}}
    if format_name == "TIFF":
        options["compression"] = "tiff_lzw" if mode in ("RGB", "RGBA") else None
    file = io.BytesIO()
    frames[0].save(file, format_name, **options)
    content = file.getvalue()
    if format_name == "PNG":  # a second gAMA, so that the file is unusual
        gamma = chunk(b"gAMA", (45455).to_bytes(4))
        text = chunk(b"iTXt", b"XML:com.adobe.xmp" + bytes(5) + TURNED) if "turned" in how else b""
        content = content[:33] + gamma + gamma + text + content[33:]
    return content


def heif(image: Image.Image, is_deep: bool) -> bytes:
    """A HEIF with colours at full size, of 8 or 10 bits per channel."""
    values, file = np.asarray(image), io.BytesIO()
    mode, values = (f"{image.mode};16", values.astype(np.uint16) * 257) if is_deep else (image.mode, values)
    whole = pillow_heif.from_bytes(mode, image.size, values.tobytes())
    whole.save(file, quality=50, chroma=444, enc_params={"preset": "ultrafast"})
    return file.getvalue()


def deep_png(image: Image.Image) -> bytes:
    """A PNG with 16 bits per channel, whose low bytes are another picture."""
    values = np.asarray(image)
    deep = np.stack([values, values[:, ::-1]], axis=3).reshape(HEIGHT, -1)
    rows: bytes = np.concatenate([np.zeros((HEIGHT, 1), np.uint8), deep], axis=1).tobytes()
    header = WIDTH.to_bytes(4) + HEIGHT.to_bytes(4) + bytes([16, {"LA": 4, "RGB": 2, "RGBA": 6}[image.mode], 0, 0, 0])
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def skipped_bmp(image: Image.Image) -> bytes:
    """A BMP of 32 bits without alpha, whose fourth byte is another picture."""
    values = np.asarray(image)
    pixels: bytes = np.concatenate([values, values[:, ::-1, :1]], axis=2).tobytes()
    header = struct.pack("<IiiHHIIiiII", 40, WIDTH, HEIGHT, 1, 32, 0, len(pixels), 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + len(pixels), 0, 0, 54) + header + pixels


def peak_of(work: Callable[[], object]) -> float:
    """Bytes per pixel that the work takes at most."""
    gc.collect()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # VmHWM begins anew
    with open("/proc/self/status") as status:
        before = next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) * 1024
    work()
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024
    return (peak - before) / (WIDTH * HEIGHT)


def measured(picture: str) -> dict[str, tuple[float, float]]:
    """Work -> its peak and the memory that is counted for it, both in bytes per pixel."""
    content, scaled, whole = encoded(picture), ImageLimits(max_side_px=1280), ImageLimits(has_pdq=True)
    image, canvas = opened(content, READ), canvas_of(content, 16)
    num_frames, size = getattr(image, "n_frames", 1), canvas or image.size
    is_turned = orientation_of(opened(content, READ)).doubtful is not None
    coefficients = coefficient_bytes(image, 10 if "progressive" in picture else 1)

    def counted(limits: ImageLimits) -> int:
        views = Views(num_frames, limits.max_side_px)
        return decoding_bytes(image, size, num_frames, len(content), views, coefficients, is_turned=is_turned)

    works = {
        "scaled": (lambda: decode(content, scaled), counted(scaled)),
        "whole": (lambda: decode(content, whole), counted(whole)),
        "clean": (lambda: cleaned(content, num_frames), max(counted(scaled), 5 * len(content) + 24 * 2**20)),
        "cover": (
            lambda: covered(content, [(0.1, 0.1, 0.5, 0.5)], "solid"),
            max(counted(scaled), covering_bytes(image, len(content), coefficients)),
        ),
    }
    return {name: (peak_of(work), num_bytes / (WIDTH * HEIGHT)) for name, (work, num_bytes) in works.items()}


def measured_apart(pictures: Sequence[str] = PICTURES) -> dict[str, dict[str, tuple[float, float]]]:
    """Measure in a process that gives freed memory back at once."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.decode_memory", *pictures]
    settings = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)
    return dict(json.loads(line) for line in done.stdout.splitlines())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        for picture in sys.argv[1:]:
            print(json.dumps([picture, measured(picture)]), flush=True)
    else:
        for picture, works in measured_apart().items():
            print(f"{picture:<28}", *(f"{work} {peak:.1f} of {counted:.1f}" for work, (peak, counted) in works.items()))
