"""What a careful programmer writes in an hour instead of privsieve; it shares no code with it.

Decode with simplejpeg, SHA-256, a perceptual hash by Pillow and a cosine transform, one Parquet file per tar; and the
copy of half of the pictures. The processes take the tars in turn. `benchmarks.overhead` compares with it.

    python -m benchmarks.by_hand scan|filter CORPUS OUT NUM_PROCESSES
"""

import hashlib
import multiprocessing
import sys
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import simplejpeg
from PIL import Image

_DCT = np.cos(np.pi / 32 * np.outer(np.arange(8), np.arange(32) + 0.5))


def _phash(pixels: np.ndarray) -> str:
    small = np.asarray(Image.fromarray(pixels).convert("L").resize((32, 32), Image.Resampling.LANCZOS), np.float32)
    low = _DCT @ small @ _DCT.T
    return np.packbits(low > np.median(low)).tobytes().hex()


def scan(shard: Path, out: Path) -> None:
    rows = []
    with tarfile.open(shard) as tar:
        for member in tar:
            file = tar.extractfile(member)
            assert file is not None
            encoded = file.read()
            pixels = simplejpeg.decode_jpeg(encoded, colorspace="RGB")
            row = {"name": member.name, "width": pixels.shape[1], "height": pixels.shape[0]}
            rows.append({**row, "sha256": hashlib.sha256(encoded).hexdigest(), "phash": _phash(pixels)})
    pq.write_table(pa.Table.from_pylist(rows), out / f"{shard.stem}.parquet", compression="zstd")


def copy_half(shard: Path, out: Path) -> None:
    """Every second picture, if it still has the hash that it had; here nothing says what that was."""
    with tarfile.open(shard) as tar, tarfile.open(out / shard.name, "w") as copy:
        for number, member in enumerate(tar):
            if number % 2:
                file = tar.extractfile(member)
                assert file is not None
                encoded = file.read()
                hashlib.sha256(encoded).hexdigest()
                file.seek(0)
                copy.addfile(member, file)


def _all(arguments: tuple[str, list[Path], Path]) -> None:
    what, shards, out = arguments
    for shard in shards:
        {"scan": scan, "filter": copy_half}[what](shard, out)


def main(what: str, corpus: Path, out: Path, num_processes: int) -> None:
    out.mkdir()
    shards = sorted(corpus.glob("*.tar"))
    parts = [(what, shards[n::num_processes], out) for n in range(num_processes)]
    if num_processes == 1:
        _all(parts[0])
        return
    with multiprocessing.get_context("fork").Pool(num_processes) as pool:
        pool.map(_all, parts)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
