"""The page of `diff`, on a phone and on a screen."""

from pathlib import Path

import pytest

from reports.diff.compute import compare_runs
from reports.diff.words import render
from tests.browser.conftest import SIDEWAYS, WIDTH_PHONE_PX, OpenPage
from tests.reports.diff.made import PictureRow, make
from tests.reports.evaluation.conftest import found


@pytest.mark.parametrize("width", [WIDTH_PHONE_PX, 1400])
def test_nothing_scrolls_sideways_and_every_table_can_be_read(tmp_path: Path, open_page: OpenPage, width: int) -> None:
    names = ["x" * 300, "a name of many words " * 8, "attic"]

    def rows(shift: int) -> list[PictureRow]:
        answers = [found(gov_ids=(n + shift) % 2, emotion_mental_health=1, age=n % 2) for n in range(30)]
        return [(f"{names[0]}-{n}", f"c{n}", names[n % 3], answer) for n, answer in enumerate(answers)]

    result = compare_runs(make(tmp_path, "a", rows(0)), make(tmp_path, "b", rows(1)))
    (tmp_path / "page.html").write_text(render(result), encoding="utf-8")
    page = open_page((tmp_path / "page.html").as_uri(), width=width)
    assert page.evaluate(SIDEWAYS) <= 0
    tables = page.locator("div.wide")
    assert tables.count() == 6
    for table in tables.all():  # no column lies outside of the screen
        assert table.evaluate("one => one.scrollWidth - one.clientWidth") <= 0
    groups = tables.nth(4)
    heads = ["category", "in A", "in B", "p (Holm)"]
    all_heads = ["category", "pictures", "known", "in A", "in B", "only A", "only B", "p", "p (Holm)"]
    shown = [head.inner_text() for head in groups.locator("th[scope=col]").all() if head.is_visible()]
    assert shown == (heads if width == WIDTH_PHONE_PX else all_heads)
