"""The page stands alone, shows hostile names as text, and holds no picture. tests/browser opens it."""

import html
import json
import re
from dataclasses import replace
from datetime import date
from html.parser import HTMLParser

import pytest

from jobs.commands.report import write_report
from reports.report.compute import facts_of, summarise
from reports.report.page import Digest, render
from reports.report.results import HEADS, Report, group_rows
from reports.report.words import findings, headline_of, quality_note
from reports.run.figures import CorrectedRate, EvidenceCount
from reports.run.warehouse import Run, open_warehouse
from scoring.taxonomy import ATTRIBUTES
from tests.records import engine_record
from tests.reports.conftest import HOSTILE, ROWS, MakeRun, answer


@pytest.fixture
def report(make_run: MakeRun) -> Report:
    rows = [*ROWS, *((name, answer(biometrics=1, location=1)) for name in HOSTILE)]
    return summarise(open_warehouse(str(make_run(rows=rows))), top=20)


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


def test_page_loads_nothing_and_runs_only_its_own_script(report: Report) -> None:
    page = render(report)
    tags = Tags()
    tags.feed(page)
    assert [a for a in tags.addresses if not a.startswith(("#", "data:"))] == []
    assert tags.names.count("script") == 2
    assert tags.handlers == []
    assert re.search(r"default-src 'none'; script-src 'sha256-[A-Za-z0-9+/=]{44}'; style-src", page)
    assert "<script>alert" not in page
    assert "49" not in re.findall(r'<th scope="row">(.*?)</th>', page)
    for rate in report.rates:
        assert (
            f'<th scope="row">{html.escape(rate.group)}'.replace("&quot;", "&#34;").replace("&#x27;", "&#39;") in page
        )


def test_severe_images_are_named_by_key_without_a_picture(common_run: Run) -> None:
    page = render(summarise(common_run))
    assert "secret-key-0" in page
    assert "<img" not in page


def test_what_a_language_model_wrote_is_marked_as_such(report: Report) -> None:
    found = replace(report, evidence=(EvidenceCount("beach", "face", 1, 2),))
    page = render(found, Digest("some<model>", (("beach", "Faces & <names>."),)))
    assert "Written by some&lt;model&gt; from the counts above alone; it saw no picture, and it can be wrong." in page
    assert "<dd>Faces &amp; &lt;names&gt;.</dd>" in page
    assert "Written by" not in render(report)


def test_figures_for_the_csv_are_those_of_the_report(report: Report) -> None:
    found = json.loads(re.findall(r'id="figures">(.*?)</script>', render(report))[0])
    first = dict(zip(found["heads"], found["rows"][0], strict=True))
    rate = report.rates[0]
    assert (first["group"], first["num_scored"], first["rank"]) == (rate.group, rate.num_scored, rate.rank)
    assert first["rate_low"] == pytest.approx(rate.rate_low, abs=1e-6)
    assert sum(first[f"num_level_{level}"] for level in range(5)) == rate.num_scored
    assert len(found["rows"]) == len(report.rates)


def test_the_table_holds_every_group(make_run: MakeRun) -> None:
    rows = [(f"c{i:03}", answer(biometrics=i % 2)) for i in range(100)]
    page = render(summarise(open_warehouse(str(make_run(rows=rows))), top=5))
    assert all(f'<th scope="row">c{i:03} ' in page for i in range(100))


def test_page_says_how_many_images_are_unknown_and_what_they_could_change(make_run: MakeRun) -> None:
    tile = "<div><dt>Private or not: unknown</dt><dd>1</dd></div>"
    rows = [("a", answer(gov_ids=None)), ("a", answer()), ("a", answer(gov_ids=1))]
    page = render(summarise(open_warehouse(str(make_run(rows=rows)))))
    assert tile in page
    assert "With 1 unknown image: 33.3 % of all images if none of these is private, 66.7 % if all are." in page
    assert "rate: private / (N - unknown)" in page
    assert "Private or not" not in render(summarise(open_warehouse(str(make_run(name="other")))))


def test_page_says_first_what_its_figures_are_of(common_run: Run) -> None:
    body = render(summarise(common_run), made_on=date(2026, 11, 22)).partition("<h1>")[2]
    assert body.startswith("Privacy report: corpus")
    banner = '<p class="warning made-up" role="alert"><strong>MADE-UP ANSWERS: the canned engine looks at no picture'
    finding = '<p class="finding">50.0 % of the scored images in the source were found private (3 of 6 images'
    assert 0 < body.index(banner) < body.index(finding) < body.index("<dd>8: all images of the source</dd>")
    assert "<dd>The image shows a unique identifier (level 1, such as a face" in body
    assert "<dt>Page made on</dt><dd>2026-11-22</dd>" in body
    record = common_run.record.model_copy(
        update={"limit": 80, "engine": engine_record(name="detectors"), "is_fake": False}
    )
    part = render(summarise(replace(common_run, record=record))).partition("<h1>")[2]
    assert '<dd class="part">8: first 80 images only (--limit): not representative</dd>' in part
    assert "the rest of the source can differ." in part
    assert "MADE-UP" not in part
    assert "all images of the source" not in part
    assert "(1–" not in part  # no ranks


def test_what_is_not_assessed_is_named(make_run: MakeRun) -> None:
    page = render(summarise(open_warehouse(str(make_run(assessed=[a.key for a in ATTRIBUTES if a.key != "nudity"])))))
    assert '<dt>Not assessed</dt><dd class="part">Nudity. The engine cannot judge these' in page
    assert "Nothing: the engine assesses all 22 attributes." in render(
        summarise(open_warehouse(str(make_run(name="all"))))
    )


def test_every_attribute_and_level_is_explained_and_the_law_map_says_whose_it_is(report: Report) -> None:
    page = render(report)
    for attribute in ATTRIBUTES:
        assert f"<summary>{attribute.title}</summary>" in page
        assert html.escape(attribute.shows[1:]).replace("&#x27;", "&#39;") in page
    assert "identify a person on their own, such as a face or a passport" in page
    law = page.partition('id="law"')[2].partition("</section>")[0]
    assert "They are not breaches" in law
    assert "pictures show what this article is about" in law
    assert "pictures show what this section is about" in law
    assert law.count("not mapped: the table has no row for it") == 2
    assert law.count('</span> Unique body markings <span class="ours">ours</span>') == 1
    assert law.count('<span class="ours">ours</span></th>') == 6
    assert "maps 14 of the 22 attributes" in law
    assert "Art. 4(14); Art. 9(1) if used to identify" in law


def test_corrected_rates_stand_beside_the_raw_ones(report: Report, capsys: pytest.CaptureFixture[str]) -> None:
    def row(subject: str, category: str | None, rate: float) -> CorrectedRate:
        return CorrectedRate(subject, category, "scored images", 0.5, rate, 0.2, 0.3, "difference", 400, None)

    found = replace(
        report, corrected=(row("private", None, 0.25), row("private", "beach", 0.123), row("age", None, 0.2))
    )
    bounded = replace(
        found, prevalence=tuple(replace(p, is_lower_bound=p.attribute == "age") for p in found.prevalence)
    )
    write_report(bounded)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["age", "≥", "50.0", "%", "20.0", "%"] in [line[:6] for line in lines]
    assert ["private", "50.0", "%", "25.0", "%"] in [line[:5] for line in lines]
    page = render(found)
    assert "<dt>Private, corrected by labels</dt><dd>25.0 %</dd>" in page
    (beach,) = re.findall(r'<th scope="row">beach .*?</tr>', page, re.DOTALL)
    assert "12.3 %" in beach
    (age,) = re.findall(r"<summary>Age</summary>.*?</tr>", page, re.DOTALL)
    assert "20.0 %" in age
    assert "Measured by 400 labels of people." in page
    assert "Corrected rates of groups are of the scored images." in page
    assert "Fay and Herriot" not in page
    shifted = replace(found, corrected=(*found.corrected[:1], replace(found.corrected[1], method="fay-herriot")))
    assert "They are by a model of all groups (Fay and Herriot)" in render(shifted)
    assert page.index("Private, corrected by labels") < page.index("Private, as the engine answers")
    assert headline_of(found).is_corrected
    assert findings(found)[0].startswith(
        "25.0 % of the scored images are private (corrected by 400 labels of people; 95 % interval 20.0 – 30.0 %), if "
        "labels are right and chance alone decided which pictures have one; the engine itself found 50.0 %"
    )
    rows = {row[0]: dict(zip(HEADS, row, strict=True)) for row in group_rows(found)}
    assert [rows["beach"][name] for name in ("corrected_rate", "corrected_low", "corrected_high")] == [0.123, 0.2, 0.3]
    assert rows["beach"]["privacy_rate"] == next(rate for rate in report.rates if rate.group == "beach").privacy_rate
    assert rows["beach"]["rate_low"] is not None
    assert {row["corrected_rate"] for name, row in rows.items() if name != "beach"} == {None}
    assert json.loads(page.partition('id="figures">')[2].partition("</script>")[0])["heads"] == list(HEADS)
    measured = replace(found.corrected[0], sensitivity=0.9, sensitivity_low=0.8, sensitivity_high=0.95)
    measured = replace(measured, specificity=0.7, specificity_low=0.6, specificity_high=0.75)
    assert quality_note(replace(found, corrected=(measured,))) == (
        "Measured by 400 labels of people: the engine finds 90.0 % (80.0 – 95.0 %) of the private images, and "
        "wrongly calls 30.0 % (25.0 – 40.0 %) of the public images private."
    )
    unknown = replace(found.corrected[0], corrected_rate=None, low=None, high=None, note="not identified")
    assert not headline_of(replace(found, corrected=(unknown,))).is_corrected
    assert "they give no corrected rate (not identified)" in quality_note(replace(found, corrected=(unknown,)))
    assert "Corrected" not in render(report)
    assert "Not measured on this run: the rates are what the engine answered, right or wrong." in render(report)


def test_page_of_an_empty_run(make_run: MakeRun) -> None:
    page = render(summarise(open_warehouse(str(make_run(rows=())))))
    assert "No image could be judged private or not, so there is no rate." in page


def test_the_page_says_where_the_accuracy_of_an_adapter_stands_since_no_run_records_it(common_run: Run) -> None:
    record = common_run.record
    tuned = record.model_copy(update={"engine": record.engine | {"weights": {"base": "ab", "adapter mine": "cd"}}})
    name = "Accuracy of the adapter"
    assert facts_of(tuned, tuned.scope)[name] == (
        "not recorded in a run; what tune measured is in the adapter's privsieve.json, of other pictures"
    )
    assert name not in facts_of(record, record.scope)
