"""The promise of an audit sample holds for pictures, however many copies they have."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from reports.statistics.shares import Numbers, Row, bound_of, evenly_taken, lot_of

NUM_DRAWS = 1000
RECALL, CONFIDENCE = 0.95, 0.9


def private_pictures(generator: np.random.Generator, num: int) -> Numbers:
    """Scores. A tenth are pictures that the model hardly sees; many scores are equal."""
    hard = num // 10
    return np.round(np.concatenate([generator.beta(5, 2, num - hard), generator.beta(1, 8, hard)]), 2)


def is_broken(scores: Numbers, labelled: Numbers) -> bool:
    """Whether the threshold that the labelled pictures give misses more of all private pictures than it says."""
    bound = bound_of(labelled, RECALL, CONFIDENCE)
    assert bound is not None
    return bool((scores >= bound.threshold).mean() < RECALL)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_pictures", "num_copied", "num_copies", "score_of_copied", "rows_break_it"),
    [
        (1_500, 3, 500, 0.95, True),  # half of the private rows are copies of three pictures that the model sees
        (1_500, 40, 40, 0.05, False),  # copies of pictures that it does not see
    ],
)
def test_the_promise_holds_for_pictures_whatever_copies_they_have(
    num_pictures: int, num_copied: int, num_copies: int, score_of_copied: float, rows_break_it: bool
) -> None:
    generator = np.random.default_rng(num_pictures)
    scores = np.concatenate([private_pictures(generator, num_pictures), np.full(num_copied, score_of_copied)])
    picture_of = np.concatenate(
        [np.arange(num_pictures), np.repeat(num_pictures + np.arange(num_copied), num_copies)]
    ).astype(np.int64)
    rows: list[Row] = [("0.tar", int(index)) for index in generator.permutation(len(picture_of))]
    least = 0.05
    probabilities = np.where(np.abs(scores[picture_of] - 0.4) < 0.15, 0.3, least)
    all_rows: dict[str, list[Row]] = {}
    for picture, row in zip(picture_of.tolist(), rows, strict=True):
        all_rows.setdefault(str(picture), []).append(row)
    by_pictures = by_rows = 0
    for seed in range(NUM_DRAWS):
        drawn = np.flatnonzero(generator.random(len(rows)) < probabilities)
        known: Mapping[Row, float] = {rows[place]: float(probabilities[place]) for place in drawn}
        rows_of: Mapping[str, Sequence[Row]] = {
            str(picture): all_rows[str(picture)] for picture in np.unique(picture_of[drawn])
        }
        taken = [int(picture) for picture in evenly_taken(rows_of, known, least, seed)]
        by_pictures += is_broken(scores, scores[taken])
        left = generator.random(len(drawn)) * probabilities[drawn] < least
        by_rows += is_broken(scores, scores[picture_of[drawn][left]])
    assert by_pictures <= (1 - CONFIDENCE) * NUM_DRAWS
    # So the simulation can tell a promise that is kept from one that is not.
    assert (by_rows > 2 * (1 - CONFIDENCE) * NUM_DRAWS) is rows_break_it


def test_a_picture_is_taken_by_the_first_of_its_rows_alone() -> None:
    rows_of = {"first": [("b", 0), ("a", 7)], "other": [("a", 3), ("b", 1)], "never": [("a", 0)]}
    drawn = {("a", 7): 1.0, ("b", 1): 1.0}  # of "other" only the second row
    assert evenly_taken(rows_of, drawn, 1.0, 0) == ["first"]
    assert evenly_taken(rows_of, {}, 1.0, 0) == []


def test_lots_are_even_and_differ_by_seed_shard_and_index() -> None:
    lots = np.array([lot_of(seed, shard, index) for seed in (0, 1) for shard in "ab" for index in range(2_500)])
    assert len(np.unique(lots)) == 10_000
    assert np.histogram(lots, 10, (0, 1))[0] == pytest.approx(1_000, abs=110)
    assert abs(np.corrcoef(lots[:5_000], lots[5_000:])[0, 1]) < 0.05
