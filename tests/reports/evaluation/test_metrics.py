"""The metrics against SciPy and scikit-learn, against their definitions, and where they are not defined."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from reports.evaluation.metrics import attribute_metrics, band_of, score_metrics
from reports.statistics.binary import Numbers, binary_metrics, cells, classwise, per_class, rates
from reports.statistics.calibration import calibration
from reports.statistics.correlation import num_concordant, num_ordered, pairwise_by_level, weighted_spearman
from reports.statistics.intervals import Draws, of_private, of_scores, of_share
from reports.statistics.paired import difference, mcnemar
from scoring.taxonomy import KEYS

SCORES = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=40)
ANSWERS = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=40)


def _columns(pairs: list[tuple[int, int]]) -> tuple[Numbers, Numbers]:
    table = np.array(pairs, dtype=np.float64).reshape(len(pairs), 2) / 8
    return table[:, 0], table[:, 1]


@settings(max_examples=40)
@given(SCORES)
def test_concordant_pairs_are_those_of_the_definition(pairs: list[tuple[int, int]]) -> None:
    truth, predicted = _columns(pairs)
    signs = (truth[:, None] - truth) * (predicted[:, None] - predicted)
    assert num_concordant(truth, predicted) == (signs > 0).sum() // 2
    assert num_ordered(truth) == (truth[:, None] != truth).sum() // 2


@settings(max_examples=40)
@given(SCORES)
def test_pairs_across_and_inside_of_levels_are_all_pairs(pairs: list[tuple[int, int]]) -> None:
    truth, predicted = _columns(pairs)
    levels = band_of(truth)
    inter, intra = pairwise_by_level(truth, predicted, levels)
    is_right = (truth[:, None] - truth) * (predicted[:, None] - predicted) > 0
    is_inside = levels[:, None] == levels
    assert inter.num_right == (is_right & ~is_inside).sum() // 2
    assert intra.num_right == (is_right & is_inside).sum() // 2
    assert inter.num_pairs + intra.num_pairs == num_ordered(truth)


@settings(max_examples=40)
@given(SCORES)
def test_correlations_are_those_of_scipy(pairs: list[tuple[int, int]]) -> None:
    truth, predicted = _columns(pairs)
    found = score_metrics(truth, predicted, band_of(truth))
    if len(set(truth)) < 2 or len(set(predicted)) < 2:
        assert found.spearman is None
        assert found.pearson is None
        return
    assert found.spearman == pytest.approx(stats.spearmanr(truth, predicted).statistic, abs=1e-9)
    assert found.pearson == pytest.approx(stats.pearsonr(truth, predicted).statistic, abs=1e-9)


@settings(max_examples=40)
@given(SCORES, st.integers(0, 2**32))
def test_a_weighted_spearman_is_that_of_pictures_that_are_repeated(pairs: list[tuple[int, int]], seed: int) -> None:
    truth, predicted = _columns(pairs)
    weights = np.random.default_rng(seed).integers(0, 4, (2, len(truth))).astype(np.float64)
    found = weighted_spearman(truth, predicted, weights)
    for draw, some in enumerate(weights.astype(int)):
        x, y = np.repeat(truth, some), np.repeat(predicted, some)
        if len(set(x)) < 2 or len(set(y)) < 2:
            assert np.isnan(found[draw])
        else:
            assert found[draw] == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-9)


def test_a_score_at_an_edge_belongs_to_the_more_severe_level_also_as_it_is_stored() -> None:
    edges = np.array([0.711, 0.514, 0.292, 0.0])
    assert band_of(edges).tolist() == [1, 2, 3, 4]
    assert band_of(edges.astype(np.float32).astype(np.float64)).tolist() == [1, 2, 3, 4]
    assert band_of(np.array([0.7109, 0.5139, 0.2919])).tolist() == [2, 3, 4]


def test_bias_is_predicted_less_true() -> None:
    found = score_metrics(np.array([0.2, 0.8]), np.array([0.1, 0.5]), np.array([4, 1]))
    assert found.bias == pytest.approx(-0.2)
    assert found.mae == pytest.approx(0.2)
    assert found.confusion == ((0, 0, 1, 0), (0, 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 1))


def test_without_pictures_no_metric_of_scores_is_defined() -> None:
    empty = np.zeros(0)
    found = score_metrics(empty, empty, np.zeros(0, dtype=np.int64))
    assert (found.num_pictures, found.spearman, found.pearson, found.mae, found.level_accuracy) == (0, *[None] * 4)
    assert found.pairwise_inter.accuracy is None


@settings(max_examples=40)
@given(ANSWERS)
def test_binary_metrics_are_those_of_their_definitions(pairs: list[tuple[bool, bool]]) -> None:
    truth, predicted = (np.array([pair[side] for pair in pairs], dtype=bool) for side in (0, 1))
    found = binary_metrics(truth, predicted)
    assert found.num_pictures == len(pairs)
    if len(set(truth)) < 2:
        assert found.mcc is None
        assert found.balanced_accuracy is None
    elif len(set(predicted)) < 2:
        assert found.mcc == 0
    else:
        assert found.mcc == pytest.approx(np.corrcoef(truth, predicted)[0, 1], abs=1e-9)  # φ is r of two flags
        assert found.balanced_accuracy == pytest.approx((predicted[truth].mean() + (~predicted)[~truth].mean()) / 2)
    assert (found.recall is None) == (not truth.any())
    assert (found.precision is None) == (not predicted.any())
    if found.precision and found.recall:
        assert found.f1 == pytest.approx(2 / (1 / found.precision + 1 / found.recall))


def test_kappa_and_the_metrics_over_both_sides_are_those_of_scikit_learn() -> None:
    generator = np.random.default_rng(0)
    truth = generator.random(200) < 0.3
    predicted = np.where(generator.random(200) < 0.7, truth, ~truth)
    counts = cells(truth, predicted).sum(axis=0)
    assert float(rates(counts)["kappa"]) == pytest.approx(metrics.cohen_kappa_score(truth, predicted))
    overall = classwise(counts).overall
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(truth, predicted, average="weighted")
    assert (overall.precision, overall.recall, overall.f1) == pytest.approx((precision, recall, f1))
    of_attributes = (generator.random((300, 22)) < 0.4).astype(np.float64)
    answers = np.where(generator.random((300, 22)) < 0.8, of_attributes, 1 - of_attributes)
    _, summary = attribute_metrics(of_attributes, answers)
    assert summary.macro_f1 == pytest.approx(metrics.f1_score(of_attributes, answers, average="macro"))


def test_names_of_pictures_are_no_classes() -> None:
    truth = np.ones(1001, dtype=bool)
    names = [f"{n}" for n in range(1001)]
    assert per_class(truth, truth, names) == ()
    assert len(per_class(truth[1:], truth[1:], names[1:])) == 1000


def test_a_side_without_pictures_has_no_weight_in_a_classwise_table() -> None:
    table = classwise(np.array([0, 0, 0, 5]))
    assert table.public.f1 == 1.0
    assert (table.private.f1, table.overall.f1, table.accuracy) == (None, 1.0, 1.0)


def test_a_classwise_table_has_no_overall_precision_if_one_side_was_never_answered() -> None:
    table = classwise(np.array([0, 0, 3, 5]))
    assert (table.private.precision, table.private.recall) == (None, 0.0)
    assert (table.overall.precision, table.overall.recall) == (None, 5 / 8)


def test_the_calibration_error_by_chance_is_that_of_probabilities_that_are_right() -> None:
    generator = np.random.default_rng(1)
    given = generator.random(150)
    few = [calibration(generator.random(150) < given, given) for _ in range(300)]
    errors, chances = zip(*((one.ece, one.ece_by_chance) for one in few if one is not None), strict=True)
    assert 0.05 < np.mean(errors) == pytest.approx(np.mean(chances), rel=0.05)
    assert calibration(np.zeros(0, dtype=bool), np.zeros(0)) is None


def _values(**columns: list[float]) -> Numbers:
    values = np.full((len(next(iter(columns.values()))), len(KEYS)), np.nan)
    for key, column in columns.items():
        values[:, KEYS.index(key)] = column
    return values


def test_attributes_count_half_as_absent_and_null_not_at_all() -> None:
    nan = np.nan
    truth = _values(age=[1, 1, 0.5, 0, nan], gender=[0, 0, 0, 0, 0], nudity=[1, 1, 0, 0, 0])
    answers = _values(age=[1, 0.5, 1, 0, 1], gender=[0, 0, 0, 0, 0], beliefs=[1, 1, 1, 1, 1])
    found, summary = attribute_metrics(truth, answers)
    assert set(found) == {"age", "gender", "nudity"}
    age = found["age"]
    assert (age.num_true_positive, age.num_false_positive, age.num_false_negative, age.num_true_negative) == (1,) * 4
    assert (age.f1, age.num_labelled, age.num_not_answered, age.coverage) == (0.5, 4, 0, 1.0)
    assert (found["nudity"].coverage, found["nudity"].num_not_answered, found["nudity"].recall) == (0.0, 5, None)
    assert (found["nudity"].num_present, found["nudity"].num_present_not_answered) == (2, 2)
    assert (age.num_present, age.num_present_not_answered) == (2, 0)
    assert found["gender"].f1 is None
    assert (summary.macro_f1, summary.num_in_macro, summary.without_f1) == (0.5, 1, ("nudity", "gender"))


def _apart(num: int) -> Draws:
    """No picture is a near duplicate of another."""
    return Draws(np.arange(num))


def test_mcnemar_is_the_binomial_test_of_scipy() -> None:
    for one, other in [(1, 0), (3, 9), (40, 60), (0, 2000), (5000, 5200), (100_000, 100_500)]:
        first = np.r_[np.ones(one, dtype=bool), np.zeros(other, dtype=bool)]
        found = mcnemar(first, ~first)
        assert (found.num_only_after_right, found.num_only_before_right) == (one, other)
        assert found.p_value == pytest.approx(stats.binomtest(one, one + other).pvalue, rel=1e-6)


def test_runs_that_are_right_in_the_same_pictures_are_not_tested() -> None:
    right = np.arange(9) < 5
    assert mcnemar(right, right).p_value is None


def test_a_gain_is_positive_and_no_paired_interval_is_without_width() -> None:
    truth = np.tile([True, False, False, True], 25)
    answers = np.tile([True, False, True, False], 25)
    same = difference("mcc", truth, answers, answers, _apart(100))
    assert same.difference == 0
    assert same.interval is not None
    assert same.interval.low < 0 < same.interval.high
    better = difference("mcc", truth, truth, answers, _apart(100))
    assert (better.after, better.before) == (1, 0)
    assert better.difference == pytest.approx(1.0)
    assert better.interval is not None
    assert better.interval.low > 0.7


def test_shares_and_f1_have_the_exact_interval_of_scipy() -> None:
    truth, answers = np.arange(38) < 22, np.arange(38) < 23  # 22 hits, 1 false alarm, 15 right public ones
    found = of_private(cells(truth, answers), _apart(38))
    for name, num, total in (("recall", 22, 22), ("precision", 22, 23), ("specificity", 15, 16), ("accuracy", 37, 38)):
        expected = stats.binomtest(num, total).proportion_ci(0.95, "exact")
        assert (found[name].low, found[name].high) == pytest.approx((expected.low, expected.high), abs=1e-9)
        assert found[name].is_few
    share = stats.binomtest(22, 23).proportion_ci(0.95, "exact")
    assert (found["f1"].low, found["f1"].high) == pytest.approx(
        (2 * share.low / (1 + share.low), 2 * share.high / (1 + share.high))
    )


def test_scores_without_an_error_have_intervals_with_width() -> None:
    scores = np.linspace(0, 1, 40)
    found = of_scores(scores, scores, np.ones(40, dtype=bool), _apart(40))
    assert (found["spearman"].high, found["pearson"].high, found["mae"].low) == pytest.approx((1, 1, 0))
    assert all(one.low < one.high for one in found.values())
    constant = of_scores(scores, np.full(40, 0.5), np.ones(40, dtype=bool), _apart(40))
    assert set(constant) == {"mae", "bias", "level_accuracy"}
    assert of_scores(scores[:0], scores[:0], np.zeros(0, dtype=bool), _apart(0)) == {}


def test_copies_of_a_picture_do_not_make_an_interval_narrower() -> None:
    once = np.arange(60) < 30
    single, honest = (of_share(once, _apart(60)), of_share(np.repeat(once, 10), Draws(np.repeat(np.arange(60), 10))))
    naive = of_share(np.repeat(once, 10), _apart(600))
    assert single is not None
    assert naive is not None
    assert honest == single
    assert naive.high - naive.low < (single.high - single.low) / 2
    truth = np.arange(60) % 3 == 0
    mcc, with_copies = (
        of_private(cells(np.repeat(truth, num), np.repeat(once, num)), Draws(np.repeat(np.arange(60), num)))
        for num in (1, 10)
    )
    assert (mcc["mcc"].low, mcc["mcc"].high) == pytest.approx((with_copies["mcc"].low, with_copies["mcc"].high))
