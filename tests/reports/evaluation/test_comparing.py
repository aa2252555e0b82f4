"""Two runs, or several, on the same pictures."""

import numpy as np
import pytest

from ingest.errors import LabelsError
from reports.evaluation.compute import compare, judged
from tests.records import engine_record
from tests.reports.evaluation.conftest import BINARY, REJECTED, MakeRun, answered, by_hash, found

LOCATION_ONLY = engine_record(name="canned", protocol="slots", assessed=["location"])


def test_a_better_run_is_better_by_its_difference_and_by_its_interval(make_run: MakeRun) -> None:
    names = [f"{n}" for n in range(60)]
    generator = np.random.default_rng(0)
    labels = by_hash(names, private=[n % 2 for n in range(60)])
    poor = [(name, answered(bool(generator.random() < 0.5))) for name in names]
    good = [(name, answered(n % 2 == 1)) for n, name in enumerate(names)]
    before = judged(str(make_run(poor, BINARY)), labels)
    after = judged(str(make_run(list(reversed(good)), BINARY, name="after")), labels)
    result = compare(after, before)
    assert result.num_pictures == 60
    assert result.mcnemar is not None
    num_wrong = sum(answer.private != n % 2 for n, (_, answer) in enumerate(poor))
    assert (result.mcnemar.num_only_after_right, result.mcnemar.num_only_before_right) == (num_wrong, 0)
    assert result.mcnemar.p_value == pytest.approx(0.5 ** (num_wrong - 1))
    mcc = result.private["mcc"]
    assert mcc.after == 1.0
    assert mcc.difference == pytest.approx(1.0 - (mcc.before or 0.0))
    assert mcc.interval is not None
    assert 0.4 < mcc.interval.low < 0.8 < mcc.interval.high


def test_only_pictures_of_both_runs_are_compared_each_once(make_run: MakeRun) -> None:
    labels = by_hash("abcd", private=[1, 1, 0, 0])
    first = judged(str(make_run([("a", answered(True)), ("a", answered(True)), ("b", answered(True))], BINARY)), labels)
    others = [("b", REJECTED), ("c", answered(False)), ("a", answered(True))]
    second = judged(str(make_run(others, BINARY, name="second")), labels)
    result = compare(first, second)
    assert result.num_pictures == 2
    assert result.mcnemar is not None
    assert (result.mcnemar.num_only_after_right, result.mcnemar.num_only_before_right) == (1, 0)


def test_runs_without_a_labelled_picture_in_common_are_refused(make_run: MakeRun) -> None:
    labels = by_hash("ab", private=[1, 0])
    first = judged(str(make_run([("a", answered(True))], BINARY)), labels)
    second = judged(str(make_run([("b", answered(True))], BINARY, name="second")), labels)
    with pytest.raises(LabelsError, match="have no labelled picture in common"):
        compare(first, second)


def test_a_run_that_does_not_say_what_is_private_is_compared_by_nothing_of_that(make_run: MakeRun) -> None:
    labels = by_hash("ab", private=[1, 0], score=[0.8, 0.1])
    first = judged(str(make_run([("a", answered(True)), ("b", answered(False))], BINARY)), labels)
    second = judged(str(make_run([("a", found()), ("b", found())], LOCATION_ONLY, name="second")), labels)
    result = compare(first, second)
    assert result.mcnemar is None
    assert result.private == {}
