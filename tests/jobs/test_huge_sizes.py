"""A file that claims a huge size costs one row, at once."""

import struct
from pathlib import Path

import pyarrow.parquet as pq

from tests.jobs.in_process import scan_in_process


def tiff(width: int) -> bytes:
    tags = ((256, 4, 1, width), (257, 4, 1, 2), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (273, 4, 1, 8))
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + b"".join(struct.pack("<HHII", *tag) for tag in tags) + bytes(4)


def big_tiff(width: int) -> bytes:
    tags = ((256, 16, 1, width), (257, 16, 1, 2), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (273, 16, 1, 8))
    entries = b"".join(struct.pack("<HHQQ", *tag) for tag in tags)
    return b"II+\0" + struct.pack("<HHQQ", 8, 0, 16, len(tags)) + entries + bytes(8)


def bmp(width: int) -> bytes:
    return b"BM" + struct.pack("<IHHI", 118, 0, 0, 54) + struct.pack("<IIiHHIIiiII", 40, width, 64, 1, 24, *[0] * 6)


def test_sizes_above_32_and_64_bits_are_too_many_pixels(tmp_path: Path) -> None:
    claims = {
        "a.bmp": (bmp(2**32 - 127), 2**32 - 127),
        "b.ppm": (b"P6\n9999999999 2\n255\n", 9999999999),
        "c.tif": (tiff(4_000_000_000), 4_000_000_000),
        "d.tif": (big_tiff(2**63), None),
    }
    source = tmp_path / "source"
    source.mkdir()
    for name, (content, _) in claims.items():
        (source / name).write_bytes(content)
    scan_in_process(source, tmp_path / "run")
    rows = pq.read_table(tmp_path / "run" / "scores").sort_by("key").to_pylist()
    assert [row["reason"] for row in rows] == ["too_many_pixels"] * 4
    assert [row["width"] for row in rows] == [width for _, width in claims.values()]
