"""The page of a report, as a reader opens it."""

from pathlib import Path

from reports.page.render import render
from reports.summary import summarise
from reports.warehouse import open_run
from tests.browser.conftest import OpenPage
from tests.reports.conftest import HOSTILE, ROWS, MakeRun, answer


def test_the_charts_are_drawn_and_hostile_names_are_text(
    make_run: MakeRun, open_page: OpenPage, tmp_path: Path
) -> None:
    rows = [*ROWS, *((name, answer(biometrics=1, location=1)) for name in HOSTILE)]
    path = tmp_path / "page.html"
    path.write_text(render(summarise(open_run(str(make_run(rows=rows))), top=20)), encoding="utf-8")
    page = open_page(path.as_uri())
    assert page.locator(".js-plotly-plot").count() == 3
    assert page.locator(".xtick").count() > 3
    assert page.locator("main script").count() == 0
