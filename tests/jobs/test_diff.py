"""`privsieve diff` as a user calls it."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ingest.errors import Fault
from reports.diff.compute import compare_runs
from reports.diff.words import render
from tests.jobs.made import privsieve
from tests.making import Capture
from tests.reports.diff.made import PictureRow, make
from tests.reports.evaluation.conftest import found

HOSTILE = "<script>alert(1)</script>\x1b[31m=cmd"


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str]:
    a: list[PictureRow] = [(HOSTILE, "c0", HOSTILE, found(gov_ids=1)), ("k1", "c1", None, Fault("rejection", HOSTILE))]
    b: list[PictureRow] = [(HOSTILE, "c0", HOSTILE, found()), ("k1", "c1", None, found(age=1))]
    return make(tmp_path, "a", a), make(tmp_path, f"b{HOSTILE.replace('/', '')}", b)


def test_the_terminal_and_the_page_show_what_changed_and_escape_names(
    runs: tuple[str, str], tmp_path: Path, capsys: Capture
) -> None:
    page = tmp_path / "page.html"
    assert privsieve("diff", *runs, "--html", page) == 0
    text = capsys.readouterr().out
    assert "settings: all the same" in text
    assert "Private: 100.0 % of 1 pictures in A, 0.0 % in B; only in A 1, only in B 0" in text
    assert re.search(r"quarantined +0 +1 +0", text)
    assert re.search(r"gov_ids +1 +1 +0 +0 +1 +0 +0\.000 +1\.0000 +1\.0000", text)
    assert "\x1b" not in text
    assert "\\x1b[31m=cmd" in text
    assert f"page written to {page}" in text
    html = page.read_text(encoding="utf-8")
    assert "default-src 'none'" in html
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert not re.search(r"(src|href)=\"(?!data:)", html)
    assert len(html) < 60_000


def test_a_page_of_many_categories_stays_below_its_size(runs: tuple[str, str]) -> None:
    """Each with a name as long as the page shows."""
    result = compare_runs(*runs)
    groups = [replace(result.groups[0], group=f"{n:-<200}") for n in range(10_000)]
    page = render(replace(result, groups=tuple(groups)))
    assert "8,000 more are not listed" in page
    assert 200_000 < len(page.encode()) < 1_500_000
