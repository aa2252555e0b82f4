"""Scan as a user runs it, on small real corpora, through Ray."""

import re
import shutil
from pathlib import Path

import pytest

from tests.jobs.made import privsieve, rows
from tests.making import Capture

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_page_that_the_detectors_cannot_read_is_unknown_in_the_report_and_flagged_in_the_release(
    tmp_path: Path, capsys: Capture
) -> None:
    pytest.importorskip("rapidocr", reason="the detectors extra is not installed")
    source, run = tmp_path / "source", tmp_path / "run"
    source.mkdir()
    shutil.copy(ROOT / "tests/engines/writing/cyrillic.png", source)
    shutil.copy(ROOT / "jobs/demo/corpus/tree/object/coins.png", source)
    assert privsieve("scan", source, "--run", run, "--quiet") == 0
    assert {row["key"]: row["gov_ids"] for row in rows(run)} == {"cyrillic.png": None, "coins.png": 0}
    capsys.readouterr()
    assert privsieve("report", run, "--full") == 0
    report = capsys.readouterr().out
    assert "0.0 % of the judged images in the source were found private (0 of 1 images that could be" in report
    assert "With 1 unknown image: 0.0 % of all images if none of these is private, 50.0 % if all are." in report
    strict = ROOT / "scoring/policies/strict.yaml"
    assert privsieve("filter", run, "--policy", strict, "--out", tmp_path / "out", "--dry-run") == 0
    output = capsys.readouterr().out
    assert re.search(r"flag +1 +not-fully-judged\n", output)
    assert 'policy "strict": of 2 images 1 would be kept, 1 kept and flagged, 0 dropped' in output
