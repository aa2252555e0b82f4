"""Libraries write nothing to the terminal: their lines name no file, and `--quiet` would not hold them back."""

import struct
import subprocess
import sys


def test_a_picture_that_pillow_complains_of_prints_nothing() -> None:
    sides, layout = [(256, 3, 8), (257, 3, 8)], [(273, 4, 8)]
    colours = [(258, 3, 8), (259, 3, 1), (262, 3, 2), (277, 3, 200)]
    tags = b"".join(
        struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in sides + colours[:3] + layout + colours[3:]
    )
    tiff = b"II*\0" + struct.pack("<IH", 8, 7) + tags + bytes(500)
    imports = "from ingest.images.decode import decode; from ingest.images.pixels import ImageLimits"
    code = f"{imports}; print(decode({tiff!r}, ImageLimits()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    assert "corrupt" in done.stdout
    assert done.stderr == ""
