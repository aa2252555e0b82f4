"""Which law the pictures of a run touch: what is counted, and what the shares say."""

from pathlib import Path

import pytest

from reports.report.answers import rules
from reports.report.compute import summarise
from reports.report.page import render
from reports.run.warehouse import open_warehouse
from scoring.taxonomy import ATTRIBUTES
from tests.reports.conftest import MakeRun, answer


def laws_of(run: Path) -> dict[tuple[str, ...], tuple[int, float | None, bool]]:
    """Law and first attribute -> images, share, and whether it is a lower bound."""
    return {
        (rule.law, rule.attributes[0]): (rule.num_images, rule.share, rule.is_lower_bound)
        for rule in summarise(open_warehouse(str(run))).laws
    }


def test_laws_count_each_image_once_and_say_where_it_is_a_lower_bound(make_run: MakeRun) -> None:
    rows = [
        ("a", answer(medical_data=1, beliefs=1)),
        ("a", answer(beliefs=1)),
        ("a", answer(race_ethnicity=None)),
        ("a", answer()),
    ]
    found = laws_of(make_run(rows))
    assert found["GDPR", "medical_data"] == (2, 0.5, True)
    assert found["GDPR", "biometrics"] == (0, 0.0, False)


def test_a_face_is_a_special_category_only_if_it_identifies_so_it_is_counted_apart(make_run: MakeRun) -> None:
    rows = [("a", answer(biometrics=1)), ("a", answer(biometrics=1, beliefs=1)), ("a", answer(beliefs=1))]
    found = laws_of(make_run([*rows, ("a", answer())]))
    assert found["GDPR", "medical_data"] == (2, 0.5, False)
    assert found["GDPR", "biometrics"] == (2, 0.5, False)
    assert found["EU AI Act", "biometrics"] == (2, 0.5, False)


def test_identifiers_are_of_hipaa_only_in_pictures_that_show_medical_data(make_run: MakeRun) -> None:
    rows = [
        ("a", answer(biometrics=1)),
        ("a", answer(location=1, contact_details=1)),
        ("a", answer(medical_data=1)),
        ("a", answer(medical_data=1, gov_ids=1)),
    ]
    assert laws_of(make_run(rows))["HIPAA", "biometrics"] == (1, 0.25, False)


@pytest.mark.parametrize(
    ("shown", "is_open"),
    [
        ({"biometrics": 1, "medical_data": None}, True),  # it may show medical data
        ({"biometrics": None, "medical_data": 1}, True),  # it may show an identifier
        ({"biometrics": None, "medical_data": 0}, False),
        ({"biometrics": 0, "medical_data": None}, False),
        ({"biometrics": 1, "medical_data": 1, "gov_ids": None}, False),  # it counts already
    ],
)
def test_what_was_not_judged_opens_the_share_of_hipaa_only_where_it_could_add_a_picture(
    make_run: MakeRun, shown: dict[str, float | None], is_open: bool
) -> None:
    assert laws_of(make_run([("a", answer(**shown))]))["HIPAA", "biometrics"][2] is is_open


@pytest.mark.slow
def test_the_page_says_that_a_share_is_the_most_unless_not_all_of_it_was_judged(make_run: MakeRun) -> None:
    rows = [("a", answer(beliefs=1, gender=None)), ("a", answer(gov_ids=None)), ("a", answer()), ("a", answer())]
    page = " ".join(render(summarise(open_warehouse(str(make_run(rows))))).split())
    assert "picture shows what this article is about (25.0 %): special categories of personal data" in page
    assert "picture shows what this section is about (at least 25.0 %, not all of it was judged): sensitive" in page
    assert "counts of the engine’s answers, not corrected by labels; “at least” is said where not all of it" in page
    nothing = " ".join(
        render(summarise(open_warehouse(str(make_run([("a", answer(gov_ids=None))], name="b"))))).split()
    )
    assert '<dt>CCPA/CPRA §1798.140(ae)</dt><dd>–</dd><dd class="small">no picture was found, and not all' in nothing


@pytest.mark.parametrize(
    ("law", "field", "words"),
    [
        ("GDPR", "gdpr", "Art. 9(1)"),
        ("HIPAA", "hipaa", "identifier"),
        ("EU AI Act", "eu_ai_act", "Art. 5"),
        ("CCPA/CPRA", "ccpa", "sensitive personal information"),
    ],
)
def test_a_count_is_of_every_attribute_that_the_table_names_for_the_article(law: str, field: str, words: str) -> None:
    """Else it would not be the most that can fall under the article. Documents count by what they show."""
    named = {a.key for a in ATTRIBUTES if words in (getattr(a.laws, field) or "")} - {"documents"}
    counted = {attribute for rule in rules() if rule.law == law for attribute in rule.attributes}
    assert counted == named


def test_what_the_table_of_the_paper_has_no_row_for_is_marked_as_ours() -> None:
    ours = {a.key for a in ATTRIBUTES if a.laws.mapped_by == "us"}
    assert {"contact_details", "lifestyle"} < ours
    assert ours.isdisjoint({"biometrics", "non_unique_id", "activities"})
    assert len(ours) == 6
