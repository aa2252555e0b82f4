"""What `scan` and `filter` cost beside a program written by hand that shares no code with them.

    python -m benchmarks.overhead [--num-shards 8] [--num-images 500] [--repeats 3] [--no-ray]

All ways take turns over the same tars of JPEGs, each as a command of its own, with its start. Those by hand
(`by_hand.py`) work in two processes: decode, take SHA-256 and a perceptual hash; copy every second picture. The
engine is `canned`, which costs nothing. Time and CPU time (user and system, of all that the command has started) are
taken from outside. Only ratios within one run mean anything. Linux only.
"""

import ctypes
import io
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import click
from PIL import Image

from ingest.formats import open_source
from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits

PICTURES = Path(__file__).parents[1] / "jobs" / "demo" / "corpus" / "shards"
NUM_PROCESSES = 2
SIDE_PX = 512
MIN_BYTES, MAX_BYTES = 60_000, 100_000


# ---- the corpus -------------------------------------------------------------------------------------------------


def make_corpus(folder: Path, num_shards: int, num_images: int) -> int:
    """Writes tars of different crops of the demo pictures; returns their size in bytes."""
    folder.mkdir()
    jpegs = _jpegs(random.Random(0))
    for shard in range(num_shards):
        with tarfile.open(folder / f"{shard:05d}.tar", "w") as tar:
            for number in range(num_images):
                encoded = next(jpegs)
                member = tarfile.TarInfo(f"{shard:05d}{number:04d}.jpg")
                member.size = len(encoded)
                tar.addfile(member, io.BytesIO(encoded))
    return sum(path.stat().st_size for path in folder.iterdir())


def _jpegs(rng: random.Random) -> Iterator[bytes]:
    pictures = _pictures()
    qualities = [90] * len(pictures)
    while True:
        number = rng.randrange(len(pictures))
        picture = pictures[number]
        side = rng.randint(min(picture.size) * 2 // 3, min(picture.size))
        left, top = rng.randint(0, picture.width - side), rng.randint(0, picture.height - side)
        crop = picture.resize((SIDE_PX, SIDE_PX), Image.Resampling.LANCZOS, (left, top, left + side, top + side))
        quality = min(98, max(60, qualities[number] + rng.randint(-2, 2)))
        encoded = _encoded(crop, quality)
        for _ in range(8):  # what is too small or too large for a photo of the web is encoded anew
            if MIN_BYTES <= len(encoded) <= MAX_BYTES:
                break
            quality = min(98, max(60, quality + (3 if len(encoded) < MIN_BYTES else -3)))
            encoded = _encoded(crop, quality)
        qualities[number] = quality
        yield encoded


def _pictures() -> list[Image.Image]:
    corpus = open_source(str(PICTURES), None, None)
    samples = (s for shard in corpus.shards for slice_ in corpus.slices(shard) for s in corpus.read(slice_))
    decoded = [decode(s.encoded, ImageLimits()) for s in samples]
    return [Image.fromarray(d.views[0]) for d in decoded if isinstance(d, DecodedImage)]


def _encoded(picture: Image.Image, quality: int) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


# ---- the ways ---------------------------------------------------------------------------------------------------

HALF = """name: half
rules:
  - name: half
    when: '"index" % 2 = 0'
    then: drop
    reason: every second one
default: keep
quarantined: drop
"""


PR_SET_CHILD_SUBREAPER = 36
"""Orphans below this process become its children, so that their CPU time counts."""

LOOK_EVERY_S = 0.05
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """Seconds of a command."""

    wall: float
    cpu: float


def cost_of(arguments: Sequence[str]) -> Cost:
    """The system's own sum leaves out the workers of Ray, whose parent does not wait for them. So the CPU time of each
    process is looked at until it ends; what a process uses after the last look is lost."""
    began = time.monotonic()
    cpu_s = dict[int, float]()
    command = subprocess.Popen([sys.executable, "-m", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while command.poll() is None:
        cpu_s |= _cpu_below_s(os.getpid())
        time.sleep(LOOK_EVERY_S)
    wall = time.monotonic() - began
    if command.returncode:
        raise subprocess.CalledProcessError(command.returncode, command.args)
    while running := _cpu_below_s(os.getpid()):  # what outlives the command for a moment, such as Ray's processes
        cpu_s |= running
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(LOOK_EVERY_S)
    return Cost(wall, sum(cpu_s.values()))


def _cpu_below_s(top: int) -> dict[int, float]:
    """Process below `top` -> its seconds of CPU, user and system. See proc_pid_stat(5)."""
    children = dict[int, dict[int, float]]()
    for folder in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):  # it has ended
            fields = Path("/proc", folder, "stat").read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), {})[int(folder)] = (int(fields[11]) + int(fields[12])) / TICKS_PER_S
    below, parents = dict[int, float](), [top]
    while parents:
        of_parent = children.get(parents.pop(), {})
        below |= of_parent
        parents += of_parent
    return below


def turn(corpus: Path, folder: Path, with_ray: bool) -> Iterator[tuple[str, Cost]]:
    """Each way once, in a new folder."""
    folder.mkdir()
    policy, cleaning, run = folder / "half.yaml", folder / "clean.yaml", str(folder / "inline")
    policy.write_text(HALF)
    cleaning.write_text(f"{HALF}files: clean\n")
    hand = ("benchmarks.by_hand",)
    scan = ("jobs", "scan", str(corpus), "--engine", "canned", "--quiet")
    yield "scan by hand", cost_of((*hand, "scan", str(corpus), str(folder / "by hand"), str(NUM_PROCESSES)))
    number = ("--processes", str(NUM_PROCESSES))
    yield "scan inline", cost_of((*scan, "--run", run, "--executor", "inline", *number))
    if with_ray:
        yield "scan on Ray", cost_of((*scan, "--run", str(folder / "ray"), "--executor", "ray", "--num-engines", "2"))
    kept = ("--executor", "inline", *number, "--quiet", "--policy")
    yield "filter by hand", cost_of((*hand, "filter", str(corpus), str(folder / "half"), str(NUM_PROCESSES)))
    yield "filter inline", cost_of(("jobs", "filter", run, *kept, str(policy), "--out", str(folder / "release")))
    yield "filter clean", cost_of(("jobs", "filter", run, *kept, str(cleaning), "--out", str(folder / "clean")))
    yield "sql", cost_of(("jobs", "sql", run, "SELECT count(*) FROM images"))


@click.command()
@click.option("--num-shards", type=click.IntRange(min=1), default=8, show_default=True)
@click.option("--num-images", type=click.IntRange(min=1), default=500, show_default=True, help="Images per shard.")
@click.option("--repeats", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--ray/--no-ray", "with_ray", default=True)
def main(num_shards: int, num_images: int, repeats: int, with_ray: bool) -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # An installed package is compiled; where this is set, each process would compile the checkout again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    costs: dict[str, list[Cost]] = {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        num_bytes = make_corpus(folder / "corpus", num_shards, num_images)
        total = num_shards * num_images
        click.echo(f"{num_shards} tars of {num_images} JPEGs, {num_bytes / total / 1000:.0f} KB on average")
        for number in range(repeats):
            for name, cost in turn(folder / "corpus", folder / str(number), with_ray):
                costs.setdefault(name, []).append(cost)
    for line in report(costs):
        click.echo(line)


def report(costs: dict[str, list[Cost]]) -> Iterator[str]:
    yield f"{os.cpu_count()} cores; medians of {len(costs['sql'])} turns (each turn's ratio)"
    for name, found in costs.items():
        yield f"{name:15} {median(c.wall for c in found):6.2f} s, {median(c.cpu for c in found):6.2f} s of CPU"
    for name in ("scan inline", "scan on Ray", "filter inline", "filter clean"):
        if name in costs:
            hand, own = costs[f"{name.split()[0]} by hand"], costs[name]
            yield f"{name:14} speed  {_ratio([c.wall for c in hand], [c.wall for c in own])} x by hand"
            yield f"{name:14} CPU    {_ratio([c.cpu for c in own], [c.cpu for c in hand])} x by hand"


def _ratio(above: list[float], below: list[float]) -> str:
    turns = ", ".join(f"{a / b:.2f}" for a, b in zip(above, below, strict=True))
    return f"{median(above) / median(below):.2f} ({turns})"


if __name__ == "__main__":
    main()
