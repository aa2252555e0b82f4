"""The tables of the papers, recomputed. Only rows that agree with themselves: several printed rows do not.

Left out: of Samson et al., Table 15, GPT-4, ShareGPT and InternVL (misprints); of PrivacyAlert, the accuracy of PCNH.
"""

import numpy as np
import pytest

from reports.evaluation.severity import score_metrics
from reports.statistics.binary import Numbers, rates
from reports.statistics.classes import classwise, per_class
from reports.statistics.stability import spread, stability

NUM = 160
"""Pictures of each side in PrivBench and PrivBench-H."""

# name, benchmark: MCC, balanced accuracy, F1, recall, precision, specificity as printed.
TABLE_15 = {
    "Otter": ((0.29, 0.61, 0.70, 0.93, 0.57, 0.29), (0.09, 0.53, 0.67, 0.93, 0.51, 0.13)),
    "Fuyu": ((0.09, 0.54, 0.64, 0.83, 0.52, 0.24), (-0.02, 0.49, 0.62, 0.83, 0.49, 0.15)),
    "BLIP": ((0.19, 0.59, 0.54, 0.47, 0.62, 0.71), (0.08, 0.54, 0.51, 0.47, 0.55, 0.61)),
    "CogVLM": ((0.64, 0.82, 0.80, 0.73, 0.88, 0.90), (0.33, 0.67, 0.69, 0.73, 0.65, 0.60)),
    "LLaVA": ((0.69, 0.82, 0.79, 0.65, 1.0, 1.0), (0.42, 0.71, 0.69, 0.65, 0.74, 0.77)),
    "CoAgent": ((0.72, 0.86, 0.86, 0.85, 0.87, 0.87), (0.33, 0.65, 0.71, 0.85, 0.61, 0.46)),
    "MoE-LLaVA": ((0.72, 0.85, 0.84, 0.74, 0.95, 0.96), (0.40, 0.70, 0.71, 0.76, 0.68, 0.64)),
    "TinyLLaVA": ((0.60, 0.77, 0.69, 0.53, 1.0, 1.0), (0.43, 0.70, 0.64, 0.53, 0.82, 0.88)),
    "tuned TinyLLaVA": ((0.86, 0.93, 0.93, 0.89, 0.97, 0.97), (0.53, 0.75, 0.78, 0.89, 0.70, 0.61)),
    "tuned InternVL2.5-4B": ((0.90, 0.95, 0.95, 0.98, 0.92, 0.92), (0.50, 0.72, 0.78, 0.97, 0.65, 0.47)),
}

# name: recall of private, recall of public, accuracy as printed; 450 private and 1,350 public pictures.
PRIVACY_ALERT = {
    "gated": (0.722, 0.932, 0.8794),
    "gated, AUM": (0.711, 0.939, 0.8822),
    "object": (0.667, 0.916, 0.8539),
    "object, AUM": (0.711, 0.919, 0.8667),
    "scene": (0.613, 0.912, 0.8370),
    "scene, AUM": (0.662, 0.897, 0.8380),
    "tags": (0.704, 0.920, 0.8661),
    "tags, AUM": (0.716, 0.924, 0.8722),
    "PicAlert gated": (0.622, 0.840, 0.7856),
    "PicAlert object": (0.707, 0.773, 0.7567),
    "PicAlert scene": (0.624, 0.819, 0.7706),
    "PicAlert tags": (0.668, 0.800, 0.7668),
    "Concat": (0.716, 0.858, 0.8222),
    "DMFP": (0.656, 0.890, 0.8317),
    "ViLBERT": (0.697, 0.879, 0.8337),
}
F1_PRIVATE = {"gated": 0.750, "object": 0.694, "scene": 0.653, "tags": 0.725, "PicAlert gated": 0.592}
MCC_COMPUTED = {"gated": 0.671, "gated, AUM": 0.676, "tags": 0.636, "object": 0.600}
"""Not printed: from the two recalls, by hand."""


def counts(recall: float, specificity: float, num_private: int, num_public: int) -> Numbers:
    tp, tn = recall * num_private, specificity * num_public
    return np.array([tp, num_public - tn, num_private - tp, tn])


@pytest.mark.parametrize("name", TABLE_15)
@pytest.mark.parametrize("benchmark", [0, 1])
def test_table_15_of_privacy_aware_vlms(name: str, benchmark: int) -> None:
    mcc, balanced, f1, recall, precision, specificity = TABLE_15[name][benchmark]
    found = rates(counts(recall, specificity, NUM, NUM))
    printed = {"mcc": mcc, "balanced_accuracy": balanced, "f1": f1, "precision": precision}
    for metric, value in printed.items():
        assert float(found[metric]) == pytest.approx(value, abs=0.015), metric


@pytest.mark.parametrize("name", PRIVACY_ALERT)
def test_the_tables_of_privacy_alert(name: str) -> None:
    recall, specificity, accuracy = PRIVACY_ALERT[name]
    table = classwise(counts(recall, specificity, 450, 1350))
    assert table.overall.recall == pytest.approx(accuracy, abs=0.001)  # weighted by support, it is the accuracy
    assert table.private.support == 450
    assert table.public.support == 1350
    if name in F1_PRIVATE:
        assert table.private.f1 == pytest.approx(F1_PRIVATE[name], abs=0.0015)  # recalls have three digits
    if name in MCC_COMPUTED:
        found = rates(counts(recall, specificity, 450, 1350))
        assert float(found["mcc"]) == pytest.approx(MCC_COMPUTED[name], abs=0.001)


def test_precision_of_the_gated_model_of_privacy_alert() -> None:
    table = classwise(counts(0.722, 0.932, 450, 1350))
    assert table.private.precision == pytest.approx(0.779, abs=0.001)
    assert table.public.precision == pytest.approx(1258.2 / (1258.2 + 125.1), abs=1e-6)


def test_figure_7_comes_from_parts_drawn_without_replacement() -> None:
    whole = np.array([157, 13, 3, 147])  # recall .98, specificity .92
    half, most = stability(whole, 0.5, 4000), stability(whole, 0.9, 4000)
    assert half is not None
    assert most is not None
    assert 0.0215 <= half.mcc_sd <= 0.0245  # 0.033 with replacement
    assert 0.0070 <= most.mcc_sd <= 0.0084
    assert half.mcc_mean == pytest.approx(0.902, abs=0.002)
    assert half.num_splits == 4000


def test_the_class_that_was_left_out_has_an_mcc_of_its_own() -> None:
    """F1 .18 of the licence plates is 2 of 20; then the MCC of the class is .229, and .79 is that of all pictures."""
    truth = np.repeat([True, False], NUM)
    predicted = truth.copy()
    predicted[2:20] = False
    names = ["plate"] * 20 + ["card"] * 140 + [None] * NUM
    card, plate = per_class(truth, predicted, names)
    assert (plate.name, plate.num_pictures, plate.num_batches) == ("plate", 20, 8)
    assert plate.recall == pytest.approx(0.1)
    assert plate.f1 == pytest.approx(0.18, abs=0.002)
    assert plate.mcc == pytest.approx(0.229, abs=0.001)
    assert (card.num_pictures, card.num_batches, card.mcc) == (140, 1, 1.0)


def test_table_1_of_rethinking_visual_privacy() -> None:
    """The levels of the 6,736 pictures of its test set; those without an attribute are among level 4."""
    levels = np.repeat([1, 2, 3, 4, 0], [2860, 1025, 1363, 1000, 488])
    lowest = np.array([0.0, 0.711, 0.514, 0.292, 0.0])
    found = score_metrics(lowest[levels], lowest[levels], levels)
    assert [sum(row) for row in found.confusion] == [2860, 1025, 1363, 1488]
    assert [round(100 * sum(row) / 6736, 1) for row in found.confusion] == [42.5, 15.2, 20.2, 22.1]
    assert found.level_accuracy == 1.0
    expected = (6736**2 - 2860**2 - 1025**2 - 1363**2 - 1488**2) // 2
    assert found.pairwise_inter.num_pairs == found.pairwise_inter.num_right == expected
    assert (found.pairwise_intra.num_pairs, found.pairwise_intra.accuracy) == (0, None)


def test_the_spread_over_prompts_is_that_of_a_sample() -> None:
    tuned = spread([0.90, 0.85, 0.88, 0.91])
    assert tuned.mean == pytest.approx(0.885)
    assert tuned.sd == pytest.approx(0.0265, abs=0.0001)
    cogvlm = spread([0.59, 0.30, 0.40, 0.65])
    assert cogvlm.sd == pytest.approx(0.16, abs=0.005)  # as Table 12 prints it
    assert spread([0.5, None]).sd is None
    assert spread([None]).mean is None
