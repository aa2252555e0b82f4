"""Figures of a run that was counted by hand."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import Fault, QueryError
from reports.report import compute
from reports.report.compute import summarise
from reports.report.page import render
from reports.report.results import Report
from reports.report.words import headlines, levels_in_words, notes, private_in_words, unseen_note
from reports.run.warehouse import Run, open_warehouse
from scoring.taxonomy import KEYS
from tests.records import engine_record
from tests.reports.conftest import HOSTILE, MakeRun, answer, nothing


@pytest.fixture
def report(common_run: Run) -> Report:
    return summarise(common_run)


def test_counts_and_levels(report: Report) -> None:
    assert (report.total.num_images, report.total.num_scored, report.total.num_quarantined) == (8, 6, 2)
    levels = levels_in_words(report)
    assert [(level, number) for level, _, number, _ in levels] == [(1, 2), (2, 1), (3, 1), (4, 1), (0, 1)]
    assert sum(share for *_, share in levels) == pytest.approx(1)
    assert report.left_out.quarantined == {"truncated": 1, "not_an_image": 1}


def test_prevalence_is_over_what_was_assessed(report: Report) -> None:
    found = {row.attribute: row for row in report.prevalence}
    assert tuple(found) == KEYS
    beliefs = found["beliefs"]
    assert (beliefs.num_absent, beliefs.num_not_assessed, beliefs.share) == (4, 2, 0.0)
    assert (found["nudity"].num_ambiguous, found["nudity"].num_present) == (1, 0)
    assert found["biometrics"].share == pytest.approx(2 / 6)


def test_rates_and_order(report: Report) -> None:
    assert [rate.group for rate in report.rates] == ["beach", "office", "(none)"]
    assert (report.total.num_private, report.total.num_scored, report.total.num_quarantined) == (3, 6, 2)
    assert report.num_groups == 4
    assert report.num_groups - len(report.rates) == 1
    assert any("1 of 4 groups" in note for note in notes(report))


def test_top_never_shows_a_group_twice(common_run: Run) -> None:
    one = summarise(common_run, top=1)
    assert [rate.group for rate in one.highest] == ["beach"]
    assert [rate.group for rate in one.lowest] == ["(none)"]
    two = summarise(common_run, top=2)
    assert [rate.group for rate in two.lowest] == ["(none)"]
    assert summarise(common_run, top=3).lowest == ()


GAPS = (
    ("page", answer(gov_ids=None, full_legal_name=None)),
    ("page", answer(full_legal_name=None, age=1)),
    ("page", answer(gov_ids=None, nudity=1)),
    ("page", answer(documents=None)),
    ("page", answer(beliefs=None)),
)
"""Unknown, unknown, private all the same, not private by what could be judged twice: level 4, and never ruled out."""


def test_what_could_not_be_judged_is_unknown_and_not_counted_as_not_private(make_run: MakeRun) -> None:
    run = open_warehouse(str(make_run(rows=GAPS)))
    total = summarise(run).total
    assert (total.num_scored, total.num_private, total.num_unknown) == (5, 1, 2)
    assert total.privacy_rate == pytest.approx(1 / 3)
    (note,) = (note for note in notes(summarise(run)) if note.startswith("unknown (2): scored images"))
    assert note.endswith("rate: private / (N - unknown).")
    _, rates = run.select("SELECT num_private, num_unknown, privacy_rate FROM rates")
    assert list(rates) == [(1, 2, pytest.approx(1 / 3))]
    _, levels = run.select('SELECT unknown_level FROM images ORDER BY shard, "index"')
    assert [level for (level,) in levels] == [1, 2, 1, 4, None]
    by_level = summarise(run, by="unknown_level").rates
    assert {rate.group: rate.num_unknown for rate in by_level} == {"1": 1, "2": 1, "4": 0, "(none)": 0}


@pytest.mark.parametrize(
    ("private", "num_private", "num_unknown"),
    [("score > 0.5", 1, 2), ("level = 2", 1, 2), ("nudity = 1", 1, 0), ("gov_ids = 1", 0, 2), ("level = 3", 1, 2)],
)
def test_only_conditions_on_what_was_not_judged_are_unknown(
    make_run: MakeRun, private: str, num_private: int, num_unknown: int
) -> None:
    total = summarise(open_warehouse(str(make_run(rows=GAPS))), private=private).total
    assert (total.num_private, total.num_unknown) == (num_private, num_unknown)


def test_a_group_of_nothing_but_unknown_images_has_no_rate_and_is_reported(make_run: MakeRun) -> None:
    found = summarise(open_warehouse(str(make_run(rows=[("page", answer(gov_ids=None)), ("beach", answer())]))))
    assert {rate.group: (rate.num_unknown, rate.privacy_rate) for rate in found.rates} == {
        "page": (1, None),
        "beach": (0, 0.0),
    }
    assert "1 of 2 groups has no rate: all images there are unknown." in notes(found)


def test_an_engine_that_judges_nothing_in_any_image_has_no_gaps(make_run: MakeRun) -> None:
    run = open_warehouse(str(make_run(rows=[("a", answer(biometrics=None, gov_ids=0))], assessed=["gov_ids"])))
    assert summarise(run).total.num_unknown == 0


def test_by_expression(common_run: Run) -> None:
    found = summarise(common_run, by="upper(category)")
    assert [(rate.group, rate.nums_by_level) for rate in found.rates] == [
        ("BEACH", (2, 0, 1, 0, 0)),
        ("OFFICE", (0, 1, 0, 1, 0)),
        ("(none)", (0, 0, 0, 0, 1)),
    ]


@pytest.mark.parametrize(
    ("settings", "scope", "is_whole"),
    [
        ({}, "all images of the source", True),
        ({"limit": 80}, "first 80 images only (--limit): not representative", False),
        ({"sample": 100_000, "seed": 7}, "random sample of 100,000 images (seed 7)", False),
    ],
)
def test_the_first_line_says_which_images_of_the_source_the_figures_are_of(
    common_run: Run, settings: dict[str, int], scope: str, is_whole: bool
) -> None:
    found = summarise(replace(common_run, record=common_run.record.model_copy(update=settings)))
    assert (found.scope, found.is_whole, headlines(found)[0]) == (scope, is_whole, scope)


def test_canned_answers_are_called_made_up_and_those_of_other_engines_are_not(common_run: Run) -> None:
    message = "MADE-UP ANSWERS: the canned engine looks at no picture"
    assert summarise(common_run).made_up == message
    assert message in headlines(summarise(common_run))
    engine = engine_record(name="detectors", protocol="detectors-5")
    other = summarise(
        replace(common_run, record=common_run.record.model_copy(update={"engine": engine, "is_fake": False}))
    )
    assert other.cautions == ()
    fake = summarise(
        replace(common_run, record=common_run.record.model_copy(update={"engine": engine, "is_fake": True}))
    )
    assert fake.made_up == "MADE-UP ANSWERS: the detectors engine looks at no picture"


def test_what_private_means_is_stated_and_that_less_than_takes_level_0(common_run: Run) -> None:
    assert "private    The image shows a unique identifier" in "\n".join(headlines(summarise(common_run)))
    assert private_in_words(summarise(common_run, private="nudity = 1")) == "nudity = 1 (set with --private)."
    found = summarise(common_run, private="level < 3")
    assert headlines(found)[1:3] == (
        "MADE-UP ANSWERS: the canned engine looks at no picture",
        "CAUTION: --private level < 3 also matches images in which nothing was found, since their level is 0; write "
        "for example: level IN (1, 2)",
    )
    assert len(summarise(common_run, private="level BETWEEN 1 AND 3").cautions) == 1


def test_engine_that_assesses_little_says_so(make_run: MakeRun) -> None:
    found = summarise(open_warehouse(str(make_run(rows=[("a", nothing())], assessed=["biometrics"]))))
    assert found.assessed == ("biometrics",)
    assert len(found.not_assessed) == 21
    assert all(row.share is None and row.num_not_assessed == 1 for row in found.prevalence)
    assert any("the real levels and rates can be higher" in line for line in headlines(found))


def test_names_are_made_printable(make_run: MakeRun) -> None:
    found = summarise(open_warehouse(str(make_run(rows=[(name, answer()) for name in HOSTILE]))))
    groups = {rate.group for rate in found.rates}
    assert "a\\nb\\x1b[31m" in groups
    assert "[bold]x[/bold]" in groups


@pytest.mark.parametrize(
    "by",
    ["no_such", "(SELECT 1)", "category; DROP VIEW images", "read_text('/etc/passwd')", "count(*)", "category) --"],
)
def test_by_reaches_nothing_but_the_row(common_run: Run, by: str) -> None:
    with pytest.raises(QueryError):
        summarise(common_run, by=by)


def test_placeholder_in_a_quoted_string_stays_text(common_run: Run) -> None:
    found = summarise(common_run, by="'{private}'", private="key <> ' || 1/0 || '")
    assert [rate.group for rate in found.rates] == ["{private}"]


def test_failing_cast_is_one_line(make_run: MakeRun) -> None:
    with pytest.raises(QueryError, match=r"^a value cannot be converted as asked; TRY_CAST") as caught:
        summarise(open_warehouse(str(make_run())), by="category::INTEGER")
    assert "\n" not in str(caught.value)
    assert "beach" not in str(caught.value)
    assert summarise(open_warehouse(str(make_run(name="again"))), by="TRY_CAST(category AS INTEGER)").num_groups == 1


def test_too_many_groups(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute, "MAX_GROUPS", 2)
    with pytest.raises(
        QueryError, match="category makes more than 2 groups, and a report holds no more; group by less"
    ):
        summarise(open_warehouse(str(make_run())))
    monkeypatch.setattr(compute, "MAX_GROUPS", 4)
    assert summarise(open_warehouse(str(make_run(name="again")))).num_groups == 4


def test_an_attribute_that_is_never_ruled_out_has_a_lower_bound_of_all_scored_images(make_run: MakeRun) -> None:
    rows = [(None, answer(location=value)) for value in (1.0, 0.5, None, None)]
    found = {row.attribute: row for row in summarise(open_warehouse(str(make_run(rows)))).prevalence}
    assert (found["location"].share, found["location"].is_lower_bound) == (0.25, True)
    assert (found["gov_ids"].share, found["gov_ids"].is_lower_bound) == (0.0, False)


def test_images_with_content_that_was_not_scanned_are_counted_by_kind(make_run: MakeRun) -> None:
    unseen = [["frames"], [], ["embedded_image", "trailing_data"], [], [], ["frames"]]
    run = make_run(rows=[("a", answer())] * 6 + [("a", Fault("empty", "no bytes"))])
    for file, part in zip(sorted((run / "scores").iterdir()), ((0, 4), (4, 6)), strict=True):
        table = pq.read_table(file)
        missing = [None] * (table.num_rows - (part[1] - part[0]))
        values = pa.array(unseen[slice(*part)] + missing, table.schema.field("unseen").type)
        pq.write_table(table.set_column(table.column_names.index("unseen"), "unseen", values), file)
    report = summarise(open_warehouse(str(run)))
    assert report.left_out.unseen == {
        "embedded_image": 1,
        "frames": 2,
        "hidden_pixels": 0,
        "trailing_data": 1,
        "unknown_chunk": 0,
    }
    assert report.left_out.num_unseen == 3
    note = "3 images hold content that may not have been scanned (embedded_image 1, frames 2, trailing_data 1)."
    assert unseen_note(report) == note
    assert note in render(report)


def test_rejections_are_counted_by_their_kind(make_run: MakeRun) -> None:
    kinds = ["the answer is empty", "the answer is a refusal", "the answer is a refusal"]
    rows = [("a", Fault("rejection", kind)) for kind in kinds] + [("a", Fault("truncated", "the file ends early"))]
    folder = make_run(rows=[*rows, ("a", answer())])
    found = summarise(open_warehouse(str(folder)))
    assert found.left_out.rejections == {kinds[1]: 2, kinds[0]: 1}
    assert found.left_out.quarantined == {"rejection": 3, "truncated": 1}
    page = render(found)
    assert "the answer is a refusal" in page
    assert "the file ends early" not in page
    assert "Table of rejections" not in render(summarise(open_warehouse(str(make_run(name="other")))))
