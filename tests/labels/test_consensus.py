"""`privsieve labels consensus`: the rule of two annotators, the majority, and what is joined with what."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from ingest.errors import LabelsError
from scoring.labels.judgements import judgements
from scoring.labels.table import LabelsOrigin, read_labels, read_labels_and_origin, to_labels, write_labels
from scoring.taxonomy import KEYS
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import jpeg, privsieve, tar
from tests.labels.made import labels_by, picture

HASHES = [f"{number:064x}" for number in range(20)]


def _joined(out: Path, *arguments: object) -> list[dict[str, object]]:
    assert privsieve("labels", "consensus", *arguments, "--out", out) == 0
    found: list[dict[str, object]] = read_labels(str(out)).to_pylist()
    return found


PAIRS = [(1, 1), (0, 0), (1, 0), (0, 1), (0.5, 1), (0.5, 0), (0.5, 0.5), (None, 1), (0, None), (None, None)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), [1, 0, 0.5, 0.5, 0.5, 0.5, 0.5, None, None, None]),
        (("--paper-rule",), [1, 0, 0, 0, 0, 0, 0, None, None, None]),
    ],
)
def test_an_attribute_is_1_only_if_both_annotators_say_so(
    tmp_path: Path, options: tuple[str, ...], expected: list[object]
) -> None:
    first = labels_by(tmp_path / "a.parquet", "a", key=[f"{n}.jpg" for n in range(10)], nudity=[a for a, _ in PAIRS])
    second = labels_by(tmp_path / "b.parquet", "b", key=[f"{n}.jpg" for n in range(10)], nudity=[b for _, b in PAIRS])
    found = _joined(tmp_path / "c.parquet", first, second, *options)
    assert [row["nudity"] for row in found] == expected
    assert {row["gov_ids"] for row in found} == {None}
    assert {row["score"] for row in found} == {None}, "the other attributes were not judged"
    assert {row["annotator"] for row in found} == {"consensus"}


def test_the_score_of_a_consensus_is_that_of_its_values_if_all_were_judged(tmp_path: Path) -> None:
    none = {key: [0, 0] for key in KEYS}
    first = labels_by(tmp_path / "a.parquet", "a", key=["1", "2"], **none | {"nudity": [1, 0]})
    second = labels_by(tmp_path / "b.parquet", "b", key=["1", "2"], **none | {"nudity": [1, 1]})
    found = _joined(tmp_path / "c.parquet", first, second)
    assert [row["score"] for row in found] == pytest.approx([0.514, 0])


def test_an_annotator_who_shares_no_picture_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = labels_by(tmp_path / "a.parquet", "a", key=["1", "2"], nudity=[1, 0])
    second = labels_by(tmp_path / "b.parquet", "b", key=["1", "2"], nudity=[1, 1])
    other = labels_by(tmp_path / "c.parquet", "c", key=["folder/1"], nudity=[1])
    for command in (["consensus", first, second, other, "--out", tmp_path / "o.parquet"], ["agreement", first, other]):
        assert privsieve("labels", *command) == 2
        assert "shares no picture with the other annotators" in capsys.readouterr().err
    assert not (tmp_path / "o.parquet").exists()


def test_private_and_class_are_null_where_two_annotators_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = ["1", "2", "3"]
    first = labels_by(tmp_path / "a.parquet", "a", key=keys, private=[1, 1, 0], class_=["face", "face", None])
    second = labels_by(tmp_path / "b.parquet", "b", key=keys, private=[1, 0, None], class_=["face", "plate", "face"])
    found = _joined(tmp_path / "c.parquet", first, second)
    assert [(row["private"], row["class"]) for row in found] == [(1, "face"), (None, None), (None, None)]
    assert f"next: privsieve labels describe {tmp_path}/c.parquet" in capsys.readouterr().out
    _, origin = read_labels_and_origin(str(tmp_path / "c.parquet"))
    assert origin is not None
    assert origin.source == "consensus"
    assert "private and class are null where they differ" in origin.notes[1]


def test_pictures_are_joined_by_hash_and_else_by_key_and_none_is_lost(tmp_path: Path) -> None:
    first = labels_by(
        tmp_path / "a.parquet", "a", sha256=[HASHES[0], HASHES[1], None], key=["x", "y", "z"], nudity=[1, 1, 1]
    )
    second = labels_by(
        tmp_path / "b.parquet", "b", sha256=[HASHES[0], None, None], key=["other", "y", "only here"], nudity=[1, 1, 1]
    )
    found = _joined(tmp_path / "c.parquet", first, second)
    assert [(row["sha256"], row["key"], row["nudity"]) for row in found] == [
        (HASHES[0], "x", 1),
        (HASHES[1], "y", 1),
        (None, "z", None),
        (None, "only here", None),
    ]


def test_two_files_of_one_annotator_name_are_two_annotators(tmp_path: Path) -> None:
    files = [labels_by(tmp_path / f"{name}.csv", "labels", key=["1"], nudity=[1]) for name in "ab"]
    assert [row["nudity"] for row in _joined(tmp_path / "c.parquet", *files)] == [1]


def test_two_runs_are_two_annotators_and_quarantined_images_are_null(tmp_path: Path) -> None:
    members = {"1.jpg": jpeg(1), "2.jpg": b"<html>", "3.jpg": jpeg(3), "4.jpg": jpeg(3), "5.jpg": b""}
    tar(tmp_path / "shard.tar", members)
    for run in ("run-a", "run-b"):
        scan_in_process(tmp_path / "shard.tar", tmp_path / run)
    rows = _joined(tmp_path / "c.parquet", tmp_path / "run-a", tmp_path / "run-b")
    found = {str(row["key"]): row for row in rows}
    assert sorted(found) == ["1", "2", "3", "5"]  # 4 has the bytes of 3
    assert {found["2"][key] for key in KEYS} == {None}
    assert {found["5"][key] for key in KEYS} == {None}
    assert found["2"]["score"] is None
    assert None not in {found["1"][key] for key in KEYS}
    assert found["1"]["score"] is not None


def test_images_without_bytes_that_share_a_name_stay_apart(tmp_path: Path) -> None:
    picture(tmp_path / "corpus/a/1.jpg", 1)
    for folder in ("b", "c"):
        (tmp_path / "corpus" / folder).mkdir()
        os.mkfifo(tmp_path / "corpus" / folder / "1.jpg")
    for run in ("run-a", "run-b"):
        scan_in_process(tmp_path / "corpus", tmp_path / run)
    found = _joined(tmp_path / "c.parquet", tmp_path / "run-a", tmp_path / "run-b")
    assert sorted(str(row["key"]) for row in found) == ["1.jpg", "b/1.jpg", "c/1.jpg"]
    assert [row["sha256"] is None for row in found] == [row["key"] != "1.jpg" for row in found]


def test_three_annotators_of_one_file_have_a_vote_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns: dict[str, Sequence[object]] = {
        "key": ["1", "2"] * 3,
        "annotator": [name for name in ("ann", "bob", "cy") for _ in "12"],
        "nudity": [1, 0.5, 1, 0.5, 0, 0],
    }
    write_labels(to_labels(columns, 6), str(tmp_path / "all.parquet"), LabelsOrigin("test"))
    found = _joined(tmp_path / "c.parquet", tmp_path / "all.parquet")
    assert [(row["nudity"], row["gov_ids"]) for row in found] == [(1, None), (0.5, None)]
    assert "method majority, 3 annotators: ann, bob, cy" in capsys.readouterr().out


def test_a_picture_named_by_hash_and_by_key_in_one_file_is_refused() -> None:
    labels = to_labels({"sha256": [HASHES[0], None], "key": ["x", "x"], "annotator": ["a", "a"]}, 2)
    with pytest.raises(LabelsError, match="labels a picture twice, by sha256 and by key"):
        judgements([("file", labels)])


def test_one_against_one_is_a_tie_and_two_against_one_a_majority(tmp_path: Path) -> None:
    keys = ["tie", "most", "one vote", "none"]
    votes_of = {"a": [1, 1, None, None], "b": [0, 0, 0, None], "c": [None, 1, None, None]}
    files = [
        labels_by(
            tmp_path / f"{name}.parquet",
            name,
            key=keys,
            private=votes,
            nudity=votes,
            class_=[None if vote is None else "xy"[vote] for vote in votes],
        )
        for name, votes in votes_of.items()
    ]
    found = _joined(tmp_path / "o.parquet", *files, "--method", "majority")
    assert [row["private"] for row in found] == [None, 1, 0, None]
    assert [row["nudity"] for row in found] == [None, 1, 0, None]
    assert [row["class"] for row in found] == [None, "y", "x", None]
    of_paper = _joined(tmp_path / "p.parquet", *files, "--method", "majority", "--paper-rule")
    assert [row["nudity"] for row in of_paper] == [0, 1, 0, None]
    assert [row["private"] for row in of_paper] == [None, 1, 0, None]
    of_two = _joined(tmp_path / "q.parquet", *files[:2], "--method", "majority")
    assert [row["private"] for row in of_two] == [None, None, 0, None]
