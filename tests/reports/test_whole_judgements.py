"""Reports of runs whose model judges each picture as a whole: how severe it is, or private yes or no."""

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from jobs.commands.report import report
from reports.report.compute import summarise
from reports.report.page import render
from reports.report.results import Report
from reports.report.words import edges_in_words, findings, headlines, levels_in_words
from reports.run.figures import CorrectedRate
from reports.run.warehouse import open_warehouse
from reports.statistics.shares import wilson
from scoring.assessment import Assessment, not_assessed
from tests.reports.conftest import MakeRun

REVISION = "c0ffee" * 6 + "c0ff"
WEIGHTS = {f"owner/model@{REVISION}": "ab" * 32, "adapter privacy": "cd" * 32}


def run_of(make_run: MakeRun, protocol: str, rows: list[tuple[str, Assessment]]) -> Path:
    return make_run(rows, assessed=(), only_affirmed=(), protocol=protocol, weights=WEIGHTS)


SCORES = (0.9, 0.72, 0.6, 0.55, 0.4, 0.3, 0.1, 0.0)


@pytest.fixture
def severity(make_run: MakeRun) -> Path:
    rows = [("ward" if n % 2 else "sky", Assessment(not_assessed(), holistic_score=s)) for n, s in enumerate(SCORES)]
    return run_of(make_run, "severity:taxonomy-1", [*rows, ("sky", Assessment(not_assessed()))])


def summary(folder: Path, **settings: object) -> Report:
    run = open_warehouse(str(folder))
    return summarise(replace(run, record=run.record.model_copy(update=settings)))


def test_severity_has_mean_distribution_and_the_share_from_each_edge_on(severity: Path) -> None:
    found = summary(severity)
    assert found.scores is not None
    assert found.scores.mean == pytest.approx(sum(SCORES) / 8)
    assert (found.scores.low, sum(found.scores.histogram)) == (None, 8)
    assert [place for place, num in enumerate(found.scores.histogram) if num] == [0, 2, 6, 8, 11, 12, 14, 18]
    assert [(edge.level, edge.score, edge.num_images) for edge in found.scores.edges] == [
        (1, 0.711, 2),
        (2, 0.514, 4),
        (3, 0.292, 6),
    ]
    assert edges_in_words(found)[0] == ("≥ 0.711 (level 1)", 2, "25.0 %", "", "–")
    assert [(level, num) for level, _, num, _ in levels_in_words(found)] == [(1, 2), (2, 2), (3, 2), (4, 1), (0, 1)]
    assert {rate.group: (rate.num_private, rate.num_judged) for rate in found.rates} == {"sky": (2, 4), "ward": (2, 4)}
    assert [(image.key, image.level, image.score) for image in found.severest[:2]] == [
        ("secret-key-0", 1, 0.9),
        ("secret-key-1", 1, 0.72),
    ]


def test_of_the_first_images_the_screen_has_the_numbers_from_each_edge_on(severity: Path) -> None:
    assert "at least   ≥ 0.711 (level 1) 2 images; ≥ 0.514" in "\n".join(headlines(summary(severity, limit=9)))
    assert "≥ 0.711 (level 1) 25.0 % (" in "\n".join(headlines(summary(severity, sample=9, seed=0)))


def test_of_a_sample_the_mean_and_the_shares_have_intervals(severity: Path) -> None:
    found = summary(severity, sample=9, seed=0)
    assert found.scores is not None
    assert found.scores.low is not None
    assert found.scores.low < sum(SCORES) / 8 < (found.scores.high or 0)
    figure = found.scores.edges[0].figure
    assert (figure.low, figure.high) == pytest.approx(wilson(2, 8))
    assert figure.is_of_source


def test_labels_correct_the_share_that_is_private(severity: Path) -> None:
    whole = CorrectedRate("private", None, "scored images", 0.5, 0.25, 0.2, 0.3, "difference", 400, None)
    found = replace(summary(severity), corrected=(whole,))
    assert [corrected for *_, corrected in edges_in_words(found)] == ["–", "25.0 % (20.0 – 30.0 %)", "–"]
    assert findings(found)[0].startswith("25.0 % of the scored images are private (corrected by 400 labels of people")
    assert "25.0 % (20.0 – 30.0 %)" in render(found)


def test_text_and_page_name_the_model_and_say_in_one_line_that_no_attribute_was_asked_for(severity: Path) -> None:
    text = CliRunner().invoke(report, [str(severity)], catch_exceptions=False).stdout
    assert f"model      owner/model@{REVISION}, adapter privacy (SHA-256 {'cd' * 32})\n" in text
    assert "The model gave 8 images a severity score, on average 0.446." in text
    assert "≥ 0.711 (level 1) 25.0 %; ≥ 0.514 (level 2) 50.0 %; ≥ 0.292 (level 3) 75.0 %" in text
    asked = "No attribute is asked for, only whether a picture is private, or how severe it is."
    assert text.count(asked) == 1
    assert len(text.splitlines()) < 30
    page = render(summary(severity))
    assert "biometrics" not in page.lower()
    assert f"owner/model@{REVISION}" in page
    assert f"SHA-256 {'ab' * 32}" in page
    assert page.count("<rect x=") >= 8
    assert 'id="law"' not in page


def test_yes_and_no_have_the_distribution_of_their_probability_and_the_reasons(make_run: MakeRun) -> None:
    def says(probability: float, *kinds: str) -> Assessment:
        given = not_assessed()
        is_private = probability > 0.5
        return Assessment(given, private=is_private, prob_private=probability, evidence=kinds)

    rows = [("ward", says(0.9, "private", "reason: face")), ("ward", says(0.7, "private")), ("sky", says(0.2))]
    found = summary(run_of(make_run, "binary:ours-1,reason", rows))
    assert found.scores is not None
    assert found.scores.mean == pytest.approx(0.6)
    assert found.scores.edges == ()
    assert [(image.key, image.level, image.score) for image in found.severest] == [
        ("secret-key-0", None, 0.9),
        ("secret-key-1", None, 0.7),
    ]
    assert [(one.group, one.kind, one.num_images, one.num_private) for one in found.evidence] == [
        ("ward", "reason: face", 1, 2)
    ]
    assert levels_in_words(found) == []
    page = render(found)
    assert "The model gave 3 images a probability of private, on average 0.600." in page
    assert "Mean probability" in page
