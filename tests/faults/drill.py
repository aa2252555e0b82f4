"""What the fault tests share: a corpus of many small images, scans as processes of their own, and whom to kill."""

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
from PIL import Image


def jpeg(number: int) -> bytes:
    """A small picture, another one for each number; the number is part of the bytes (a comment at the end)."""
    buffer = io.BytesIO()
    Image.new("RGB", (32, 24), (number % 256, number // 256 % 256, 90)).save(buffer, "JPEG", comment=str(number))
    return buffer.getvalue()


def sha256(number: int) -> str:
    return hashlib.sha256(jpeg(number)).hexdigest()


def make_shards(folder: Path, num_shards: int, num_images: int) -> None:
    """Tars of `num_images` each; image n of shard s is `jpeg(s * num_images + n)`."""
    folder.mkdir()
    for shard in range(num_shards):
        with tarfile.open(folder / f"{shard:05d}.tar", "w") as tar:
            for number in range(shard * num_images, (shard + 1) * num_images):
                encoded = jpeg(number)
                member = tarfile.TarInfo(f"{number:09d}.jpg")
                member.size = len(encoded)
                tar.addfile(member, io.BytesIO(encoded))


def start_scan(
    source: Path, run: Path, *arguments: str, drill: Mapping[str, object] | None = None
) -> subprocess.Popen[str]:
    """`privsieve scan` with the canned engine, as a user starts it."""
    environment = dict(os.environ)
    if drill is not None:
        orders = run.parent / f"{run.name}.drill.json"
        orders.write_text(json.dumps(drill))
        environment["PRIVSIEVE_DRILL"] = str(orders)
    return start("scan", source, "--run", run, "--engine", "canned", *arguments, environment=environment)


def start(*arguments: object, environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """`privsieve` with these arguments, as a user starts it."""
    return subprocess.Popen(
        [sys.executable, "-m", "jobs", *map(str, arguments), "--quiet"],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )


def finish(process: subprocess.Popen[str], timeout_s: float = 1500) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of a command that comes to its end."""
    out, err = process.communicate(timeout=timeout_s)
    return process.returncode, out, err


def rows(run: Path) -> list[dict[str, object]]:
    files = sorted((run / "scores").glob("*.parquet"))
    return [
        row
        for f in files
        for row in pq.read_table(f, columns=["shard", "index", "sha256", "status", "reason"]).to_pylist()
    ]


def descendants(pid: int) -> dict[int, str]:
    """Process id -> command line of everything that `pid` has started (Linux only)."""
    children: dict[int, list[int]] = {}
    commands: dict[int, str] = {}
    for child in (int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()):
        try:
            children.setdefault(_parent(child), []).append(child)
            commands[child] = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
        except OSError:
            continue  # it ended while we looked
    found: dict[int, str] = {}
    left = [pid]
    while left:
        for child in children.get(left.pop(), []):
            found[child] = commands.get(child, "")
            left.append(child)
    return found


def named(pid: int, *texts: str) -> list[int]:
    """Processes that `pid` has started with one of `texts` in their names.

    Not their own children: a process that was forked a moment ago still goes by the name of its parent.
    """
    found = {child for child, command in descendants(pid).items() if any(text in command for text in texts)}
    with suppress(OSError):  # it ended while we looked
        return [child for child in found if _parent(child) not in found]
    return named(pid, *texts)


def engine_actors(pid: int) -> list[int]:
    """Process ids of the engine actors that `pid` has started."""
    return named(pid, "SliceScanner")


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
