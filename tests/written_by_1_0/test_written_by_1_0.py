"""What 1.0 wrote is read; another format, or none, is refused in one line."""

import io
import json
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from PIL import Image

from ingest.storage.place import place
from jobs.releases.files import record_of, sha256_of
from scoring.labels.table import read_labels_and_origin
from tests.jobs.made import compact_run, privsieve
from tests.making import Capture
from tests.written_by_1_0.make import FOLDER, QUESTION, corpus, said, scan

GROUPS_OF_1_0 = {"by": "pdq", "num_groups": 1, "num_pictures": 2, "num_overruled": 0}


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Path]:
    shutil.copytree(FOLDER, tmp_path / "written")
    with corpus():
        yield tmp_path / "written"


def asked(run: Path) -> list[dict[str, Any]]:
    """All rows of the run and of its audit, without nulls and without what later versions add."""
    questions = (QUESTION, "FROM corrected_rates")
    rows = [row for question in questions for row in json.loads(said("sql", run, question, "--format", "json"))]
    before = [json.loads(line) for line in (FOLDER / "said.jsonl").read_text().splitlines()]
    assert len(rows) == len(before)
    return [{name: row[name] for name in old} for row, old in zip(rows, before, strict=True)]


def picture(written: Path, number: int) -> bytes:
    with tarfile.open(written / "corpus" / f"{number // 4}.tar") as shard:
        file = shard.extractfile(f"{number}.jpg")
        assert file is not None
        return file.read()


def expected() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / "said.jsonl").read_text().splitlines()]


def test_a_run_and_its_audit_say_what_they_said(written: Path) -> None:
    assert asked(written / "run") == expected()
    assert json.loads(said("report", written / "run", "--format", "json"))["num_images"] == 8


def test_a_run_is_explained_and_its_state_said(written: Path) -> None:
    assert "level        2 linkage-based" in said("explain", written / "run", "0.tar/1")
    assert "2 shards: 2 done" in said("status", written / "run")


def test_a_run_that_was_interrupted_is_continued_and_compacted_to_the_same_rows(written: Path) -> None:
    next((written / "run" / "scores").glob("1.tar-*")).unlink()
    assert "8 images in 2 of 2 shards" in scan(written / "run")
    assert asked(written / "run") == expected()
    compact_run(written / "run")
    assert asked(written / "run") == expected()


def test_a_run_is_filtered_to_the_same_shards_and_its_release_is_verified(written: Path) -> None:
    said("release", "verify", written / "release")
    policy = ("--policy", written / "policy.yaml", "--out", written / "again")
    said("filter", written / "run", *policy, "--quiet")
    for shard in ("0.tar", "1.tar"):
        first, again = (sha256_of(place(str(written / name / shard))) for name in ("release", "again"))
        assert first == again


def test_pictures_of_a_release_are_found_and_taken_down_from_it_from_its_copies_and_from_later_ones(
    written: Path,
) -> None:
    release, copy, policy = written / "release", written / "copy", written / "policy.yaml"
    shutil.copytree(release, copy, ignore=shutil.ignore_patterns("not-for-publication"))
    said("release", "verify", copy)
    (written / "1.jpg").write_bytes(picture(written, 1))
    assert "released    0.tar/1  the same bytes" in said("release", "lookup", release, written / "1.jpg")
    (written / "list").write_text("0.tar/1\n")
    said("release", "takedown", release, written / "list")
    assert not (release / "datasheet.md").exists()  # its counts are no longer true
    said("release", "verify", release)
    assert "1 picture in 1 shard was removed" in said("release", "apply", copy, release / "removed.parquet")
    later = ("--policy", policy, "--out", written / "later", "--previous", release)
    assert "(removed_before)" in said("filter", written / "run", *later, "--quiet")
    said("release", "verify", written / "later")


def test_a_release_with_a_guarantee_covered_pictures_and_a_takedown_is_read(written: Path, capsys: Capture) -> None:
    covered, near = written / "covered", written / "near.png"
    said("release", "verify", covered)
    Image.open(io.BytesIO(picture(written, 7))).resize((128, 96)).save(near)
    assert "released    1.tar/7  covered; the scanned one is near" in said("release", "lookup", covered, near)
    assert privsieve("release", "takedown", written / "release", covered / "removed.parquet", "--dry-run") == 1
    assert "no picture that the release knows (1)" in capsys.readouterr().out  # the list is read
    in_json(covered / "release.json", lambda fields: fields.update(groups=GROUPS_OF_1_0))
    assert record_of((covered / "release.json").read_bytes(), "covered").groups is not None
    (written / "list").write_text("1.tar/7\n")
    shutil.copytree(FOLDER / "covered", covered, dirs_exist_ok=True)
    said("release", "takedown", covered, written / "list")
    said("release", "verify", covered)


def test_labels_are_read_with_their_origin(written: Path) -> None:
    labels, origin = read_labels_and_origin(str(written / "labels.parquet"))
    assert origin is not None
    assert (labels.num_rows, origin.source, labels["annotator"].unique().to_pylist()) == (6, "ana", ["ana"])


def in_json(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    fields = json.loads(file.read_text())
    change(fields)
    file.write_text(json.dumps(fields))


def in_footer(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    table = pq.read_table(file)
    [(key, footer)] = [item for item in table.schema.metadata.items() if item[0].startswith(b"privsieve.")]
    fields = json.loads(footer)
    change(fields)
    pq.write_table(table.replace_schema_metadata({key: json.dumps(fields)}), file)


@pytest.mark.parametrize(
    ("number", "has"),
    [
        (2, "the format 2"),
        (None, "no format number"),
        ("1", "a format that is no number"),
        (True, "a format that is no number"),
        (10**400, "a format that is no number"),
    ],
)
@pytest.mark.parametrize(
    ("name", "command", "remedy"),
    [
        ("run/run.json", ("report", "@run"), "scan into a new run"),
        ("release/release.json", ("release", "verify", "@release"), "filter again"),
        ("labels.parquet", ("evaluate", "@run", "--labels", "@labels.parquet"), "write the labels again"),
        ("run/audit/sample.parquet", ("audit", "apply", "@run", "@labels.parquet"), "draw a new sample"),
    ],
)
def test_another_format_is_refused_in_one_line_that_says_what_to_do(
    name: str, command: tuple[str, ...], remedy: str, number: object, has: str, written: Path, capsys: Capture
) -> None:
    (in_json if name.endswith(".json") else in_footer)(written / name, lambda fields: fields.update(format=number))
    words = [written / word[1:] if word.startswith("@") else word for word in command]
    assert privsieve(*words) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert name.rpartition("/")[2] in error
    assert f" has {has}, and this privsieve reads format 1; use the version that wrote it, or {remedy}" in error
