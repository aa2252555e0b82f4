"""Which label is of which picture: by hash, by key, or by shard/key."""

from collections.abc import Sequence

import pyarrow as pa
import pytest

from ingest.errors import LabelsError
from scoring.labels.picture_index import PictureIndex, are_named, hashes_by_name, shared_keys

A, B = "a" * 64, "b" * 64


def index(names: Sequence[tuple[str | None, str | None]], **how: object) -> PictureIndex:
    """names: sha256 and key of each label."""
    made = PictureIndex("labels.csv", **how)  # type: ignore[arg-type]
    for row, (sha256, key) in enumerate(names):
        assert made.add(row, sha256, key)
    return made


def test_the_hash_comes_before_the_name_and_the_full_name_before_the_key() -> None:
    labels = index([(A, None), (None, "x.jpg"), (None, "two/x.jpg")])
    assert labels.row_of("two", "x.jpg", A) == 0
    assert labels.row_of("two", "x.jpg", B) == 2
    assert labels.row_of("one", "x.jpg", B) == 1
    assert labels.row_of("one", "y.jpg", B) is None
    assert labels.used == {0, 1, 2}


def test_a_picture_without_bytes_is_joined_by_the_key_of_a_label_with_a_hash() -> None:
    names = [(A, "x.jpg"), (B, "y.jpg"), ("c" * 64, "y.jpg")]
    labels = index(names, has_unreadable=True)
    assert labels.row_of("one", "x.jpg", None) == 0
    assert labels.row_of("one", "y.jpg", None) is None, "two labels have this key"
    assert labels.row_of("one", "x.jpg", B) == 1, "a picture with bytes is joined by its hash alone"
    assert labels.row_of("one", "x.jpg", "d" * 64) is None
    assert index(names).row_of("one", "x.jpg", None) is None


def test_a_key_of_several_pictures_names_none_where_all_pictures_are_known() -> None:
    keys = shared_keys(["x.jpg", "x.jpg", "y.jpg", "y.jpg", "z.jpg", "z.jpg"], [A, B, A, A, None, A])
    assert keys == {"x.jpg", "z.jpg"}, "two copies of one picture may have one name"
    labels = index([(None, "x.jpg"), (None, "two/x.jpg")], shared_keys=keys)
    assert labels.row_of("one", "x.jpg", A) is None
    assert labels.is_ambiguous("x.jpg", A)
    assert labels.row_of("two", "x.jpg", B) == 1


def test_a_key_of_several_pictures_is_refused_where_they_come_one_after_another() -> None:
    labels = index([(None, "x.jpg")])
    assert labels.row_of("one", "x.jpg", A) == 0
    assert labels.row_of("two", "x.jpg", A) == 0, "a copy"
    with pytest.raises(LabelsError, match=r'labels.csv: two different pictures have the key "x.jpg"; name them by'):
        labels.row_of("two", "x.jpg", B)


def test_two_annotators_of_a_picture_are_refused_and_one_who_names_it_twice_is_not() -> None:
    names = [(A, None), (None, "x.jpg")]
    assert index(names, annotator_of=["ann", "ann"].__getitem__).row_of("one", "x.jpg", A) == 0
    with pytest.raises(
        LabelsError, match=r"x.jpg has labels of several annotators, one by sha256 and one by key alone"
    ):
        index(names, annotator_of=["ann", "bob"].__getitem__).row_of("one", "x.jpg", A)
    with pytest.raises(LabelsError, match=rf"labels.csv: {A} has labels of .* privsieve labels consensus labels.csv"):
        PictureIndex("labels.csv").add_labels(pa.table({"sha256": [A, A], "key": ["x", "y"]}))


def test_a_name_gives_a_hash_if_only_one_picture_has_it() -> None:
    names = [("x", A), ("x", A), ("y", A), ("y", B), ("z", None), ("z", A), (None, B)]
    assert hashes_by_name(names) == {"x": A}


def test_rows_that_a_label_may_be_of_are_named_in_any_way() -> None:
    rows = pa.table({"shard": ["1", "1", "2", "2"], "key": ["x", "y", "x", "z"], "sha256": [A, B, None, None]})
    assert are_named(rows, pa.array([B]), pa.array(["2/x"])).to_pylist() == [False, True, True, False]
    assert are_named(rows, pa.array([], pa.string()), pa.array(["x"])).to_pylist() == [True, False, True, False]
