"""The metrics are those of scikit-learn, if it is installed. It is in no extra: it would add 50 MB for this test."""

import numpy as np
import pytest

from reports.evaluation.metrics import attribute_metrics
from reports.statistics.binary import binary_metrics, cells, classwise, rates
from reports.statistics.calibration import calibration

metrics = pytest.importorskip("sklearn.metrics")


@pytest.mark.parametrize("seed", range(20))
def test_binary_metrics_are_those_of_scikit_learn(seed: int) -> None:
    generator = np.random.default_rng(seed)
    truth = np.r_[True, False, generator.random(200) < 0.3]
    predicted = np.r_[True, False, np.where(generator.random(200) < 0.7, truth[2:], ~truth[2:])]
    found, counts = binary_metrics(truth, predicted), cells(truth, predicted).sum(axis=0)
    assert found.mcc == pytest.approx(metrics.matthews_corrcoef(truth, predicted))
    assert found.balanced_accuracy == pytest.approx(metrics.balanced_accuracy_score(truth, predicted))
    assert float(rates(counts)["kappa"]) == pytest.approx(metrics.cohen_kappa_score(truth, predicted))
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(truth, predicted, average="binary")
    assert (found.precision, found.recall, found.f1) == pytest.approx((precision, recall, f1))
    overall = classwise(counts).overall
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(truth, predicted, average="weighted")
    assert (overall.precision, overall.recall, overall.f1) == pytest.approx((precision, recall, f1))
    given = generator.random(202)
    calibrated = calibration(truth, given)
    assert calibrated is not None
    assert calibrated.brier == pytest.approx(metrics.brier_score_loss(truth, given))


def test_the_macro_f1_is_that_of_scikit_learn() -> None:
    generator = np.random.default_rng(0)
    truth = (generator.random((300, 22)) < 0.4).astype(np.float64)
    answers = np.where(generator.random((300, 22)) < 0.8, truth, 1 - truth)
    _, summary = attribute_metrics(truth, answers)
    assert summary.macro_f1 == pytest.approx(metrics.f1_score(truth, answers, average="macro"))
