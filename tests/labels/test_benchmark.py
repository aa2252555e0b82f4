"""`labels build benchmark` and `balanced`: exact numbers from what people accepted, and nothing but URLs and labels."""

import csv
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.fetching.url_tables import keywords
from reports.statistics.binary import per_class
from scoring.labels.table import LabelsOrigin, read_labels, to_labels, write_labels
from scoring.privacy import PRIVATE_CLASSES
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import privsieve, tar
from tests.tuning_sets.made import drawn, sha256

CLASSES = (*PRIVATE_CLASSES, *(("public",) * 9), *(("hard-public",) * 9))
"""Of each candidate: one a private class, one public picture more than the draw takes."""


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Candidates, a run over their pictures, and labels that accept all of them."""
    folder = tmp_path_factory.mktemp("benchmark")
    urls = [f"https://images.invalid/{number}.png" for number in range(len(CLASSES))]
    members: dict[str, bytes] = {}
    hashes = []
    for number, url in enumerate(urls):
        content = drawn(number)
        hashes.append(sha256(content))
        members[f"{number:03d}.png"] = content
        members[f"{number:03d}.json"] = json.dumps({"url": url}).encode()
    # A smaller copy of the first picture, from another URL: one of the two is enough.
    members["900.png"] = drawn(0, scale=0.5)
    members["900.json"] = json.dumps({"url": "https://images.invalid/copy.png"}).encode()
    (folder / "corpus").mkdir()
    tar(folder / "corpus" / "00000.tar", members)
    scan_in_process(folder / "corpus", folder / "run")
    listed = {"url": [*urls, "https://images.invalid/copy.png"], "class": [*CLASSES, CLASSES[0]]}
    pq.write_table(pa.table(listed), folder / "candidates.parquet")
    _accept(folder / "accepted.parquet", dict(zip([*hashes, sha256(members["900.png"])], listed["class"], strict=True)))
    return folder


def _accept(file: Path, class_of: Mapping[str, str], *refused: str) -> Path:
    private = [int((class_ in PRIVATE_CLASSES) != (name in refused)) for name, class_ in class_of.items()]
    columns = {"sha256": list(class_of), "annotator": ["ana"] * len(class_of), "private": private}
    write_labels(to_labels(columns, len(class_of)), str(file), LabelsOrigin("review"))  # type: ignore[arg-type]
    return file


def _built(room: Path, out: Path, *options: object, accepted: Path | None = None) -> int:
    inputs = ("--run", room / "run", "--accepted", accepted or room / "accepted.parquet", "--out", out)
    return privsieve("labels", "build", "benchmark", room / "candidates.parquet", *inputs, "--per-class", 1, *options)


def test_a_benchmark_has_exact_numbers_and_no_picture(
    room: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _built(room, tmp_path / "out", "--hard") == 0
    assert {file.name for file in (tmp_path / "out").iterdir()} == {
        "labels.parquet",
        "labels-hard.parquet",
        "pictures.csv",
        "datasheet.md",
    }
    shown = capsys.readouterr().out.splitlines()
    assert ["card", "1", "1"] in [line.split() for line in shown]  # the copy is not a second one
    assert ["public", "9", "8"] in [line.split() for line in shown]
    labels, hard = (read_labels(str(tmp_path / "out" / name)) for name in ("labels.parquet", "labels-hard.parquet"))
    assert Counter(labels["private"].to_pylist()) == Counter(hard["private"].to_pylist()) == {1: 8, 0: 8}
    assert {"debit_card", "license_plate", "private_chat", "public"} < set(labels["class"].to_pylist())
    assert "hard_public" in hard["class"].to_pylist()
    assert "public" not in hard["class"].to_pylist()
    batches = [row["split"] for row in labels.to_pylist() if not row["private"]]
    assert sorted(batches) == [f"batch {number}" for number in range(1, 9)]
    with (tmp_path / "out" / "pictures.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 24
    urls = pq.read_table(room / "candidates.parquet")["url"].to_pylist()
    assert {row["url"] for row in rows} < set(urls)
    assert {row["name"] for row in rows} >= {"debit_card_1", "public_1", "public_8", "hard_public_8"}
    assert {row["sha256"] for row in rows} == {*labels["sha256"].to_pylist(), *hard["sha256"].to_pylist()}
    sheet = (tmp_path / "out" / "datasheet.md").read_text()
    assert sheet.count("\n## ") == 8
    assert "8 private pictures of 8 classes and 8 public ones. 8 more public ones are hard" in sheet
    assert "| debit_card | a bank or credit card with readable numbers or names | Art. 4 |" in sheet
    assert _built(room, tmp_path / "out") == 2  # the folder is there


def test_the_same_seed_gives_the_same_benchmark_and_another_one_another(room: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert _built(room, tmp_path / name, "--seed", seed) == 0
    first, again, other = ((tmp_path / name / "pictures.csv").read_bytes() for name in "abc")
    assert first == again != other


@pytest.mark.slow
def test_a_class_with_too_few_accepted_pictures_is_named_and_nothing_is_written(
    room: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class_of = {sha256(drawn(number)): class_ for number, class_ in enumerate(CLASSES)}
    face, public = (
        next(name for name, class_ in class_of.items() if class_ == wanted) for wanted in ("face", "public")
    )
    accepted = _accept(tmp_path / "accepted.parquet", class_of, face, public)
    assert _built(room, tmp_path / "out", accepted=accepted) == 2
    error = capsys.readouterr().err
    assert "too few accepted pictures: face 0 of 1; let people judge more candidates" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_run_over_other_pictures_and_a_list_without_classes_are_refused(
    room: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(pa.table({"url": ["https://elsewhere.invalid/1.png"], "class": ["face"]}), tmp_path / "c.parquet")
    pq.write_table(pa.table({"url": ["https://elsewhere.invalid/1.png"]}), tmp_path / "d.parquet")
    for name, message in (("c", "no labelled picture of"), ("d", "is no list of candidates with the columns url and")):
        inputs = ("--run", room / "run", "--accepted", room / "accepted.parquet", "--out", tmp_path / "out")
        assert privsieve("labels", "build", "benchmark", tmp_path / f"{name}.parquet", *inputs) == 2
        assert message in capsys.readouterr().err


def test_evaluations_take_the_batches_that_the_labels_name() -> None:
    truth = np.array([True, True, False, False, False, False])
    predicted = np.array([True, True, True, True, False, False])
    classes = ["face", "face", *["public"] * 4]
    parts = [None, None, "batch 1", "batch 1", "batch 2", "batch 2"]
    # One batch is wholly wrong, one wholly right: specificity 0 and 1, precision .5 and 1.
    (found,) = per_class(truth, predicted, classes, 0, parts)
    assert (found.num_batches, found.precision, found.specificity, found.f1) == (2, 0.75, 0.5, (2 / 3 + 1) / 2)
    mixed = ["batch 1", "batch 2"] * 3
    (other,) = per_class(truth, predicted, classes, 0, mixed)
    assert other.precision == pytest.approx(2 / 3)
    assert other.specificity == 0.5
    for no_batches in (["test"] * 6, [*parts[:-1], None], ()):
        drawn_ones = {per_class(truth, predicted, classes, seed, no_batches)[0].precision for seed in range(20)}
        assert len(drawn_ones) > 1


def test_all_private_pictures_and_as_many_public_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = [f"{number}.jpg" for number in range(10)]
    columns = {"key": keys, "annotator": ["biv-priv"] * 10, "private": [1, 0, 0, 0, 1, 0, 0, 0, None, 1]}
    write_labels(to_labels(columns, 10), str(tmp_path / "all.parquet"), LabelsOrigin("biv-priv"))  # type: ignore[arg-type]
    drawn_sets = set()
    for seed in range(5):
        out = tmp_path / f"{seed}.parquet"
        assert privsieve("labels", "build", "balanced", tmp_path / "all.parquet", "--out", out, "--seed", seed) == 0
        rows = read_labels(str(out)).to_pylist()
        assert [row["key"] for row in rows if row["private"]] == ["0.jpg", "4.jpg", "9.jpg"]
        assert sum(row["private"] == 0 for row in rows) == 3
        assert len(rows) == 6
        drawn_sets.add(tuple(row["key"] for row in rows))
    assert len(drawn_sets) > 1
    assert "3 private pictures and 3 public ones in" in capsys.readouterr().out
    twice = ("labels", "build", "balanced", tmp_path / "all.parquet", "--public")
    assert privsieve(*twice, 2, "--out", tmp_path / "twice.csv") == 0
    assert [row["private"] for row in read_labels(str(tmp_path / "twice.csv")).to_pylist()].count(0) == 6
    assert privsieve(*twice, 3, "--out", tmp_path / "no.csv") == 2
    assert (
        "all private ones and 3 times as many public ones, so add labels of what is missing" in capsys.readouterr().err
    )
    few = {"key": keys[:3], "annotator": ["x"] * 3, "private": [1, 1, 0]}
    write_labels(to_labels(few, 3), str(tmp_path / "few.parquet"), LabelsOrigin("x"))  # type: ignore[arg-type]
    assert privsieve("labels", "build", "balanced", tmp_path / "few.parquet", "--out", tmp_path / "no.parquet") == 2
    assert "has 2 private and 1 public pictures" in capsys.readouterr().err


def test_keywords_of_privacyalerts_ten_categories_find_candidates(tmp_path: Path) -> None:
    words = keywords("privacyalert-keywords.yaml")
    assert len(words) == 10
    assert sum(map(len, words.values())) == 150
    captions = ["Messy  hair today", "our LIVING room", "a Bible", "nothing of it"]
    urls = [f"https://images.invalid/{number}.jpg" for number in range(4)]
    pq.write_table(pa.table({"url": urls, "caption": captions}), tmp_path / "meta.parquet")
    out = tmp_path / "list.parquet"
    assert privsieve("labels", "build", "privacyalert", tmp_path / "meta.parquet", "--out", out) == 0
    found = {row["url"]: row["class"] for row in pq.read_table(out).to_pylist()}
    assert found == {urls[0]: "appearance", urls[1]: "home", urls[2]: "religion"}
