"""What labels of an audit say, and what they leave open."""

import numpy as np
import pyarrow as pa
import pytest

from ingest.errors import LabelsError
from reports.audit.fitting import LabelledSample, labelled
from scoring.labels.table import as_judged, to_labels
from scoring.privacy import BY_LEVEL
from scoring.taxonomy import ATTRIBUTES, KEYS

HASHES = [f"{n:064x}" for n in range(3)]
ROWS = pa.table({"shard": ["a.tar"] * 3, "name": ["x", "y", "z"], "sha256": HASHES})
DECISIVE = [a.key for a in ATTRIBUTES if a.level in (1, 2)]


def found_in(condition: str, /, **columns: list[float | None]) -> LabelledSample:
    labels = to_labels({"sha256": HASHES, "annotator": ["a"] * 3, **columns}, 3)
    return labelled(ROWS, as_judged(labels), condition)


def test_attributes_make_a_picture_public_only_if_all_that_count_were_looked_for() -> None:
    looked_for = {key: [0.0, 0.0, None] for key in DECISIVE}
    found = found_in(BY_LEVEL, **(looked_for | {"biometrics": [1.0, 0.0, 0.0]}))
    np.testing.assert_array_equal(found.truth["private"], [1, 0, np.nan])
    np.testing.assert_array_equal(found.truth["biometrics"], [1, 0, 0])
    assert np.isnan(found.truth["age"]).all()
    assert (found.counts.num_labelled, found.counts.num_empty) == (3, 0)


def test_with_another_meaning_of_private_only_the_column_private_counts() -> None:
    everything: dict[str, list[float | None]] = {key: [1.0, 1.0, 0.0] for key in KEYS}
    found = found_in("level = 1", private=[None, 0.0, None], **everything)
    np.testing.assert_array_equal(found.truth["private"], [np.nan, 0, np.nan])


def test_unclear_labels_count_as_absent() -> None:
    found = found_in(BY_LEVEL, age=[0.5, 1.0, None])
    np.testing.assert_array_equal(found.truth["age"], [0, 1, np.nan])
    assert (found.counts.num_labelled, found.counts.num_empty) == (2, 1)


def test_labels_of_other_pictures_alone_are_refused() -> None:
    strangers = to_labels({"sha256": ["f" * 64], "annotator": ["a"], "private": [1]}, 1)
    with pytest.raises(LabelsError, match="no label is of a picture of the audit sample"):
        labelled(ROWS, as_judged(strangers), BY_LEVEL)


def test_two_people_who_name_a_picture_in_two_ways_judged_the_same_one() -> None:
    names = {"sha256": [HASHES[0], None], "key": [None, "x"]}
    labels = to_labels(names | {"annotator": ["ana", "ben"], "private": [1, 0]}, 2)
    found = labelled(ROWS, as_judged(labels), BY_LEVEL)
    assert found.undecided["private"].tolist() == [True]
    assert (found.num_yes["private"].tolist(), found.num_no["private"].tolist()) == ([1], [1])


def test_a_label_by_key_counts_for_the_copies_of_its_picture() -> None:
    copies = pa.table({"shard": ["a.tar"] * 3, "name": ["x", "y", "z"], "sha256": [HASHES[0], HASHES[0], HASHES[1]]})
    labels = to_labels({"key": ["x", "z"], "annotator": ["ana"] * 2, "private": [1, 0]}, 2)
    found = labelled(copies, as_judged(labels), BY_LEVEL)
    assert (found.places.tolist(), found.truth["private"].tolist()) == ([0, 1, 2], [1, 1, 0])


def test_a_picture_left_out_in_the_middle_of_the_list_is_undecided_and_one_at_its_end_is_not() -> None:
    labels = to_labels({"sha256": HASHES, "annotator": ["ana"] * 3, "private": [None, 1, None]}, 3)
    found = labelled(ROWS, as_judged(labels), BY_LEVEL)
    assert found.undecided["private"].tolist() == [True, False, False]
    assert (found.counts.num_undecided, found.counts.num_empty) == (1, 1)
