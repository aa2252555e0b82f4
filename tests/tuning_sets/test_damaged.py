"""Training sets that are damaged, changed, hostile, or of another version: one line each, and nothing is trained on."""

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ingest.errors import LabelsError
from scoring.tuning.training_set import RECORD, TrainingSet, file_sha256, open_set
from tests.tuning_sets import made

NUM = 6


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pictures = made.files(NUM)
    truth = made.by_hash(tmp_path / "labels.parquet", pictures)
    out = tmp_path / "set"
    made.made(made.tree(tmp_path / "pictures", pictures), truth, out, validation_share=0)
    return out


def change(folder: Path, **fields: object) -> None:
    record = json.loads((folder / RECORD).read_bytes())
    (folder / RECORD).write_text(json.dumps({**record, **fields}))


def refused(match: str, work: Callable[[], object]) -> None:
    with pytest.raises(LabelsError, match=match) as error:
        work()
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500


def opened(folder: Path) -> Callable[[], TrainingSet]:
    return lambda: open_set(str(folder))


DAMAGED = "set: its set.json is damaged; make the set again"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"format": 1}'])
def test_a_damaged_record_is_refused(folder: Path, content: bytes) -> None:
    (folder / RECORD).write_bytes(content)
    refused(DAMAGED, opened(folder))


@pytest.mark.parametrize("name", ["../train-000000.tar", "/etc/passwd", "..", "train-000000.tar/../x", "a\nb.tar", ""])
def test_a_file_outside_of_the_folder_is_refused(folder: Path, name: str) -> None:
    change(folder, files={name: "0" * 64})
    refused(DAMAGED, opened(folder))


@pytest.mark.parametrize(
    "fields",
    [
        {"counts": {}},
        {"counts": {"train": {"pictures": 6}}},
        {"counts": {"train": {}, "validation": {}}},
        {"num_excluded": {}},
        {"num_pictures": 7},
        {"num_labelled": 0},
        {"target": "sluts"},
        {"counts": {"train": {"pictures": 60}, "validation": {"pictures": 0}}},
    ],
    ids=str,
)
def test_a_record_that_does_not_add_up_is_refused(folder: Path, fields: dict[str, Any]) -> None:
    change(folder, **fields)
    refused(DAMAGED, opened(folder))


def test_another_format_is_named(folder: Path) -> None:
    change(folder, format=99)
    refused("set.json has the format 99, and this privsieve reads format 1; .* make the set again", opened(folder))
    change(folder, format="x\n" * 10_000)
    refused("set.json has a format that is no number", opened(folder))


def test_a_folder_without_a_set_is_refused(tmp_path: Path) -> None:
    refused(r"holds no training set \(set.json is missing\); make one with tune set", opened(tmp_path))
    refused("holds no training set", opened(tmp_path / "nowhere"))
    refused("is read from a folder of this machine; copy it here", lambda: open_set("memory://set"))


def test_missing_and_changed_shards_are_named(folder: Path) -> None:
    shard = folder / "train-000000.tar"
    content = bytearray(shard.read_bytes())
    content[700] ^= 1
    shard.write_bytes(content)
    refused("train-000000.tar has changed since the set was made", open_set(str(folder)).check_files)
    shard.unlink()
    refused("train-000000.tar is missing; make the set again", open_set(str(folder)).check_files)
    refused("train-000000.tar: is damaged", lambda: open_set(str(folder)).items("train"))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.5, 0.99])
def test_a_truncated_shard_is_damaged(folder: Path, share: float) -> None:
    """Also if somebody wrote its hash into set.json."""
    shard = folder / "train-000000.tar"
    content = shard.read_bytes()
    shard.write_bytes(content[: int(len(content) * share)])
    change(folder, files={shard.name: file_sha256(shard)})
    found = open_set(str(folder))
    found.check_files()
    if share < 0.99:  # a tar ends with blocks of zeros, which may be missing
        refused("train-000000.tar: is damaged|holds 0 pictures of the split train", lambda: found.items("train"))


def test_a_shard_with_another_number_of_pictures_is_refused(folder: Path) -> None:
    change(folder, counts={"train": {"pictures": 5}, "validation": {"pictures": 0}})
    found = open_set(str(folder))
    refused("holds 6 pictures of the split train, and its set.json says 5", lambda: found.items("train"))


GOOD = {"target": {"answer": "Yes"}, "class": None, "key": "k", "sha256": "0" * 64, "group": "g"}


@pytest.mark.parametrize(
    "described",
    [
        b"",
        b"[]",
        b"[" * 100_000,
        b'"' + b"x" * 2**21 + b'"',
        {**GOOD, "target": {}},
        {**GOOD, "target": None},
        {**GOOD, "target": {"slots": [0] * 22}},
        {**GOOD, "target": {"answer": "Yes", "slots": [0] * 22}},
        {**GOOD, "target": {"answer": ["Yes"]}},
        {**GOOD, "more": 1},
        {name: value for name, value in GOOD.items() if name != "key"},
    ],
    ids=lambda one: str(one)[:60],
)
def test_a_hostile_description_of_a_picture_is_refused(folder: Path, described: bytes | dict[str, Any]) -> None:
    content = described if isinstance(described, bytes) else json.dumps(described).encode()
    _shard(folder, {"0.png": made.drawn(0), "0.json": content})
    refused("train-000000.tar: is damaged", lambda: open_set(str(folder)).items("train"))


@pytest.mark.parametrize("slots", [[0] * 21, [0] * 21 + [3], [0] * 21 + [0.5], ["0"] * 22, []])
def test_slots_that_are_none_are_refused(folder: Path, slots: list[object]) -> None:
    _shard(folder, {"0.png": made.drawn(0), "0.json": json.dumps({**GOOD, "target": {"slots": slots}}).encode()})
    change(folder, target="slots")
    refused("train-000000.tar: is damaged", lambda: open_set(str(folder)).items("train"))


def test_members_that_tune_set_does_not_write_are_refused(folder: Path) -> None:
    good = json.dumps(GOOD).encode()
    for members in (
        {"0.png": made.drawn(0)},
        {"0.json": good},
        {"0.png": made.drawn(0), "0.jpg": made.drawn(1), "0.json": good},
    ):
        _shard(folder, members)
        refused("train-000000.tar: is damaged", lambda: open_set(str(folder)).items("train"))
    _shard(folder, {"0.png": made.drawn(0), "0.json": good}, link="/etc/passwd")
    refused("train-000000.tar: is damaged", lambda: open_set(str(folder)).items("train"))
    _shard(folder, {"0.png": made.drawn(0), "0.json": good})
    assert [item.target.answer for item in open_set(str(folder)).items("train")] == ["Yes"]


def _shard(folder: Path, members: dict[str, bytes], link: str | None = None) -> None:
    shard = folder / "train-000000.tar"
    with tarfile.open(shard, "w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        if link:
            info = tarfile.TarInfo("1.png")
            info.type, info.linkname = tarfile.SYMTYPE, link
            tar.addfile(info)
    counts = {"train": {"pictures": 1}, "validation": {"pictures": 0}}
    change(folder, files={shard.name: file_sha256(shard)}, counts=counts)


def test_a_set_for_other_words_of_the_protocol_is_refused(folder: Path) -> None:
    asked = open_set(str(folder)).record.protocol_version
    change(folder, protocol_version="binary:ours-1-9 0")
    refused(
        f'was made for "binary:ours-1-9 0", and this version of privsieve asks "{asked}"; make the set again',
        open_set(str(folder)).protocol,
    )
    change(folder, protocol="binry")
    refused('its protocol cannot be used: unknown protocol "binry"', open_set(str(folder)).protocol)
    change(folder, protocol="binary:ours-1", prompt_file="p9: what?")
    refused("its protocol cannot be used: .*p9.*make the set again", open_set(str(folder)).protocol)
