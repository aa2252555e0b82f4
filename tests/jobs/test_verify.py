"""`verify`: a release that is whole is said to be, and every change of it is named."""

import hashlib
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.jobs.made import jpeg, privsieve, tar


@pytest.mark.parametrize("files", ["as-is", "clean"])
@pytest.mark.parametrize("layout", ["tars", "tree", "parquet"])
def test_a_whole_release_is_verified(
    releases: dict[str, Path], layout: str, files: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert privsieve("verify", releases[f"{layout}-{files}"]) == 0
    num_files = {"tree": "4 files"}.get(layout, "1 file")
    assert capsys.readouterr().out == f"{num_files} and 4 pictures as released, and all counts agree\n"


def without_a_file(release: Path) -> None:
    (release / "0.tar").unlink()


def with_another_file(release: Path) -> None:
    (release / "more.tar").write_bytes(b"")


def with_a_changed_byte(release: Path) -> None:
    content = bytearray((release / "0.tar").read_bytes())
    content[600] ^= 1
    (release / "0.tar").write_bytes(content)


def with_another_decision(release: Path) -> None:
    table = pq.read_table(release / "decisions.parquet")
    column = pa.array(["keep"] * table.num_rows)
    pq.write_table(
        table.set_column(table.schema.names.index("action"), "action", column), release / "decisions.parquet"
    )


def with_other_counts(release: Path) -> None:
    summary = json.loads((release / "release.json").read_text())
    summary["num_images"] += 1
    (release / "release.json").write_text(json.dumps(summary))


def with_a_name_outside(release: Path) -> None:
    summary = json.loads((release / "release.json").read_text())
    summary["sha256"]["../secret"] = hashlib.sha256(b"").hexdigest()
    (release.parent / "secret").write_bytes(b"")
    (release / "release.json").write_text(json.dumps(summary))


def with_another_picture_and_its_hash(release: Path) -> None:
    """The hash of the file is put right, so that only the decisions show it."""
    with tarfile.open(release / "0.tar") as archive:
        names = [member.name for member in archive]
    tar(release / "0.tar", {name: jpeg(9) for name in names})
    summary = json.loads((release / "release.json").read_text())
    summary["sha256"]["0.tar"] = hashlib.sha256((release / "0.tar").read_bytes()).hexdigest()
    (release / "release.json").write_text(json.dumps(summary))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (without_a_file, "0.tar: it is not there"),
        (with_another_file, "more.tar: release.json does not name it"),
        (with_a_changed_byte, "0.tar: its content is not what was released"),
        (with_another_decision, "decisions.parquet: its content is not what was released"),
        (with_other_counts, "decisions.parquet: its decisions are not those that release.json counts"),
        (with_a_name_outside, "../secret: it is not there"),
        (with_another_picture_and_its_hash, "0.tar: its pictures are not those of decisions.parquet"),
    ],
)
def test_every_change_is_named(
    releases: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[Path], None],
    fault: str,
) -> None:
    release = tmp_path / "release"
    shutil.copytree(releases["tars-as-is"], release)
    change(release)
    capsys.readouterr()
    assert privsieve("verify", release) == 1
    printed = capsys.readouterr()
    assert printed.out == f"{fault}\n"
    assert printed.err == f"privsieve: {release} is not what filter wrote: 1 fault\n"


def test_a_release_of_an_older_version_is_verified_as_far_as_it_says(
    releases: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release = tmp_path / "release"
    shutil.copytree(releases["tars-as-is"], release)
    table = pq.read_table(release / "decisions.parquet")
    pq.write_table(table.drop_columns(["released_sha256"]), release / "decisions.parquet")
    summary = json.loads((release / "release.json").read_text())
    del summary["decisions_sha256"], summary["documents"]
    for name in ("SHA256SUMS", "README.md", "croissant.json"):
        (release / name).unlink()
    (release / "release.json").write_text(json.dumps(summary))
    capsys.readouterr()
    assert privsieve("verify", release) == 0
    assert capsys.readouterr().out == (
        "1 file as released; this release of an older version does not say the hashes of its pictures\n"
    )


def test_what_is_no_release_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for content, why in (
        ({}, "is no release that can be verified: it has no release.json"),
        ({"release.json": "{"}, ": release.json is damaged, or was not written by filter"),
        ({"release.unfinished.json": "{}"}, "it is unfinished; run its filter again with --resume"),
    ):
        for name, text in content.items():
            (tmp_path / name).write_text(text)
        assert privsieve("verify", tmp_path) == 2
        error = capsys.readouterr().err
        assert error.endswith(f"{why}\n")
        assert error.count("\n") == 1
