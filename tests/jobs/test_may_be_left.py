"""`verify --labels`: how many pictures of a release may be private after all."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import LabelsError
from ingest.storage.place import place
from reports.evaluation.answers import may_be_left
from scoring.labels.reviews import ReviewAnswers
from tests.jobs.made import privsieve
from tests.making import Capture


def labels(file: Path, hashes: Sequence[str], private: Sequence[object], annotators: Sequence[str] = ("ana",)) -> str:
    lines = [f"{h},{a},{p}" for h, p in zip(hashes, private, strict=True) for a in annotators]
    file.write_text("\n".join(["sha256,annotator,private", *lines]))
    return str(file)


def decisions(num_released: int) -> pa.Table:
    """Of a release with this many pictures, and a dropped one."""
    hashes = [f"{i:064x}" for i in range(num_released)]
    return pa.table(
        {"action": [*["keep"] * num_released, "drop"], "released_sha256": pa.array([*hashes, None], pa.string())}
    )


@pytest.mark.parametrize(("num_private", "highest"), [(0, 0.29912), (1, 0.47350)])
def test_of_a_thousand_labelled_pictures_the_share_is_bounded(num_private: int, highest: float, tmp_path: Path) -> None:
    """0 private: 1 − 0.05^(1/1000). 1 private: where a binomial of 1,000 has at most 1 with a probability of 5 %."""
    hashes = [f"{i:064x}" for i in range(1000)]
    file = labels(tmp_path / "labels.csv", hashes, [1] * num_private + [0] * (1000 - num_private))
    found = may_be_left(file, decisions(5000))
    assert (found.num_labelled, found.num_private, found.num_pictures) == (1000, num_private, 5000)
    assert 100 * found.highest_share == pytest.approx(highest, abs=5e-5)


def test_the_worst_is_assumed_where_people_differ(tmp_path: Path) -> None:
    one, two = f"{0:064x}", f"{1:064x}"
    file = tmp_path / "labels.csv"
    file.write_text(f"sha256,annotator,private\n{one},ana,0\n{one},ben,1\n{two},ana,0\n{two},ben,0\n")
    found = may_be_left(str(file), decisions(2))
    assert (found.num_labelled, found.num_private) == (2, 1)


def test_verify_says_what_labels_of_its_pictures_say(tars: Path, tmp_path: Path, capsys: Capture) -> None:
    rows = pq.read_table(tars / "not-for-publication/decisions.parquet").to_pylist()
    hashes = [row["released_sha256"] for row in rows if row["action"] != "drop"]
    file = labels(tmp_path / "labels.csv", [*hashes[:2], "0" * 64], [0, 0, 1])
    capsys.readouterr()
    assert privsieve("release", "verify", tars, "--labels", file) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "of 2 labelled pictures of the release 0 are private: if they were drawn at random, all with the same "
        f"probability, at most 77.64 % of its {len(hashes)} pictures are private (one-sided 95 % confidence); "
        "1 label left out: not of the bytes of a released picture"
    )
    (tars / "more.tar").write_bytes(b"")
    assert privsieve("release", "verify", tars, "--labels", file) != 0
    assert "labelled" not in capsys.readouterr().out


def test_labels_that_prove_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LabelsError, match="no label has the sha256 of a picture as it was released"):
        may_be_left(labels(tmp_path / "other.csv", ["f" * 64], [0]), decisions(3))
    (tmp_path / "keys.csv").write_text("key,annotator,private\na,ana,0\n")
    with pytest.raises(LabelsError, match="no label has the sha256"):
        may_be_left(str(tmp_path / "keys.csv"), decisions(3))
    (tmp_path / "part.csv").write_text(f"sha256,annotator,biometrics\n{0:064x},ana,0\n")
    with pytest.raises(LabelsError, match="of 1 labelled picture only some of the attributes are labelled"):
        may_be_left(str(tmp_path / "part.csv"), decisions(3))
    with pytest.raises(LabelsError, match="is a folder without reviews; give RUN/reviews or a file of labels"):
        may_be_left(str(tmp_path), decisions(3))


def test_a_review_of_a_random_sample_of_the_release_gives_the_bound(
    tars: Path, tmp_path: Path, capsys: Capture
) -> None:
    rows = [
        row
        for row in pq.read_table(tars / "not-for-publication/decisions.parquet").to_pylist()
        if row["action"] != "drop"
    ]

    def reviewed(name: str, queue: str) -> Path:
        answers = ReviewAnswers(place(str(tmp_path / name)))
        for row, (answer, private) in zip(rows, (("private", 1), ("public", 0), ("unclear", None)), strict=False):
            asked: dict[str, object] = {"sha256": row["released_sha256"], "key": row["key"], "annotator": "ana"}
            answers.add(asked | {"answer": answer, "private": private, "queue": queue, "is_gold": False})
        return tmp_path / name

    capsys.readouterr()
    assert privsieve("release", "verify", tars, "--labels", reviewed("reviews", "sql")) == 0
    assert "of 3 labelled pictures of the release 2 are private" in capsys.readouterr().out
    for queue in ("borderline", "list"):
        assert privsieve("release", "verify", tars, "--labels", reviewed(queue, queue)) == 2
        assert "pictures near the decision, on a list or of known answer were reviewed" in capsys.readouterr().err
    assert privsieve("release", "verify", tars, "--labels", reviewed("audit", "audit")) == 2
    assert "an audit draws pictures with unequal probabilities" in capsys.readouterr().err
