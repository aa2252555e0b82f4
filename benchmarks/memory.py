"""How much memory a scan takes over many images of 200 KB through a slow engine.

    python -m benchmarks.memory [--num-images 20000] [--seconds-per-image 0.002]

Prints the highest sum of resident memory over the driver and everything that it started, sampled twice a second,
beside that of a scan of a tenth of the images: a bounded scan takes about the same.
"""

import os
import random
import shutil
import tarfile
import tempfile
import time
from io import BytesIO
from pathlib import Path

import click
from PIL import Image

from tests.faults.drill import descendants, finish, start_scan

IMAGES_PER_SHARD = 500
KILOBYTES = 200


def make_corpus(folder: Path, num_images: int) -> None:
    """Shards that are links to one tar of noise pictures, so that the disk holds it once."""
    folder.mkdir()
    first = folder / "00000.tar"
    rng = random.Random(0)
    with tarfile.open(first, "w") as tar:
        for number in range(IMAGES_PER_SHARD):
            buffer = BytesIO()
            Image.frombytes("RGB", (448, 448), rng.randbytes(448 * 448 * 3)).save(buffer, "JPEG", quality=92)
            member = tarfile.TarInfo(f"{number:04d}.jpg")
            member.size = len(buffer.getvalue())
            tar.addfile(member, BytesIO(buffer.getvalue()))
    click.echo(f"{first.stat().st_size / IMAGES_PER_SHARD / 1000:.0f} KB an image")
    for shard in range(1, num_images // IMAGES_PER_SHARD):
        os.link(first, folder / f"{shard:05d}.tar")


def peak_mb(corpus: Path, run: Path, seconds_per_image: float) -> float:
    scan = start_scan(corpus, run, drill={"*": seconds_per_image})
    peak = 0
    while scan.poll() is None:
        peak = max(peak, sum(_private_bytes(pid) for pid in [scan.pid, *descendants(scan.pid)]))
        time.sleep(0.5)
    code, out, err = finish(scan)
    if code:
        raise RuntimeError(err)
    click.echo(out.strip())
    return peak / 2**20


def _private_bytes(pid: int) -> int:
    """Proportional resident memory, so that what processes share counts once."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass  # it ended while we looked
    return 0


@click.command()
@click.option("--num-images", type=click.IntRange(min=5000), default=20_000, show_default=True)
@click.option("--seconds-per-image", type=click.FloatRange(min=0), default=0.002, show_default=True)
def main(num_images: int, seconds_per_image: float) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        peaks = []
        for count in (num_images // 10, num_images):
            make_corpus(folder / f"corpus{count}", count)
            peaks.append(peak_mb(folder / f"corpus{count}", folder / f"run{count}", seconds_per_image))
            shutil.rmtree(folder / f"corpus{count}")
            click.echo(f"{count} images: peak {peaks[-1]:.0f} MB, all processes of the scan together")
        click.echo(f"ten times the images: {peaks[1] / peaks[0]:.2f} × the memory")


if __name__ == "__main__":
    main()
