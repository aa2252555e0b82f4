"""The page stands alone, shows hostile names as text, and names no image. tests/browser opens it."""

import html
import re
from dataclasses import replace
from html.parser import HTMLParser

import plotly.graph_objects as go
import pytest

from reports.page.charts import charts
from reports.page.render import render
from reports.summary import Report, summarise
from reports.warehouse import open_run
from tests.reports.conftest import HOSTILE, ROWS, MakeRun, answer


@pytest.fixture
def report(make_run: MakeRun) -> Report:
    rows = [*ROWS, *((name, answer(biometrics=1, location=1)) for name in HOSTILE)]
    return summarise(open_run(str(make_run(rows=rows))), top=20)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.addresses: list[str] = []
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "action")]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


def test_page_loads_nothing_and_runs_only_its_own_scripts(report: Report) -> None:
    page = render(report)
    tags = Tags()
    tags.feed(page)
    assert [a for a in tags.addresses if not a.startswith(("#", "data:"))] == []
    assert tags.names.count("script") == 3
    assert tags.handlers == []
    assert "default-src 'none'" in page
    assert "<script>alert" not in page
    assert "49" not in re.findall(r'<th scope="row">(.*?)</th>', page)
    for rate in report.rates:
        assert f'<th scope="row">{html.escape(rate.group)}'.replace("&quot;", "&#34;") in page


def test_page_names_no_image(report: Report) -> None:
    assert "secret-key" not in render(report)


def test_charts_are_valid_figures_with_escaped_labels(report: Report) -> None:
    figures = charts(report)
    assert set(figures) == {"chart-rates", "chart-levels", "chart-pairs"}
    for figure in figures.values():
        go.Figure(figure)
    labels = figures["chart-rates"]["layout"]["yaxis"]["ticktext"]
    assert len(labels) == len(report.rates)
    assert not [label for label in labels if "<" in label]


def test_charts_show_the_top_and_the_table_all(make_run: MakeRun) -> None:
    rows = [(f"c{i:03}", answer(biometrics=i % 2)) for i in range(100)]
    found = summarise(open_run(str(make_run(rows=rows))), top=5)
    assert len(charts(found)["chart-rates"]["data"][0]["x"]) == 10
    page = render(found)
    assert all(f'<th scope="row">c{i:03}</th>' in page for i in range(100))


def test_page_tells_how_many_images_are_unknown_beside_the_rate(make_run: MakeRun) -> None:
    told = "<div><dt>Private or not: unknown</dt><dd>1</dd></div>"
    page = render(summarise(open_run(str(make_run(rows=[("a", answer(gov_ids=None)), ("a", answer())])))))
    assert told in page
    assert "rate: private / (N - unknown)" in page
    assert "Private or not" not in render(summarise(open_run(str(make_run(name="other")))))


def test_page_says_first_what_its_figures_are_of(make_run: MakeRun) -> None:
    run = open_run(str(make_run()))
    body = render(summarise(run)).partition("<h1>")[2]
    assert body.index("Of all images of the source") < body.index("Source /data/corpus")
    banner = '<p class="warning made-up"><strong>MADE-UP ANSWERS: the canned engine looks at no picture</strong></p>'
    assert body.index(banner) < body.index("Source /data/corpus")
    assert '<p class="soft">private: an attribute of level 1 or 2 is present (our choice' in body
    record = run.record.model_copy(update={"limit": 80, "engine": {"name": "detectors"}})
    part = render(summarise(replace(run, record=record))).partition("<h1>")[2]
    assert '<p class="warning"><strong>first 80 images only (--limit): not representative</strong></p>' in part
    assert "MADE-UP" not in part
    assert "all images of the source" not in part


def test_pairs_tell_their_number_of_images_and_that_a_share_is_a_lower_bound(make_run: MakeRun) -> None:
    rows = [(None, answer(biometrics=1, location=value)) for value in (1.0, None, None)]
    found = summarise(open_run(str(make_run(rows))))
    (trace,) = charts(found)["chart-pairs"]["data"]
    told = [text for row in trace["text"] for text in row if text]
    assert "of 3 images with Biometrics, at least 33.3% show Location" in told
    assert "of 1 images with Location, 100.0% show Biometrics" in told
    (row,) = re.findall(r"<tr><td>biometrics</td><td>location</td>(.*?)</tr>", render(found), re.DOTALL)
    assert re.findall(r">(.+?)</td>", row) == ["1", "3", "≥ 33.3 %"]


def test_page_of_an_empty_run(make_run: MakeRun) -> None:
    empty = summarise(open_run(str(make_run(rows=()))))
    assert charts(empty) == {}
    assert "No attribute was found present." in render(empty)
