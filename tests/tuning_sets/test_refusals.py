"""What `tune set` refuses, each in one line, and that it leaves nothing half-written."""

import resource
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import pytest

from ingest.errors import LabelsError, PrivsieveError, StorageError
from ingest.formats import Source
from jobs.runtime.progress import SILENT
from jobs.tuning.training_set import TuneSetRequest, run_tune_set
from scoring.tuning.targets import Draw
from scoring.tuning.training_set import open_set
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import privsieve
from tests.tuning_sets import made

NUM = 8
PRIVATE = [number % 2 for number in range(NUM)]


def refused(source: Path, truth: Path, out: Path, match: str, target: str = "binary", **more: object) -> str:
    """Also: nothing was written."""
    before = sorted(out.iterdir()) if out.is_dir() else None
    with pytest.raises(PrivsieveError, match=match) as error:
        made.made(source, truth, out, target, **more)
    assert "\n" not in str(error.value)
    assert (sorted(out.iterdir()) if out.is_dir() else None) == before
    return str(error.value)


@pytest.mark.parametrize("target", ["binary", "severity", "slots"])
def test_one_answer_only_teaches_nothing(target: str, tmp_path: Path, pictures: dict[str, bytes], source: Path) -> None:
    rows = [made.values() for _ in range(NUM)]
    truth = made.by_hash(tmp_path / "l.parquet", pictures, private=[1] * NUM, **made.attribute_columns(rows))
    match = f"all [1-8] pictures to tune on have the same answer for --target {target}, so there is nothing to learn"
    refused(source, truth, tmp_path / "set", match, target)


def test_leaving_out_a_class_can_leave_one_answer(tmp_path: Path, source: Path, truth: Path) -> None:
    draw = Draw(leave_out=("public",))
    refused(source, truth, tmp_path / "set", "have the same answer", draw=draw)
    draw = Draw(leave_out=("public", "card", "face"))
    refused(source, truth, tmp_path / "set", "no picture is left to draw from; leave out fewer classes", draw=draw)


def test_a_label_of_several_annotators_is_refused(tmp_path: Path, pictures: dict[str, bytes], source: Path) -> None:
    hashes = [made.sha256(content) for content in pictures.values()]
    twice = made.labels(
        tmp_path / "twice.parquet",
        NUM + 1,
        sha256=[*hashes, hashes[0]],
        private=[*PRIVATE, 1],
        annotator=["ann"] * NUM + ["bob"],
    )
    result = refused(
        source, twice, tmp_path / "set", "has labels of several annotators; make one label per picture with"
    )
    assert f"{hashes[0]} has labels" in result
    assert f"privsieve labels consensus {twice} --out FILE" in result
    mixed = made.labels(
        tmp_path / "mixed.parquet",
        NUM + 1,
        sha256=[*hashes, None],
        key=[*pictures, "000.png"],
        private=[*PRIVATE, 1],
        annotator=["ann"] * NUM + ["bob"],
    )
    refused(source, mixed, tmp_path / "set", "000.png has labels of several annotators")


def test_a_key_of_two_pictures_is_refused(tmp_path: Path) -> None:
    pictures = {f"{'ab'[n % 2]}/{n // 2}.png": made.drawn(n) for n in range(8)}
    truth = made.labels(tmp_path / "l.parquet", 4, key=[f"{n}.png" for n in range(4)], private=[0, 1, 0, 1])
    result = refused(
        made.tree(tmp_path / "tree", pictures), truth, tmp_path / "set", 'two different pictures have the key "'
    )
    assert result.endswith('"; name them by sha256')


def test_copies_with_different_labels_are_refused(tmp_path: Path, pictures: dict[str, bytes], source: Path) -> None:
    (source / "copy.png").write_bytes(pictures["000.png"])
    keys = [*pictures, "copy.png"]
    truth = made.labels(tmp_path / "l.parquet", NUM + 1, key=keys, private=[*PRIVATE, 1])
    match = r"000\.png and \S*copy\.png are the same file and have different labels"
    refused(source, truth, tmp_path / "set", match)
    truth = made.labels(tmp_path / "l2.parquet", NUM + 1, key=keys, private=[*PRIVATE, 0])
    assert made.made(source, truth, tmp_path / "set").num_copies == 1


def test_all_in_an_evaluation_set_is_refused(tmp_path: Path, source: Path, truth: Path) -> None:
    scan_in_process(source, tmp_path / "run")
    match = r"all 8 labelled pictures are in an evaluation set \(8 the same file, 0 near duplicates\)"
    refused(source, truth, tmp_path / "set", match, exclude=(str(tmp_path / "run"),))


def test_what_is_no_evaluation_set_is_refused(
    tmp_path: Path, pictures: dict[str, bytes], source: Path, truth: Path
) -> None:
    made.made(source, truth, tmp_path / "other")
    by_key = made.labels(tmp_path / "keys.parquet", NUM, key=list(pictures), private=PRIVATE)
    for url, match in (
        (tmp_path / "other", "other is a training set; give the run or the labels file of an evaluation"),
        (source, "run.json|no run"),
        (by_key, "names no picture by sha256, so none could be left out; give a run over these"),
        (source / "000.png", "000.png: cannot be read as CSV in UTF-8"),
        (tmp_path / "nowhere", "nowhere"),
    ):
        refused(source, truth, tmp_path / "set", match, exclude=(str(url),))


def test_labels_of_other_pictures_are_refused_with_counts(tmp_path: Path, source: Path) -> None:
    other = made.labels(tmp_path / "l.parquet", 1, key=["elsewhere.png"], private=[1])
    match = "can be used: of 8, 8 without a label, 0 whose label does not say private or public, 0 unread"
    refused(source, other, tmp_path / "set", match)
    mute = made.labels(tmp_path / "m.parquet", 1, key=["000.png"], private=[None])
    refused(source, mute, tmp_path / "set", "of 8, 7 without a label, 1 whose label does not say private or public")


def test_labels_that_are_no_labels_are_refused(tmp_path: Path, source: Path, truth: Path) -> None:
    out = tmp_path / "set"
    refused(source, source, out, "pictures is a folder, and --labels takes a file; of a run make one with")
    refused(source, tmp_path / "nowhere.parquet", out, "nowhere.parquet cannot be read")
    refused(source, made.labels(tmp_path / "none.parquet", 0, key=[]), out, "none.parquet: holds no labels")
    refused(source, truth, out, 'no label is of the split "train"; the labels name no split', split="train")
    split = made.labels(tmp_path / "s.parquet", 2, key=["a", "b"], split=["test", "val"], private=[0, 1])
    refused(source, split, out, 'no label is of the split "train"; there are: test, val', split="train")


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path, source: Path, truth: Path) -> None:
    out = tmp_path / "set"
    out.mkdir()
    (out / "train-000000.tar").write_bytes(b"somebody else's")
    refused(source, truth, out, "already exists and is not empty; name another --out, or remove it")
    refused(source, truth, truth, "labels.parquet: not a directory; name another folder")
    made.made(source, truth, tmp_path / "whole")
    refused(source, truth, tmp_path / "whole", "already exists and is not empty")
    with pytest.raises(StorageError, match="a training set is written to a folder of this machine"):
        run_tune_set(TuneSetRequest(str(source), str(truth), "memory://set", "binary"), SILENT)


def test_options_that_do_not_fit_are_refused(tmp_path: Path, source: Path, truth: Path) -> None:
    out = tmp_path / "set"
    refused(source, truth, out, "--protocol slots does not fit --target binary, which is for bin", protocol="slots")
    refused(source, truth, out, 'no variant "ours-5"', protocol="binary:ours-5")
    refused(source, truth, out, "--keep-ambiguous is for --target slots, not binary; leave it", keep_ambiguous=True)
    refused(source, truth, out, "--dialogues is for --target dialogue, not binary", dialogues="x.jsonl")
    refused(source, truth, out, "--target dialogue needs --dialogues FILE", "dialogue")
    refused(source, truth, out, "the prompt file is not written in UTF-8", prompt_file="ours_1: é".encode("utf-16"))
    refused(tmp_path / "nowhere", truth, out, "nowhere does not exist")


def test_too_few_pictures_are_named(tmp_path: Path, source: Path, truth: Path) -> None:
    match = "--per-class: too few pictures: card 2 of 3, face 2 of 3, public 4 of 6; lower it, or label more"
    refused(source, truth, tmp_path / "set", match, draw=Draw(per_class=3))
    refused(source, truth, tmp_path / "set", "--n 9: there are 8 pictures", draw=Draw(num_pictures=9))


def test_refusals_are_one_line_for_the_user(
    tmp_path: Path, source: Path, truth: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("tune", "set", source, "--labels", truth, "--target", "binary", "--out", tmp_path / "set")
    for wrong in (
        ("--validation", "nan"),
        ("--validation", "0.6"),
        ("--n", "1"),
        ("--per-class", "0"),
        ("--seed", "-1"),
    ):
        assert privsieve(*command, *wrong) == 2
        assert wrong[0] in capsys.readouterr().err
    assert privsieve(*command, "--leave-out", "fase") == 2
    shown = capsys.readouterr().err
    assert '--leave-out: no picture has the class "fase" (did you mean "face"?)' in shown
    assert "Traceback" not in shown
    assert not (tmp_path / "set").exists()


def test_an_interrupted_set_is_no_set_and_is_made_again_in_its_folder(
    tmp_path: Path, source: Path, truth: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, out = tmp_path / "whole", tmp_path / "set"
    made.made(source, truth, whole)
    # What a killed process leaves: the mark, and half of a shard.
    out.mkdir()
    (out / "unfinished").touch()
    (out / "train-000000.tar").write_bytes((whole / "train-000000.tar").read_bytes()[:1000])
    (out / "train-000001.tar").touch()
    with pytest.raises(LabelsError, match="its tune set was interrupted; run the same command again"):
        open_set(str(out))
    assert privsieve("tune", "set", source, "--labels", truth, "--target", "binary", "--out", out, "--quiet") == 0
    assert f"{out}: 2 shards of an interrupted tune set removed" in capsys.readouterr().err
    assert {file.name: file.read_bytes() for file in out.iterdir()} == {
        file.name: file.read_bytes() for file in whole.iterdir()
    }


def test_a_mark_does_not_make_other_files_ours(tmp_path: Path, source: Path, truth: Path) -> None:
    out = tmp_path / "set"
    out.mkdir()
    (out / "unfinished").touch()
    (out / "holiday.jpg").touch()
    refused(source, truth, out, "already exists and is not empty")


def test_a_source_that_changes_between_the_passes_leaves_nothing(
    tmp_path: Path, source: Path, truth: Path, pictures: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    samples, passes = Source.samples, count(1)

    def changed(corpus: Source) -> Iterator[object]:
        if next(passes) == 2:
            (source / "005.png").write_bytes(pictures["004.png"])
        yield from samples(corpus)

    monkeypatch.setattr(Source, "samples", changed)
    refused(source, truth, tmp_path / "set", "a picture has changed while the set was made; start again")

    passes = count(1)

    def gone(corpus: Source) -> Iterator[object]:
        yield from islice(samples(corpus), 3 if next(passes) == 2 else None)

    (source / "005.png").write_bytes(pictures["005.png"])
    monkeypatch.setattr(Source, "samples", gone)
    refused(source, truth, tmp_path / "set", "pictures of the source have gone while the set was made; start again")


def test_a_shard_that_cannot_be_written_is_one_line_and_leaves_nothing(
    tmp_path: Path, source: Path, truth: Path
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        refused(source, truth, tmp_path / "set", "cannot write .*set: file too large")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not (tmp_path / "set").exists()
