"""A sample in two stages: shards are drawn, then images of them. Its intervals have the variance between shards."""

import csv
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from ingest.errors import Fault
from jobs.labelling.auditing import AuditApplyRequest, AuditSampleRequest, run_audit_apply, run_audit_sample
from reports.report.opened import open_run
from reports.report.words import findings, interval_note
from reports.run.drawn_shards import NUM_TABULATED, fraction_of, of_t, of_t_sql
from reports.statistics.shares import sampled, wilson
from scoring.runs.record import ShardDraw
from scoring.table import Facts, Verdict, to_table
from tests.records import run_record, write_result
from tests.reports.conftest import answer
from tests.reports.shard_draws import intervals, intervals_of, source

PRIVATE, PUBLIC = answer(gov_ids=1), answer()
BROKEN = Fault("truncated", "the file ends early")

Shards = Mapping[str, Sequence[tuple[str, Verdict]]]
"""Category and verdict of each image, by shard."""

SHARDS: Shards = {
    "00.tar": [("beach", PRIVATE), ("beach", PUBLIC), ("attic", PUBLIC), ("beach", PUBLIC)],
    "01.tar": [("beach", PRIVATE), ("beach", PRIVATE), ("attic", PUBLIC), ("beach", PUBLIC), ("beach", BROKEN)],
    "02.tar": [("beach", PUBLIC), ("attic", PUBLIC), ("pier", PRIVATE)],
}
DRAW = ShardDraw(num_shards=3, num_source_shards=10, num_images=12, num_in_shards=60)


def run_of_shards(folder: Path, shards: Shards = SHARDS, draw: ShardDraw = DRAW) -> str:
    record = run_record({"name": "canned", "protocol": "canned", "assessed": ["gov_ids", "age"]})
    settings: dict[str, Any] = {"seed": 3, "sample": draw.num_images, "shards": draw.num_shards}
    settings |= {"num_source_shards": draw.num_source_shards, "num_in_shards": draw.num_in_shards}
    (folder / "run" / "scores").mkdir(parents=True)
    (folder / "run" / "run.json").write_text(record.model_copy(update=settings).model_dump_json())
    for shard, rows in shards.items():
        facts = [
            Facts(shard, n, f"{shard}-{n}", category, 9, hashlib.sha256(f"{shard} {n}".encode()).hexdigest())
            for n, (category, _) in enumerate(rows)
        ]
        write_result(folder / "run", shard, 0, True, to_table(facts, [verdict for _, verdict in rows]))
    return str(folder / "run")


def effective(k: list[int], n: list[int], draw: ShardDraw) -> float:
    """The jackknife as it is defined: each shard is left out once. Checked against the formula of the module."""
    rate, size = sum(k) / sum(n), sum(n)
    without = [(sum(k) - a) / (size - b) for a, b in zip(k, n, strict=True)]
    between = (len(k) - 1) / len(k) * sum((one - rate) ** 2 for one in without)
    f1, f2 = draw.num_shards / draw.num_source_shards, draw.num_images / draw.num_in_shards
    binomial = rate * (1 - rate)
    variance = (1 - f1) * max(between, binomial / size) + f1 * (1 - f2) * binomial / size
    return binomial / variance


def test_the_rate_has_the_variance_between_shards(tmp_path: Path) -> None:
    """Of the judged images 1 of 4, 2 of 4 and 1 of 3 are private. Without each shard the rate is 3/7, 2/7 and 3/8."""
    with open_run(run_of_shards(tmp_path)) as run:
        report = run.summary()
    between = 2 / 3 * ((3 / 7 - 4 / 11) ** 2 + (2 / 7 - 4 / 11) ** 2 + (3 / 8 - 4 / 11) ** 2)
    assert between == pytest.approx(0.006945, abs=1e-6)  # less than 4/11 * 7/11 / 11 = 0.0210, which counts then
    assert report.total.effective_size == pytest.approx(11 / (0.7 + 0.3 * 0.8))
    assert report.total.effective_size == pytest.approx(effective([1, 2, 1], [4, 4, 3], DRAW))
    assert (report.total.degrees, report.total.num_shards) == (2, 3)
    size = 11 / 0.94 * (1.959963984540054 / 4.302652729911275) ** 2  # t with 2 degrees of freedom
    assert (report.overall.low, report.overall.high) == pytest.approx(wilson(4 / 11 * size, size))
    assert report.design.kind == "shards"
    assert findings(report)[0].startswith(
        "An estimated 36.4 % of the scored images in the source were found private (images of 3 random shards, 4 of 11 "
    )
    assert "have the variance between shards" in interval_note(report)
    assert report.cautions[0] == "random sample of 12 images in 3 random shards of 10 (seed 3)"


def test_a_single_shard_is_one_shard(tmp_path: Path) -> None:
    alone = ShardDraw(num_shards=1, num_source_shards=10, num_images=4, num_in_shards=6)
    with open_run(run_of_shards(tmp_path, {"00.tar": SHARDS["00.tar"]}, alone)) as run:
        design = run.summary().design
    assert design.scope == "random sample of 4 images in 1 random shard of 10 (seed 3)"


def test_shards_that_differ_make_the_interval_wider(tmp_path: Path) -> None:
    shards = {f"{n:02}.tar": [("beach", PRIVATE if n < 4 else PUBLIC)] * 9 + [("beach", PUBLIC)] for n in range(20)}
    with open_run(run_of_shards(tmp_path, shards, ShardDraw(20, 1_000, 200, 20_000))) as run:
        found = run.summary().total
    assert found.effective_size == pytest.approx(
        effective([9] * 4 + [0] * 16, [10] * 20, ShardDraw(20, 1_000, 200, 20_000))
    )
    assert found.effective_size < 40 < found.num_judged  # type: ignore[operator]
    assert (found.rate_low, found.rate_high) == pytest.approx(  # as SQL tabulates t, and as SciPy gives it
        sampled(36, 200, fraction_of(200, found.effective_size, found.degrees))
    )


def test_groups_of_one_shard_have_no_interval_and_one_without_private_images_counts_shards(tmp_path: Path) -> None:
    with open_run(run_of_shards(tmp_path)) as run:
        rates = {rate.group: rate for rate in run.summary().rates}
        by_sql = run.sql("SELECT category, rate_low, rate_high FROM rates").to_pylist()
        columns = run.sql("SELECT * FROM rates").column_names
    pier, attic = rates["pier"], rates["attic"]
    assert (pier.num_shards, pier.effective_size, pier.source_low, pier.rate_low) == (1, None, None, None)
    assert (pier.rank_low, pier.rank_high) == (1, 3)  # nothing is known of its place
    assert attic.effective_size == pytest.approx(1 / (0.7 / 3 + 0.3 * 0.8 / 3))
    assert attic.source_low == 0.0
    assert {row["category"]: (row["rate_low"], row["rate_high"]) for row in by_sql} == {
        name: (rate.source_low, rate.source_high) for name, rate in rates.items()
    }
    assert not {"effective_size", "num_shards"} & set(columns)


def test_one_drawn_shard_gives_no_interval_and_this_is_said(tmp_path: Path) -> None:
    with open_run(run_of_shards(tmp_path, {"00.tar": SHARDS["00.tar"]}, ShardDraw(1, 10, 4, 20))) as run:
        report = run.summary()
    assert (report.overall.rate, report.overall.low) == (0.25, None)
    assert report.overall.caveat == "no interval, since a single shard was drawn"
    assert report.overall.caveat in findings(report)[0]


def test_t_is_that_of_scipy_where_it_is_tabulated_and_more_careful_beyond() -> None:
    with duckdb.connect() as database:
        ((two, many, more),) = database.execute(
            f"SELECT {of_t_sql('1::BIGINT')}, {of_t_sql('200::BIGINT')}, {of_t_sql('5000::BIGINT')}"
        ).fetchall()
    assert (float(two), float(many)) == pytest.approx(
        ((1.959963984540054 / 12.706204736432095) ** 2, of_t(NUM_TABULATED))
    )
    assert more == many
    assert many < of_t(5_000) < 1


def test_nothing_is_known_of_a_group_without_an_effective_size() -> None:
    assert fraction_of(10, None, None) == -math.inf
    assert intervals_of([([3], [10], ShardDraw(1, 5, 10, 100))]) == [None]


def test_a_sample_of_all_images_of_its_shards_is_a_sample_of_shards() -> None:
    found = intervals(source(50, 0.2, 0.2), 10, 5_000, 3)
    assert all(one is not None and one[1] - one[0] > 0.05 for one in found)


def audited(folder: Path, shards: Shards, draw: ShardDraw) -> list[dict[str, Any]]:
    """The corrected rates after every picture was labelled as the run answers, so that only the draw is uncertain."""
    run = run_of_shards(folder, shards, draw)
    run_audit_sample(AuditSampleRequest(run=run, n=10_000, out=str(folder / "labels.csv")))
    with open_run(run) as opened:
        private = {row["sha256"]: row["level"] == 1 for row in opened.rows(["sha256", "level"]).to_pylist()}
    with (folder / "labels.csv").open() as file:
        labels = [row | {"private": str(int(private[row["sha256"]]))} for row in csv.DictReader(file)]
    with (folder / "labels.csv").open("w") as file:
        writer = csv.DictWriter(file, list(labels[0]))
        writer.writeheader()
        writer.writerows(labels)
    run_audit_apply(AuditApplyRequest(run=run, labels=(str(folder / "labels.csv"),)))
    with open_run(run) as opened:
        return list(opened.sql("SELECT * FROM corrected_rates WHERE subject = 'private'").to_pylist())


@pytest.mark.slow
def test_corrected_rates_of_the_source_have_the_variance_between_shards(tmp_path: Path) -> None:
    shards = {f"{n:02}.tar": [("beach", PRIVATE if n < 4 else PUBLIC)] * 9 + [("beach", PUBLIC)] for n in range(20)}
    draw = ShardDraw(20, 1_000, 200, 20_000)
    (whole, *_) = (row for row in audited(tmp_path, shards, draw) if row["category"] is None)
    assert whole["corrected_rate"] == pytest.approx(0.18)
    residuals = np.array([9 - 1.8] * 4 + [-1.8] * 16)
    squares, fourths = (residuals**2).sum(), (residuals**4).sum()
    degrees = math.floor(2 * squares**2 / (fourths - squares**2 / 20))
    assert degrees == 17
    size = effective([9] * 4 + [0] * 16, [10] * 20, draw) * of_t(degrees)
    assert (whole["low"], whole["high"]) == pytest.approx(wilson(0.18 * size, size), abs=1e-6)
    assert whole["population"] == "scored images in the source"
    with open_run(str(tmp_path / "run")) as run:
        report = run.summary()
    (shown,) = (row for row in report.corrected if row.subject == "private" and row.category is None)
    assert (shown.low, shown.high) == pytest.approx((whole["low"], whole["high"]))
    assert "and if the other shards are like the 20 drawn ones, which so few cannot show" in findings(report)[0]
    assert json.loads((tmp_path / "run" / "run.json").read_text())["shards"] == 20
