"""The page of a report, as a reader opens, sorts, searches, saves and prints it."""

import csv
import re
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from ingest.errors import Fault
from reports.report.compute import summarise
from reports.report.page import render
from reports.run.figures import CorrectedRate
from reports.run.warehouse import open_warehouse
from tests.browser.conftest import SIDEWAYS, WIDTH_PHONE_PX, OpenPage
from tests.reports.conftest import HOSTILE, ROWS, MakeRun, Row, answer


def written(make_run: MakeRun, folder: Path, rows: list[Row]) -> str:
    found = summarise(open_warehouse(str(make_run(rows=rows))))
    path = folder / "page.html"
    path.write_text(render(found, made_on=date(2026, 11, 22)), encoding="utf-8")
    return path.as_uri()


def many(num_categories: int = 365) -> list[Row]:
    """Every category has ten images, and another rate; the name of the last one is a formula."""
    values = np.random.default_rng(1).random((num_categories, 10))
    names = [f"/c/category_{n:03d}" for n in range(num_categories - 1)] + ["=cmd,1"]
    return [
        (name, answer(biometrics=float(value < n / num_categories), age=1, location=None))
        for n, name in enumerate(names)
        for value in values[n]
    ]


def test_hostile_names_are_text_and_the_page_runs_its_own_script_only(
    make_run: MakeRun, open_page: OpenPage, tmp_path: Path
) -> None:
    rows = [*ROWS, *((name, answer(biometrics=1, location=1)) for name in HOSTILE)]
    page = open_page(written(make_run, tmp_path, rows))
    names = page.locator("#groups-table tbody th").all_inner_texts()
    assert {"<script>alert(1)</script> few", "{{ 7 * 7 }} few", "</script>&lt;b> few"} <= set(names)
    assert page.locator("main script").count() == 0
    assert page.locator(".made-up").inner_text().startswith("MADE-UP ANSWERS")
    assert page.locator("svg.interval").count() == len(names)


def test_a_reader_sorts_searches_and_saves_365_categories(
    make_run: MakeRun, open_page: OpenPage, tmp_path: Path
) -> None:
    address = written(make_run, tmp_path, many())
    assert (tmp_path / "page.html").stat().st_size < 1_500_000
    page = open_page(address)
    rows = page.locator("#groups-table tbody tr:visible")
    assert rows.count() == 40
    page.get_by_role("button", name="Show all 365").press("Enter")
    assert rows.count() == 365
    page.get_by_role("button", name="category").click()
    assert rows.first.locator("th").inner_text() == "/c/category_000 few"
    assert page.locator("th[aria-sort=ascending]").count() == 1
    rate = page.locator("#groups-table").get_by_role("button", name="Rate")
    rate.click()
    shown = [
        float(text.removesuffix(" %")) for text in page.locator("#groups-table tbody td:nth-child(3)").all_inner_texts()
    ]
    assert shown == sorted(shown, reverse=True)
    rate.click()
    assert page.locator("th[aria-sort=ascending]").count() == 1
    page.get_by_label("Search").fill("gory_10")
    assert rows.count() == 10
    assert page.locator("#found").inner_text() == "10 of 365"
    page.get_by_label("Search").fill("cmd")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    saved = list(csv.DictReader(Path(download.value.path()).read_text().splitlines()))
    assert [(row["group"], row["num_scored"]) for row in saved] == [("'=cmd,1", "10")]
    assert {"rate_low", "rank_high", "share_if_all_private", "num_level_1"} <= saved[0].keys()


@pytest.mark.parametrize("width", [WIDTH_PHONE_PX, 1400])
def test_corrected_rates_and_images_left_out_fit_beside_the_others(
    make_run: MakeRun, open_page: OpenPage, tmp_path: Path, width: int
) -> None:
    rows = [*many(45), *((f"/c/category_{n:03d}", Fault("truncated", "ends early")) for n in range(44))]
    found = summarise(open_warehouse(str(make_run(rows=rows))))
    groups = [None, *(rate.group for rate in found.rates)]
    corrected = [
        CorrectedRate("private", one, "scored images", 0.5, 0.25, 0.2, 0.3, "difference", 400, None) for one in groups
    ]
    corrected.append(replace(corrected[0], subject="age"))
    path = tmp_path / "page.html"
    path.write_text(render(replace(found, corrected=tuple(corrected))), encoding="utf-8")
    page = open_page(path.as_uri(), width=width)
    assert page.evaluate(SIDEWAYS) <= 0
    assert page.locator("#groups-table tbody tr").first.get_by_text("20.0 – 30.0 %").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_never_scrolls_the_page_sideways(
    make_run: MakeRun, open_page: OpenPage, tmp_path: Path, scheme: str
) -> None:
    rows = [*many(45), ("x" * 300, answer(gov_ids=1)), ("a name of many words " * 8, answer(gov_ids=1))]
    page = open_page(written(make_run, tmp_path, rows), width=WIDTH_PHONE_PX, scheme=scheme)
    assert page.evaluate(SIDEWAYS) <= 0
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 24, 27)"}[scheme]
    assert page.locator("#groups-table tbody td:visible").count() == 2 * 40


def test_365_categories_print_on_at_most_four_pages(make_run: MakeRun, open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page(written(make_run, tmp_path, many()))
    pdf = page.pdf(prefer_css_page_size=True)
    assert 1 <= len(re.findall(rb"/Type /Page\b", pdf)) <= 4
