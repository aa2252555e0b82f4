"""`privsieve tune set`: what it writes, and that every picture of the source is counted."""

import io
import json
import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pdqhash
import pyarrow.parquet as pq
import pytest
import webdataset as wds
from PIL import Image

from scoring.taxonomy import ATTRIBUTES
from scoring.tuning.training_set import SPLITS, open_set
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import privsieve
from tests.tuning_sets import made

NUM = 12


@pytest.mark.parametrize("make", [made.tree, made.webdataset, made.parquet], ids=["tree", "webdataset", "parquet"])
def test_pictures_are_copied_as_they_are_from_every_kind_of_source(
    make: Callable[[Path, dict[str, bytes]], Path], tmp_path: Path, pictures: dict[str, bytes], truth: Path
) -> None:
    source = make(tmp_path / "source", pictures)
    record = made.made(source, truth, tmp_path / "set", validation_share=0.3)
    found = open_set(str(tmp_path / "set"))
    found.check_files()
    items = {split: found.items(split) for split in SPLITS}
    copied = [made.sha256(item.encoded()) for split in SPLITS for item in items[split]]
    assert sorted(copied) == sorted(made.sha256(content) for content in pictures.values())
    assert [len(items[split]) for split in SPLITS] == [record.counts[split]["pictures"] for split in SPLITS]
    assert record.counts["validation"]["pictures"] > 0
    private = {made.sha256(content): number % 2 for number, content in enumerate(pictures.values())}
    for item in (*items["train"], *items["validation"]):
        assert item.target.answer == ("Yes" if private[made.sha256(item.encoded())] else "No")
        assert (item.class_name in ("card", "face")) == bool(private[made.sha256(item.encoded())])
    assert record.annotators == ("people",)
    assert (record.num_pictures, record.num_labelled, record.num_groups) == (NUM, NUM, NUM)


def test_labels_of_several_files_of_a_webdataset_and_of_folders_are_found_by_key(tmp_path: Path) -> None:
    pictures = {f"{'ab'[number % 2]}/{number // 2}.png": made.drawn(number) for number in range(8)}
    truth = made.labels(tmp_path / "l.parquet", 8, key=list(pictures), private=[n % 2 for n in range(8)])
    record = made.made(made.tree(tmp_path / "tree", pictures), truth, tmp_path / "set")
    assert (record.num_labelled, record.num_unused_labels) == (8, 0)


def test_every_picture_of_the_source_and_every_label_is_counted_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = made.files(8)
    pictures = dict(whole)
    pictures["a_copy.png"] = whole["000.png"]
    pictures["broken.png"] = made.NOT_A_PICTURE
    pictures["truncated.png"] = whole["001.png"][:200]
    pictures["empty.png"] = b""
    pictures["not_judged.png"] = made.drawn(20)
    pictures["without_label.png"] = made.drawn(21)
    labelled = {name: content for name, content in pictures.items() if name not in ("a_copy.png", "without_label.png")}
    del labelled["empty.png"]
    private = [number % 2 for number in range(8)] + [1, 1, None]
    gone = [made.sha256(b"gone 1"), made.sha256(b"gone 2")]
    truth = made.labels(
        tmp_path / "labels.parquet",
        len(labelled) + 2,
        sha256=[*(made.sha256(content) for content in labelled.values()), *gone],
        private=[*private, 1, 0],
    )
    source = made.tree(tmp_path / "pictures", pictures)
    (source / "link.png").symlink_to("nowhere.png")
    out = tmp_path / "set"
    command = ("tune", "set", source, "--labels", truth, "--target", "binary", "--out", out, "--quiet")
    code = privsieve(*command, "--n", 6, "--validation", 0)
    shown = capsys.readouterr()
    assert code == 0, shown.err
    record = open_set(str(out)).record
    assert record.num_pictures == len(pictures) + 1 == 15
    assert (record.num_labelled, record.num_copies, record.num_without_target) == (8, 1, 1)
    assert (record.num_unreadable, record.num_unlabelled, record.num_unused_labels) == (3, 2, 2)
    assert record.num_not_drawn == 2
    assert "15 pictures: 8 usable, 1 more copies of these, 1 whose label does not say private or public, " in shown.out
    assert "3 unreadable, 2 without a label; 2 labels of no picture" in shown.out
    assert (
        "no evaluation set was named (--exclude); 2 not drawn, 6 to tune on (3 private, 3 public), 0 held" in shown.out
    )


def test_slots_count_the_values_of_each_attribute(tmp_path: Path, pictures: dict[str, bytes], source: Path) -> None:
    face, other = ATTRIBUTES[0].key, ATTRIBUTES[1].key
    rows = [made.values(**{face: (0.0, 0.5, 1.0, None)[number % 4], other: None}) for number in range(NUM)]
    truth = made.by_hash(tmp_path / "v.parquet", pictures, **made.attribute_columns(rows))
    record = made.made(source, truth, tmp_path / "set", "slots", validation_share=0)
    assert record.num_values[face] == {"0": 6, "1": 3, "not judged": 3}
    assert record.num_values[other] == {"not judged": NUM}
    assert record.counts["train"]["level unknown"] == 9
    slots = {item.target.slots for item in open_set(str(tmp_path / "set")).items("train")}
    assert {one[:2] for one in slots if one} == {(0, None), (2, None), (None, None)}


def test_the_same_command_writes_the_same_bytes(tmp_path: Path, source: Path, truth: Path) -> None:
    out = tmp_path / "set"
    written = []
    for _ in range(2):
        made.made(source, truth, out, seed=5, num_pictures=8, validation_share=0.2)
        written.append({file.name: file.read_bytes() for file in out.iterdir()})
        for file in out.iterdir():
            file.unlink()
    assert written[0] == written[1]
    assert set(written[0]) >= {"set.json", "train-000000.tar"}


def test_a_larger_draw_does_not_move_pictures_across_the_split(tmp_path: Path, source: Path, truth: Path) -> None:
    sides: dict[str, str] = {}
    for num in (4, 8, 12):
        out = tmp_path / str(num)
        made.made(source, truth, out, num_pictures=num, validation_share=0.4)
        for split in SPLITS:
            for item in open_set(str(out)).items(split):
                assert sides.setdefault(made.sha256(item.encoded()), split) == split
    assert len(sides) == 12
    assert set(sides.values()) == set(SPLITS)


@pytest.mark.parametrize("seed", range(3))
def test_resized_copies_are_on_the_side_of_their_original(tmp_path: Path, seed: int) -> None:
    pictures = made.files(10)
    for number in range(10):
        pictures[f"copy{number}.jpeg"] = made.drawn(number, "JPEG", scale=0.6)
    private = [number % 2 for number in range(10)] * 2
    truth = made.by_hash(tmp_path / "labels.parquet", pictures, private=private)
    source = made.tree(tmp_path / "pictures", pictures)
    record = made.made(source, truth, tmp_path / "set", seed=seed, validation_share=0.5)
    assert (record.num_labelled, record.num_groups) == (20, 10)
    found = open_set(str(tmp_path / "set"))
    number_of = {made.sha256(content): int(re.sub(r"\D", "", name)) for name, content in pictures.items()}
    sides = {split: {number_of[made.sha256(item.encoded())] for item in found.items(split)} for split in SPLITS}
    assert sides["train"]
    assert sides["validation"]
    assert not sides["train"] & sides["validation"]


def test_pictures_of_an_evaluation_and_their_copies_are_left_out(
    tmp_path: Path, pictures: dict[str, bytes], source: Path, truth: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluation = {
        "same.png": pictures["000.png"],
        "smaller.jpeg": made.drawn(1, "JPEG", scale=0.5),
        "larger.png": made.drawn(2, scale=1.7),
        "another.png": made.drawn(99),
        "broken.png": made.NOT_A_PICTURE,
    }
    run = tmp_path / "run"
    scan_in_process(made.tree(tmp_path / "evaluation", evaluation), run)
    also = made.by_hash(tmp_path / "more.parquet", {"x": pictures["003.png"]}, private=[0])
    command = ("tune", "set", source, "--labels", truth, "--target", "binary", "--quiet", "--validation", 0)
    assert privsieve(*command, "--out", tmp_path / "set", "--exclude", run, "--exclude", also) == 0
    shown = capsys.readouterr()
    left_out = "2 left out because an evaluation set has the same file, 2 because it has a near duplicate; 0 not drawn"
    assert left_out in shown.out
    assert f"{run}: 1 picture without a perceptual hash" in shown.err
    assert f"{also} is a labels file: only the same files are left out" in shown.err
    found = open_set(str(tmp_path / "set"))
    assert found.record.num_excluded == {"sha256": 2, "phash": 2}
    left = {made.sha256(item.encoded()) for item in found.items("train")}
    assert left == {made.sha256(pictures[f"{number:03d}.png"]) for number in range(4, NUM)}


def test_a_tree_of_other_formats_keeps_their_extensions(tmp_path: Path) -> None:
    kinds = ("PNG", "JPEG", "WEBP", "BMP")
    pictures = {f"{n:03d}.dat.{kinds[n % 4].lower()}": made.drawn(n, kinds[n % 4]) for n in range(8)}
    truth = made.by_hash(tmp_path / "labels.parquet", pictures, private=[n // 4 for n in range(8)])
    made.made(made.tree(tmp_path / "tree", pictures), truth, tmp_path / "set", validation_share=0)
    with tarfile.open(tmp_path / "set" / "train-000000.tar") as tar:
        names = tar.getnames()
    assert {name.partition(".")[2] for name in names} == {"png", "jpg", "webp", "bmp", "json"}
    assert len(open_set(str(tmp_path / "set")).items("train")) == 8


def test_the_shards_are_a_webdataset(tmp_path: Path, source: Path, truth: Path, pictures: dict[str, bytes]) -> None:
    made.made(source, truth, tmp_path / "set", validation_share=0)
    read = list(wds.WebDataset(str(tmp_path / "set" / "train-000000.tar"), shardshuffle=False).decode("pil"))
    assert [one["__key__"] for one in read] == [f"{number:09d}" for number in range(NUM)]
    assert {one["json"]["sha256"] for one in read} == {made.sha256(content) for content in pictures.values()}
    assert {one["json"]["target"]["answer"] for one in read} == {"Yes", "No"}
    assert all(one["png"].size == (256, 256) and isinstance(one["png"], Image.Image) for one in read)


def test_a_training_set_can_be_scanned_as_a_corpus(tmp_path: Path, source: Path, truth: Path) -> None:
    made.made(source, truth, tmp_path / "set", validation_share=0.3)
    assert privsieve("scan", tmp_path / "set", "--run", tmp_path / "run", "--engine", "canned") == 0
    rows = pq.read_table(tmp_path / "run" / "scores").to_pylist()
    assert len(rows) == NUM
    assert {row["reason"] for row in rows} == {None}


def test_labels_of_one_split_alone_are_taken(tmp_path: Path, pictures: dict[str, bytes], source: Path) -> None:
    splits = ["train"] * 8 + ["test"] * 4
    private = [number % 2 for number in range(NUM)]
    truth = made.by_hash(tmp_path / "l.parquet", pictures, private=private, split=splits)
    record = made.made(source, truth, tmp_path / "set", split="train")
    assert (record.num_labelled, record.num_unlabelled) == (8, 4)


def test_set_json_names_where_all_came_from(tmp_path: Path, pictures: dict[str, bytes], source: Path) -> None:
    truth = made.by_hash(
        tmp_path / "l.parquet", pictures, private=[n % 2 for n in range(NUM)], licence=["CC BY 4.0"] * NUM
    )
    made.made(source, truth, tmp_path / "set", prompt_file=b"answers: {yes: [ja], no: [nein]}")
    record = open_set(str(tmp_path / "set")).record
    assert record.licences == ("CC BY 4.0",)
    assert record.labels_sha256 == made.sha256(truth.read_bytes())
    assert record.prompt_file == "answers: {yes: [ja], no: [nein]}"
    assert record.files == {file.name: made.sha256(file.read_bytes()) for file in (tmp_path / "set").glob("*.tar")}
    assert open_set(str(tmp_path / "set")).protocol().version == record.protocol_version
    assert {item.target.answer for item in open_set(str(tmp_path / "set")).items("train")} == {"ja", "nein"}


def test_a_large_set_has_several_shards(
    tmp_path: Path, source: Path, truth: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.tuning.training_set.PICTURES_PER_SHARD", 5)
    made.made(source, truth, tmp_path / "set", validation_share=0)
    found = open_set(str(tmp_path / "set"))
    assert sorted(found.record.files) == [f"train-{number:06d}.tar" for number in range(3)]
    sizes = [Image.open(io.BytesIO(item.encoded())).size for item in found.items("train")]
    assert sizes == [(256, 256)] * NUM
    assert json.loads((tmp_path / "set" / "set.json").read_bytes())["format"] == 1


def test_a_picture_on_the_hash_list_and_its_copies_are_never_copied_into_a_set(
    tmp_path: Path, pictures: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    smaller = Image.open(io.BytesIO(pictures["004.png"])).convert("RGB").transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    bits = pdqhash.compute(np.asarray(smaller.resize((200, 200))))[0]
    (tmp_path / "list.txt").write_text(
        f"sha256 {made.sha256(pictures['001.png'])}\npdq {np.packbits(np.asarray(bits, np.uint8)).tobytes().hex()}\n"
    )
    truth = made.by_hash(tmp_path / "labels.parquet", pictures)
    copies = {"again.png": pictures["001.png"], "more.png": pictures["004.png"], "twice.png": pictures["002.png"]}
    source = made.tree(tmp_path / "pictures", pictures | copies)
    command = ("tune", "set", source, "--labels", truth, "--target", "binary", "--out", tmp_path / "set", "--quiet")
    assert privsieve(*command, "--hash-list", tmp_path / "list.txt") == 0
    output = capsys.readouterr().out
    assert output.startswith("15 pictures: 10 usable, 1 more copies of these, ")
    assert "0 without a label, 4 on the hash list;" in output
    record = open_set(str(tmp_path / "set")).record
    assert (record.num_pictures, record.num_labelled, record.num_copies, record.num_listed) == (15, 10, 1, 4)
    written = []
    for shard in (tmp_path / "set").glob("*.tar"):
        with tarfile.open(shard) as archive:
            files = (archive.extractfile(member) for member in archive if member.name.endswith(".png"))
            written += [file.read() for file in files if file is not None]
    assert len(written) == 10
    assert not {pictures["001.png"], pictures["004.png"]} & set(written)
