"""What a person sees of long work: on a terminal, in a log, and with --quiet. The clock is the test's own."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.runtime.progress import Meter, meter

ROOT = Path(__file__).parent.parent.parent
CORPUS = ROOT / "jobs" / "demo" / "corpus" / "shards"


class Clock:
    def __init__(self) -> None:
        self.now_s = 5000.0

    def __call__(self) -> float:
        return self.now_s


def test_a_log_gets_one_line_per_minute(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with meter("scan", 1200, quiet=False, clock=clock) as progress:
        for _ in range(30):
            clock.now_s += 5
            progress.advance(10)
    assert capsys.readouterr().err.splitlines() == [
        "scan: 120 images of 1200, 2.0 images/s, 10% done, 9 min left",
        "scan: 240 images of 1200, 2.0 images/s, 20% done, 8 min left",
    ]


def test_after_a_long_silence_there_is_one_line_not_many(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with meter("scan", None, quiet=False, clock=clock) as progress:
        clock.now_s += 500
        progress.advance(50)
        clock.now_s += 30
        progress.advance(50)
        clock.now_s += 20
        progress.advance(10)
    assert capsys.readouterr().err.splitlines() == [
        "scan: 50 images, 0.1 images/s",
        "scan: 110 images, 0.2 images/s",
    ]


def test_without_the_number_of_images_shards_tell_the_share(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with meter("scan", None, quiet=False, clock=clock) as progress:
        progress.advance(40)
        clock.now_s += 60
        progress.shards(1, 4)
        clock.now_s += 60
        progress.shards(2, 4)
        clock.now_s += 60
        progress.expect(100)  # now the images decide
    assert capsys.readouterr().err.splitlines() == [
        "scan: 40 images, 0.7 images/s, 25% done, 3 min left",
        "scan: 40 images, 0.3 images/s, 50% done, 2 min left",
        "scan: 40 images of 100, 0.2 images/s, 40% done, 4 min left",
    ]


def test_quiet_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with meter("scan", 10, quiet=True, clock=clock) as progress:
        clock.now_s += 500
        progress.advance(10)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("num_images", "num_done", "share"), [(0, 0, None), (10, 5, 0.5), (10, 12, 1.0), (None, 5, None)]
)
def test_the_share_is_never_more_than_all(num_images: int | None, num_done: int, share: float | None) -> None:
    counted = Meter("scan", num_images, Clock())
    counted.advance(num_done)
    assert counted.share == share


def on_a_terminal(command: list[str]) -> str:
    """What the command writes to a terminal of 120 columns, control sequences taken out."""
    seen, shown = pty.openpty()
    environment = os.environ | {"COLUMNS": "120", "TERM": "xterm"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=shown, stdout=shown, stderr=shown) as process:
        os.close(shown)
        written = b""
        try:
            while chunk := os.read(seen, 65536):
                written += chunk
        except OSError:  # how Linux tells that the other end is closed
            pass
    os.close(seen)
    assert process.returncode == 0, written.decode()
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written.decode())


def test_a_scan_on_a_terminal_shows_the_bar(tmp_path: Path) -> None:
    scan = [sys.executable, "-m", "jobs", "scan", str(CORPUS), "--run", str(tmp_path / "run"), "--engine", "canned"]
    text = on_a_terminal([*scan, "--limit", "20", "--num-engines", "1"])
    last = [line for line in re.split(r"[\r\n]+", text) if line.startswith("scan ")][-1]
    assert re.search(r"^scan ━+ 20 images of 20, \d+\.\d images/s, 100% done, 0 s left$", last.rstrip())
    assert "20 images in 1 of 1 shards" in text or "20 images in 2 of 2 shards" in text
