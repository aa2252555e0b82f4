"""Peak memory to decode one picture, in bytes per pixel, by format and mode. python -m tests.benchmarks.decode_memory

Each is decoded in a process of its own, downscaled as in a scan. `ingest.images.decode` counts these figures, rounded
up, against its limit.
"""

import io
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image

from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits
from tests.ingest.peak import peak_mb

WIDTH, HEIGHT = 8_000, 5_000
PICTURES = (
    *("JPEG RGB", "JPEG CMYK", "PNG 1", "PNG L", "PNG P", "PNG RGB", "PNG RGBA", "PNG LA", "PNG I;16", "BMP RGB"),
    *("TIFF F", "TIFF RGB", "TIFF CMYK", "AVIF RGB", "AVIF RGBA", "WEBP RGB", "WEBP RGBA", "GIF P"),
    *("GIF P animated", "PNG RGBA animated", "WEBP RGBA animated"),
)


def encoded(format_name: str, mode: str, num_frames: int) -> bytes:
    """A picture of one grey for each frame."""
    greys = [np.full((HEIGHT, WIDTH), 50 * number, np.uint8) for number in range(num_frames)]
    if mode == "I;16":
        frames = [Image.fromarray(greys[0].astype(np.uint16))]
    else:
        frames = [Image.fromarray(grey).convert(mode) for grey in greys]
    file = io.BytesIO()
    more = {"save_all": True, "append_images": frames[1:], "disposal": 2} if num_frames > 1 else {}
    frames[0].save(file, format_name, **more)
    return file.getvalue()


def measure(file: str) -> float:
    """Bytes per pixel, above what a small picture took before."""
    with open(file, "rb") as stream:
        content = stream.read()
    small = io.BytesIO()
    Image.new("RGB", (64, 64)).save(small, "PNG")
    decode(small.getvalue(), ImageLimits(max_side_px=1280))
    before = peak_mb()
    assert isinstance(decode(content, ImageLimits(max_side_px=1280)), DecodedImage)
    return (peak_mb() - before) * 2**20 / (WIDTH * HEIGHT)


def main() -> None:
    if len(sys.argv) > 1:
        print(f"{measure(sys.argv[1]):.1f}")
        return
    for picture in PICTURES:
        format_name, mode, *animated = picture.split()
        with tempfile.NamedTemporaryFile() as file:
            file.write(encoded(format_name, mode, 3 if animated else 1))
            file.flush()
            command = [sys.executable, "-m", "tests.benchmarks.decode_memory", file.name]
            print(f"{picture:<20} {subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()}")


if __name__ == "__main__":
    main()
