"""What a report may claim of the source, by how its images were chosen."""

from dataclasses import replace
from typing import Any

import pytest

from ingest.errors import Fault
from reports.audit.population import of_source
from reports.report.compute import summarise
from reports.report.results import Report
from reports.report.words import all_images, bounds, bounds_of_all, findings, interval_note
from reports.run.design import SourceSizes
from reports.run.figures import CorrectedRate
from reports.run.warehouse import open_warehouse
from reports.statistics.estimates import Estimate
from reports.statistics.shares import wilson
from scoring.runs.coverage import Coverage
from tests.reports.conftest import MakeRun, answer

ROWS = [
    *(("beach", answer(biometrics=1)) for _ in range(20)),
    *(("beach", answer()) for _ in range(20)),
    *(("attic", answer(gov_ids=1)) for _ in range(2)),
    *(("attic", answer()) for _ in range(38)),
    *(("attic", Fault("truncated", "the file ends early")) for _ in range(4)),
    ("pier", answer(biometrics=1)),
]


UNKNOWN = SourceSizes()
IN_SOURCE = "scored images in the source"


def reported(make_run: MakeRun, sizes: SourceSizes = UNKNOWN, name: str = "run", **settings: Any) -> Report:
    run = open_warehouse(str(make_run(ROWS, name=name)))
    record = run.record.model_copy(update=settings)
    return summarise(replace(run, record=record), sizes=sizes)


def test_a_whole_source_is_counted_and_its_order_is_that_of_the_lower_ends(make_run: MakeRun) -> None:
    found = reported(make_run)
    assert [rate.group for rate in found.rates] == ["beach", "pier", "attic"]  # pier: 1 of 1, so hardly sure
    beach, pier, attic = found.rates
    assert (beach.source_low, beach.source_high) == (0.5, 0.5)
    assert [(rate.rank, rate.rank_low, rate.rank_high) for rate in found.rates] == [(1, 1, 2), (2, 1, 3), (3, 2, 3)]
    assert [rate.is_small for rate in found.rates] == [False, True, False]
    assert (attic.share_if_none_private, attic.share_if_all_private) == pytest.approx((2 / 44, 6 / 44))
    assert (pier.share_if_none_private, pier.share_if_all_private) == (1.0, 1.0)
    assert bounds(pier, "all images") is None
    assert all_images(found) == "all images"
    assert findings(found) == (
        "28.4 % of the scored images in the source were found private (23 of 81 images that could be judged), "
        "most often because of “Biometrics”.",
        "By category, the highest of 3 is beach or pier; the table has the possible ranks of each.",
    )


def test_the_order_is_that_of_the_engine_even_where_labels_correct_the_rate(make_run: MakeRun) -> None:
    whole = CorrectedRate("private", None, "scored images", 0.5, 0.25, 0.2, 0.3, "difference", 400, None)
    first, second = findings(replace(reported(make_run), corrected=(whole,)))
    assert "; the engine itself found 50.0 %, most often because of" in first
    assert second == (
        "By category, as the engine answers, the highest of 3 is beach or pier; the table has the possible ranks of "
        "each."
    )
    part = replace(reported(make_run, name="part", limit=85), corrected=(whole,))
    assert findings(part)[0].endswith("; the others can differ.")


def test_the_corrected_rate_of_a_random_sample_is_of_the_source_and_has_the_error_of_the_draw() -> None:
    """Every image is labelled, so that only the draw of the run is uncertain."""
    found = of_source(Estimate(0.25, 0.25, 0.25), 81)
    assert (found.low, found.high) == pytest.approx(wilson(0.25 * 81, 81))


def test_a_random_sample_gives_an_interval_that_knows_the_size_of_the_source(make_run: MakeRun) -> None:
    far = reported(make_run, sample=85, seed=3)
    near = reported(make_run, SourceSizes(num_images=100), name="near", sample=85, seed=3)
    assert far.overall.rate == near.overall.rate == pytest.approx(23 / 81)
    assert None not in (far.overall.low, far.overall.high, near.overall.low, near.overall.high)
    assert near.overall.high - near.overall.low < 0.5 * (far.overall.high - far.overall.low)  # type: ignore[operator]
    assert far.rates[0].source_low == pytest.approx(far.rates[0].rate_low)
    assert near.rates[0].source_low > near.rates[0].rate_low  # type: ignore[operator]
    assert findings(far)[0].startswith(
        "An estimated 28.4 % of the scored images in the source were found private (a random sample, 23 of 81 images "
        "that could be judged; 95 % interval 19.7 – 39.0 %), most"
    )


def test_a_sample_of_each_category_has_an_overall_rate_only_with_their_sizes(make_run: MakeRun) -> None:
    settings: dict[str, Any] = {"sample": 44, "seed": 0, "per_category": True}
    without = reported(make_run, **settings)
    assert without.overall.rate is None
    assert "that is no rate of the whole source" in findings(without)[0]
    sizes = SourceSizes(by_category={"beach": 100, "attic": 10_000, "pier": 1})
    known = reported(make_run, sizes, name="known", **settings)
    assert known.overall.rate == pytest.approx((100 * 0.5 + 10_000 * 40 / 44 * 0.05 + 1) / (101 + 10_000 * 40 / 44))
    assert known.overall.basis.startswith("weighted with the sizes of 3 categories, ")
    assert known.rates[0].source_low > without.rates[0].source_low  # type: ignore[operator]
    for number, (by_category, why) in enumerate(
        (
            ({"beach": 100, "attic": 99, "pier": 1, "cellar": 5}, "1 of its categories has no judged image"),
            ({"beach": 100, "pier": 1}, "1 of its categories have no size there, such as attic"),
            ({"beach": 100, "attic": 9, "pier": 1}, "of attic the run has 44 images, and 9 are given"),
        )
    ):
        overall = reported(make_run, SourceSizes(by_category=by_category), f"wrong-{number}", **settings).overall
        assert overall.rate is None
        assert why in overall.caveat


def test_a_group_is_called_highest_only_if_no_other_can_have_its_rank(make_run: MakeRun) -> None:
    """A large group of 20 % private images is surely below A; C and D are too small to be surely below anything."""
    sizes = {"A": (60, 150), "B": (200, 1000), "C": (1, 3), "D": (6, 20)}
    rows = [
        (group, answer(biometrics=int(n < num_private)))
        for group, (num_private, num) in sizes.items()
        for n in range(num)
    ]
    found = summarise(open_warehouse(str(make_run(rows))))
    ranks = {rate.group: (rate.rank_low, rate.rank_high) for rate in found.rates}
    assert ranks == {"A": (1, 3), "D": (1, 4), "B": (2, 4), "C": (1, 4)}
    assert findings(found)[1] == "By category, the highest of 4 is A, D or C; the table has the possible ranks of each."
    two = summarise(open_warehouse(str(make_run([row for row in rows if row[0] in "AB"], name="two"))))
    assert findings(two)[1] == "By category, A is highest (at least 32.5 %), ahead of the other one."


@pytest.mark.parametrize("is_limit", [True, False])
def test_the_first_images_and_an_unfinished_scan_claim_nothing(make_run: MakeRun, is_limit: bool) -> None:
    run = open_warehouse(str(make_run(ROWS)))
    record = run.record.model_copy(update={"limit": 85} if is_limit else {})
    coverage = Coverage(is_limit, 3, 1, 85, 85 if is_limit else None, None)
    found = summarise(replace(run, record=record), coverage=coverage)
    assert (found.overall.rate, found.design.has_claim) == (None, False)
    assert all(rate.rank is None and rate.source_low is None for rate in found.rates)
    assert found.rates[0].rate_low == pytest.approx(0.3520, abs=1e-4)  # as if they were drawn at random
    assert interval_note(found).startswith("No intervals and no ranks")
    assert findings(found)[0].endswith("the rest of the source can differ.")
    assert findings(found)[1] == "The order of the 3 groups by category holds for the scanned images only."


def test_a_source_that_cannot_be_listed_is_not_called_whole(make_run: MakeRun) -> None:
    run = open_warehouse(str(make_run(ROWS)))
    found = summarise(run, coverage=Coverage(None, None, 0, 85, None, None))
    assert found.cautions[0] == "MAY BE UNFINISHED: the source cannot be listed now"
    assert findings(found)[0].startswith("28.4 % of the scored images were found private")
    assert found.overall.caveat == "whether these are all images of the source is not known now"
    assert (bounds_of_all(found) or "").startswith("With 4 quarantined images: 27.1 % of the scanned images if none")


def _with_hashes(folder: Any, hashes: list[str | None]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for file in sorted((folder / "scores").iterdir()):
        table = pq.read_table(file)
        own, hashes = hashes[: table.num_rows], hashes[table.num_rows :]
        place = table.column_names.index("phash")
        pq.write_table(table.set_column(place, table.schema.field("phash"), pa.array(own, pa.string())), file)


def test_kinds_of_evidence_are_counted_without_sizes(make_run: MakeRun) -> None:
    def seen(*kinds: str) -> Any:
        return replace(answer(biometrics=1), evidence=kinds)

    rows = [
        ("a", seen("face, 30 px wide, sharp", "face, 80 px wide, sharp")),
        ("a", seen("face, 12 px wide, sharp", "date (high probability)")),
        ("a", replace(answer(), evidence=("date",))),
    ]
    run = open_warehouse(str(make_run(rows)))
    found = [(one.kind, one.num_images, one.num_private) for one in summarise(run).evidence]
    assert found == [("face, sharp", 2, 2), ("date", 1, 2)]


def test_the_most_severe_images_come_first_and_say_where_their_boxes_are(make_run: MakeRun) -> None:
    from scoring.assessment import Box

    boxes = (Box("biometrics", "face", 0.0, 0.0, 0.2, 0.2, 0.9),) * 2
    rows = [
        ("a", answer(age=1)),
        ("a", answer()),
        ("b", replace(answer(biometrics=1, gov_ids=1), boxes=boxes, evidence=("face",))),
        ("b", answer(biometrics=1)),
    ]
    folder = make_run(rows)
    found = summarise(open_warehouse(str(folder))).severest
    assert [(image.shard, image.index, image.level) for image in found] == [
        ("1.tar", 0, 1),
        ("1.tar", 1, 1),
        ("0.tar", 0, 3),
    ]
    assert (found[0].attributes, found[0].boxes) == (("biometrics", "gov_ids"), ("2 × face, top left",))
    assert found[0].rationale == "face"
    _with_hashes(folder, ["0f" * 8, None, "0f" * 8, "0f" * 8])
    found = summarise(open_warehouse(str(folder))).severest
    assert [(image.shard, image.index) for image in found] == [("1.tar", 0)]  # the others are copies of it


def test_of_a_models_reasons_the_kinds_are_counted_and_not_its_answer(make_run: MakeRun) -> None:
    def says(*kinds: str) -> Any:
        return replace(answer(biometrics=1), evidence=("private (high probability)", *kinds))

    rows = [("a", says("reason: face", "reason: home")), ("a", says("reason: face")), ("b", says())]
    found = summarise(open_warehouse(str(make_run(rows))), private="level = 1")
    assert [(each.group, each.kind, each.num_images) for each in found.evidence] == [
        ("a", "reason: face", 2),
        ("a", "reason: home", 1),
    ]
