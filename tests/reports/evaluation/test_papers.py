"""The tables of the papers, recomputed. Only rows that agree with themselves: several printed rows do not.

Left out: of Samson et al., Table 15, GPT-4, ShareGPT and InternVL (misprints); of PrivacyAlert, what is wrong in
the row of PCNH.
"""

import numpy as np
import pytest

from reports.evaluation.metrics import score_metrics
from reports.statistics.binary import Numbers, classwise, of_counts, per_class, rates
from tests.papers.test_scripts import script

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

# VISPR and PrivacyAlert, columns as above. Left out are the rows of which a printed figure contradicts the others: of
# Table 16 Otter's MCC (−.14; its sign is a misprint) and InternVL2.5-2B's precision (.91; a recall of .04 has too few
# digits). Of Table 17 these nine rows are at hand.
SHARE_PRIVATE = {"Table 16": 0.63, "Table 17": 0.24}
"""Shares of private pictures that fit the rows; none is printed."""

TABLES_16_AND_17 = {
    ("Table 16", "Fuyu"): (0.00, 0.50, 0.75, 0.94, 0.64, 0.06),
    ("Table 16", "BLIP"): (0.16, 0.55, 0.27, 0.16, 0.84, 0.95),
    ("Table 16", "GPT-4"): (0.16, 0.54, 0.15, 0.08, 0.94, 0.99),
    ("Table 16", "ShareGPT-4V"): (0.23, 0.58, 0.31, 0.19, 0.92, 0.97),
    ("Table 16", "CogVLM"): (0.18, 0.58, 0.42, 0.28, 0.79, 0.87),
    ("Table 16", "CoAgent"): (0.19, 0.60, 0.56, 0.46, 0.74, 0.74),
    ("Table 16", "LLaVA"): (0.22, 0.58, 0.31, 0.19, 0.89, 0.96),
    ("Table 16", "MoE-LLaVA"): (0.16, 0.56, 0.37, 0.25, 0.78, 0.88),
    ("Table 16", "TinyLLaVA"): (0.19, 0.57, 0.30, 0.18, 0.86, 0.95),
    ("Table 16", "InternVL2.5-4B"): (0.24, 0.59, 0.34, 0.21, 0.90, 0.96),
    ("Table 16", "tuned TinyLLaVA"): (0.35, 0.67, 0.63, 0.50, 0.85, 0.85),
    ("Table 16", "tuned InternVL2.5-2B"): (0.25, 0.60, 0.39, 0.25, 0.89, 0.95),
    ("Table 16", "tuned InternVL2.5-4B"): (0.39, 0.70, 0.68, 0.56, 0.85, 0.84),
    ("Table 17", "Otter"): (-0.03, 0.48, 0.37, 0.83, 0.23, 0.14),
    ("Table 17", "ShareGPT-4V"): (0.47, 0.70, 0.56, 0.47, 0.70, 0.94),
    ("Table 17", "CogVLM"): (0.14, 0.57, 0.32, 0.29, 0.37, 0.84),
    ("Table 17", "LLaVA"): (0.51, 0.71, 0.58, 0.47, 0.76, 0.95),
    ("Table 17", "MoE-LLaVA"): (0.35, 0.67, 0.50, 0.47, 0.52, 0.86),
    ("Table 17", "TinyLLaVA"): (0.31, 0.59, 0.33, 0.22, 0.70, 0.97),
    ("Table 17", "tuned TinyLLaVA"): (0.50, 0.78, 0.63, 0.76, 0.54, 0.79),
    ("Table 17", "tuned InternVL2.5-2B"): (0.37, 0.67, 0.50, 0.45, 0.56, 0.89),
    ("Table 17", "tuned InternVL2.5-4B"): (0.46, 0.77, 0.59, 0.90, 0.44, 0.63),
}

# name: precision, recall and F1 of private, the same of public, accuracy; as printed, in thousandths (accuracy in
# ten-thousandths). 450 private and 1,350 public pictures.
PRIVACY_ALERT = {
    "object, SVM": (583, 680, 628, 887, 838, 862, 7983),
    "object": (726, 667, 694, 892, 916, 904, 8539),
    "scene, SVM": (639, 644, 642, 881, 879, 880, 8200),
    "scene": (699, 613, 653, 876, 912, 894, 8370),
    "tags of a CNN": (671, 703, 688, 900, 884, 892, 8394),
    "BERT, SVM": (569, 649, 606, 877, 836, 856, 7894),
    "BERT, user tags": (700, 684, 692, 896, 902, 899, 8478),
    "BERT, deep tags": (728, 638, 680, 884, 921, 902, 8500),
    "BERT, both": (746, 704, 725, 903, 920, 912, 8661),
    "Concat": (626, 716, 668, 900, 858, 879, 8222),
    "DMFP": (666, 656, 661, 886, 890, 888, 8317),
    "ViLBERT": (658, 697, 677, 897, 879, 888, 8337),
    "gated": (779, 722, 750, 910, 932, 921, 8794),
    "PicAlert gated": (565, 622, 592, 870, 840, 855, 7856),
    "PicAlert object": (510, 707, 592, 888, 773, 827, 7567),
    "PicAlert scene": (535, 624, 576, 867, 819, 843, 7706),
    "PicAlert tags": (526, 668, 587, 879, 800, 837, 7668),
    "gated, AUM": (796, 711, 751, 907, 939, 923, 8822),
    "object, AUM": (744, 711, 727, 905, 919, 912, 8667),
    "scene, AUM": (682, 662, 672, 888, 897, 893, 8380),
    "tags, AUM": (759, 716, 737, 907, 924, 916, 8722),
}
PCNH = (706, 511, 593, 851, 929, 888, 8317)
"""Its accuracy, and its overall precision, recall and F1, are those of DMFP; the true ones follow from its recalls."""

MCC_COMPUTED = {"gated": 0.671, "gated, AUM": 0.676, "BERT, both": 0.636, "object": 0.600}
"""Not printed: from the two recalls, by hand."""

# name: pictures of 20 that were found, by class, and public pictures of 160 that were called private; MCC of all.
HITS = {
    "ShareGPT-4V": ((18, 3, 20, 2, 20, 20, 6, 11), 0, 0.67),  # a recall of .625; Table 15 prints .43
    "TinyLLaVA": ((14, 1, 13, 1, 15, 20, 15, 5), 0, 0.60),
    "InternVL2.5-4B": ((19, 2, 15, 13, 19, 20, 13, 3), 0, 0.69),
    "tuned TinyLLaVA": ((20, 15, 20, 13, 20, 20, 20, 15), 5, 0.86),
    "tuned InternVL2.5-2B": ((18, 8, 9, 15, 18, 20, 16, 6), 7, 0.67),
    "tuned InternVL2.5-4B": ((20, 19, 20, 20, 19, 20, 19, 20), 13, 0.90),
}
CLASSES = ("card", "face", "fingerprint", "plate", "nudity", "passport", "chat", "tattoo")


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


@pytest.mark.parametrize("name", TABLES_16_AND_17)
def test_tables_16_and_17_of_privacy_aware_vlms(name: tuple[str, str]) -> None:
    mcc, balanced, f1, recall, precision, specificity = TABLES_16_AND_17[name]
    share = SHARE_PRIVATE[name[0]]
    found = rates(counts(recall, specificity, 1, 1) * np.array([share, 1 - share, share, 1 - share]))
    printed = {"mcc": mcc, "balanced_accuracy": balanced, "f1": f1, "precision": precision}
    for metric, value in printed.items():
        assert float(found[metric]) == pytest.approx(value, abs=0.02), metric


@pytest.mark.parametrize("name", PRIVACY_ALERT)
def test_the_tables_of_privacy_alert(name: str) -> None:
    """Tables 3, 4, 5 and 7: every column follows from the two recalls, which have three digits."""
    *printed, accuracy = PRIVACY_ALERT[name]
    recall, specificity = printed[1] / 1000, printed[4] / 1000
    table = classwise(counts(recall, specificity, 450, 1350))
    assert (table.private.support, table.public.support) == (450, 1350)
    found = [figure for side in (table.private, table.public) for figure in (side.precision, side.recall, side.f1)]
    assert found == pytest.approx([number / 1000 for number in printed], abs=0.0025)
    assert table.accuracy == pytest.approx(accuracy / 10_000, abs=0.0025)
    assert table.overall.recall == pytest.approx(table.accuracy)  # weighted by support, it is the accuracy
    if name in MCC_COMPUTED:
        mcc = rates(counts(recall, specificity, 450, 1350))["mcc"]
        assert float(mcc) == pytest.approx(MCC_COMPUTED[name], abs=0.001)


def test_the_row_of_pcnh_has_the_overall_figures_of_another() -> None:
    table = classwise(counts(PCNH[1] / 1000, PCNH[4] / 1000, 450, 1350))
    assert table.private.precision == pytest.approx(PCNH[0] / 1000, abs=0.0025)
    assert table.public.f1 == pytest.approx(PCNH[5] / 1000, abs=0.0025)
    assert table.accuracy == pytest.approx(0.8245, abs=0.001)
    assert table.accuracy != pytest.approx(PCNH[6] / 10_000, abs=0.005)
    overall = (table.overall.precision, table.overall.recall, table.overall.f1)
    assert overall == pytest.approx((0.814, 0.825, 0.814), abs=0.001)


@pytest.mark.parametrize("name", HITS)
def test_a_class_against_all_public_pictures(name: str) -> None:
    """Samson et al., Table 3: 20 pictures of a class against all 160 public ones, from the counts behind it."""
    hits, num_false, mcc_of_all = HITS[name]
    truth = np.repeat([True, False], NUM)
    found = [number < num for num in hits for number in range(20)]
    predicted = np.array([*found, *(number < num_false for number in range(NUM))])
    names = [class_ for class_ in CLASSES for _ in range(20)] + [None] * NUM
    whole = rates(np.array([sum(hits), num_false, NUM - sum(hits), NUM - num_false]))["mcc"]
    assert float(whole) == pytest.approx(mcc_of_all, abs=0.006)
    by_name = {row.name: row for row in per_class(truth, predicted, names)}
    for class_, num in zip(CLASSES, hits, strict=True):
        row = by_name[class_]
        assert (row.num_pictures, row.recall) == (20, num / 20)
        by_hand = rates(np.array([num, num_false, 20 - num, NUM - num_false]))["mcc"]
        assert row.mcc == pytest.approx(float(by_hand))
        if num == 20:
            expected = np.sqrt(20 / (20 + num_false) * (NUM - num_false) / NUM)  # precision × specificity
            assert row.mcc == pytest.approx(expected)


def test_precision_of_the_gated_model_of_privacy_alert() -> None:
    table = classwise(counts(0.722, 0.932, 450, 1350))
    assert table.private.precision == pytest.approx(0.779, abs=0.001)
    assert table.public.precision == pytest.approx(1258.2 / (1258.2 + 125.1), abs=1e-6)


def test_figure_7_comes_from_parts_drawn_without_replacement() -> None:
    whole = of_counts(np.array([157, 13, 3, 147]))  # recall .98, specificity .92
    half, most = (script("wordings").mccs_of_parts(whole, share, 4000) for share in (0.5, 0.9))
    assert 0.0215 <= half.std() <= 0.0245  # 0.033 with replacement
    assert 0.0070 <= most.std() <= 0.0084
    assert half.mean() == pytest.approx(0.902, abs=0.002)
    one_class = of_counts(np.array([10, 0, 0, 0]))
    assert len(script("wordings").mccs_of_parts(one_class, 0.5)) == 0


def test_the_class_that_was_left_out_has_an_mcc_of_its_own() -> None:
    """F1 .18 of the licence plates is 2 of 20; .79 is the MCC of all pictures."""
    truth = np.repeat([True, False], NUM)
    predicted = truth.copy()
    predicted[2:20] = False
    names = ["plate"] * 20 + ["card"] * 140 + [None] * NUM
    card, plate = per_class(truth, predicted, names)
    assert (plate.name, plate.num_pictures, plate.recall) == ("plate", 20, 0.1)
    assert plate.f1 == pytest.approx(0.18, abs=0.002)
    assert plate.mcc == pytest.approx((0.1 * NUM / (NUM + 18)) ** 0.5)
    assert (card.num_pictures, card.mcc) == (140, 1.0)


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
    spread = script("wordings").spread
    assert spread([0.90, 0.85, 0.88, 0.91]) == "mean 0.885, sd 0.026"
    assert spread([0.59, 0.30, 0.40, 0.65]) == "mean 0.485, sd 0.163"  # .16 as Table 12 prints it
    assert (spread([0.5]), spread([])) == ("mean 0.500, sd –", "mean –, sd –")
