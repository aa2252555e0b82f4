"""Small real corpora of tars, and the command line as a user calls it."""

import io
import json
import os
import signal
import tarfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from PIL import Image

from jobs.cli import main
from scoring.table import SCHEMA


def jpeg(shade: int) -> bytes:
    buffer = io.BytesIO()
    Image.linear_gradient("L").point(lambda v: (v + shade) % 256).resize((64, 48)).save(buffer, "JPEG")
    return buffer.getvalue()


def tar(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def shard(path: Path, first: int, count: int) -> None:
    members: dict[str, bytes] = {}
    for number in range(first, first + count):
        members[f"{number:09d}.jpg"] = jpeg(number) if number % 7 else b"<html>not found</html>"
        members[f"{number:09d}.json"] = json.dumps({"category": "street" if number % 2 else "office"}).encode()
    tar(path, members)


def privsieve(*args: object) -> int:
    """The exit code. The process that called is left as it was.

    A scan runs in this process, but in tests that are marked `ray`, and where its arguments say otherwise; it shows no
    progress.
    """
    is_chosen = "--executor" in args or "--ray-address" in args or "RAY_ADDRESS" in os.environ
    if args[:1] == ("scan",) and "--run" in args and not is_chosen:
        args = (*args, "--executor", "inline")
    if args[:1] == ("scan",) and "--run" in args and "--quiet" not in args:
        args = (*args, "--quiet")
    on_sigterm = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as done:
        main([str(a) for a in args])
    assert isinstance(done.value.code, int)
    assert signal.getsignal(signal.SIGTERM) is on_sigterm
    return done.value.code


def rows(run: Path) -> list[dict[str, object]]:
    files = sorted((run / "scores").glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file, schema=SCHEMA).to_pylist()]
