"""What a person sees of long work: on a terminal, in a log, and with --quiet. The clock is the test's own."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.runtime.progress import Meter, meter
from tests.clusters.demo import CORPUS, ROOT
from tests.making import Capture


class Clock:
    def __init__(self) -> None:
        self.now_s = 5000.0

    def __call__(self) -> float:
        return self.now_s


def test_a_log_gets_one_line_per_minute(capsys: Capture) -> None:
    clock = Clock()
    with meter("scan", 1200, quiet=False, clock=clock) as progress:
        for _ in range(30):
            clock.now_s += 5
            progress.advance(10)
    assert capsys.readouterr().err.splitlines() == [
        "scan: 120 of 1,200 images, 2.0/s, 10 %, 9 min left",
        "scan: 240 of 1,200 images, 2.0/s, 20 %, 8 min left",
    ]


def test_after_a_long_silence_there_is_one_line_with_the_rate_since_then(capsys: Capture) -> None:
    clock = Clock()
    with meter("scan", None, quiet=False, clock=clock) as progress:
        clock.now_s += 500
        progress.advance(1)
        clock.now_s += 30
        progress.advance(60)
        clock.now_s += 20
        progress.advance(39)
    assert capsys.readouterr().err.splitlines() == [
        "scan: 1 image, 0.0/s",
        "scan: 100 images, 2.0/s",  # 99 in 50 s: the last 30 s hold no other count
    ]


def test_phases_are_shown_at_once_and_their_seconds_count_for_no_rate(capsys: Capture) -> None:
    clock = Clock()
    with meter("scan", 1000, quiet=False, clock=clock) as progress:
        progress.phase("starting Ray")
        clock.now_s += 40
        progress.phase("loading detectors")
        progress.phase("loading detectors")
        clock.now_s += 15
        progress.under_way(0)  # an engine is loaded
        clock.now_s += 10
        progress.under_way(20)
        assert progress.facts() == ["20 of 1,000 images", "2.0/s", "2 %", "8 min left"]
        progress.under_way(0)
        progress.advance(30)
        assert progress.num_seen == 30
        assert progress.overall_images_per_s == 3.0
        progress.advance(500, num_kept=490)  # of an interrupted scan
        assert progress.facts() == ["530 of 1,000 images", "4.0/s", "53 %", "2 min left"]
    assert capsys.readouterr().err.splitlines() == [
        "scan: starting Ray",
        "scan: loading detectors",
        "scan: 20 of 1,000 images, 2.0/s, 2 %, 8 min left",
    ]


def test_the_rate_is_that_of_the_last_thirty_seconds_and_the_estimate_only_counts_down(capsys: Capture) -> None:
    clock = Clock()
    with meter("scan", 10_000, quiet=True, clock=clock) as progress:
        for _ in range(10):
            clock.now_s += 10
            progress.advance(10)
        for _ in range(4):
            clock.now_s += 10
            progress.advance(50)
        assert progress.facts()[1] == "5.0/s"  # 2.1 since the beginning
        estimates = []
        for _ in range(4):
            estimates.append(progress.facts()[-1])
            clock.now_s += 600
        assert estimates == ["75 min left", "65 min left", "55 min left", "45 min left"]
        assert progress.facts()[1] == "0.1/s"  # nothing was done for 40 minutes
        clock.now_s += 5000
        assert "left" not in progress.facts()[-1]


def test_a_continued_scan_begins_where_it_was(capsys: Capture) -> None:
    clock = Clock()
    with meter("scan", None, quiet=False, clock=clock) as progress:
        progress.resume(600, 1000)
        progress.phase("loading detectors")
        clock.now_s += 30
        progress.under_way(0)
        assert progress.facts() == ["600 of 1,000 images", "60 %"]
        clock.now_s += 60
        progress.advance(60)
    assert capsys.readouterr().err.splitlines() == [
        "scan: loading detectors",
        "scan: 660 of 1,000 images, 1.0/s, 66 %, 6 min left",
    ]


def test_without_the_number_of_images_shards_say_how_many_there_may_be(capsys: Capture) -> None:
    clock = Clock()
    with meter("scan", None, quiet=False, clock=clock) as progress:
        clock.now_s += 60
        progress.advance(40)
        progress.shards(1, 4)
        assert progress.facts() == ["40 of ~160 images", "0.7/s", "25 %", "3 min left"]
        clock.now_s += 60
        progress.advance(20)  # the second shard has not ended: no word of more images
        assert progress.facts()[0] == "60 of ~160 images"
        progress.under_way(99)
        assert progress.facts()[:3] == ["159 of ~160 images", "2.0/s", "99 %"]
        progress.under_way(100)  # an estimate is never all of it
        assert progress.facts() == ["160 images", "2.0/s"]
        progress.under_way(0)
        progress.expect(100)
        assert progress.facts()[0] == "60 of 100 images"
        progress.advance(30)
        progress.shards(4, 4)
        assert progress.facts()[0] == "90 of 90 images"


@pytest.mark.parametrize(
    ("num_images", "num_done", "share"), [(0, 0, None), (10, 5, 0.5), (10, 12, 1.0), (None, 5, None)]
)
def test_the_share_is_never_more_than_all(num_images: int | None, num_done: int, share: float | None) -> None:
    counted = Meter("scan", num_images, Clock())
    counted.advance(num_done)
    assert counted.share == share


def on_a_terminal(command: list[str]) -> str:
    """What the command writes to a terminal of 80 columns, control sequences taken out."""
    seen, shown = pty.openpty()
    environment = os.environ | {"COLUMNS": "80", "TERM": "xterm"}
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
    text = on_a_terminal([*scan, "--limit", "20", "--executor", "inline"])
    shown = [line.rstrip() for line in re.split(r"[\r\n]+", text) if line.startswith("scan ")]
    assert max(map(len, shown)) <= 80
    phases = ("listing shards", "loading canned")
    assert [phase for phase in phases if any(phase in line for line in shown)] == list(phases)
    assert re.search(r"^scan ━+ 20 of 20 images(, \S+/s)?, 100 %(, 0 s left)?$", shown[-1])
    assert "20 images in 1 of 1 shard:" in text or "20 images in 2 of 2 shards:" in text
    assert f"next: privsieve report {tmp_path / 'run'} --html report.html" in text
