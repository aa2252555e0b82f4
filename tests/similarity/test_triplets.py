"""Which files of a labelled folder make triplets."""

import pytest

from ingest.errors import LabelsError
from scoring.similarity.triplets import LabelledOriginal, labelled_versions


def test_own_unrecognised_versions_come_before_those_of_the_class_and_those_before_others() -> None:
    paths = [
        *("dog/1_dog_ori", "dog/1_dog_rec", "dog/1_dog_rec-blur", "-dog/1_dog_rec"),
        *("dog/2_dog_ori", "dog/2_dog_rec", "cat/3_cat_ori", "cat/3_cat_rec", "others/x"),
        *("dog/4_dog_ori", "dog/5_dog_rec", "dog/readme"),
    ]
    originals, num_unused = labelled_versions(paths)
    assert originals == (
        LabelledOriginal("dog/1_dog_ori", ("dog/1_dog_rec", "dog/1_dog_rec-blur"), ("-dog/1_dog_rec",)),
        LabelledOriginal("dog/2_dog_ori", ("dog/2_dog_rec",), ("-dog/1_dog_rec",)),
        LabelledOriginal("cat/3_cat_ori", ("cat/3_cat_rec",), ("others/x",)),
    )
    assert num_unused == 3


def test_without_unrecognised_versions_there_is_no_triplet() -> None:
    with pytest.raises(LabelsError, match="no original has versions of both kinds"):
        labelled_versions(["dog/1_dog_ori", "dog/1_dog_rec"])
