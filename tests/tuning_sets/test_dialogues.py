"""`--target dialogue`: conversations of the user, joined with labels of people."""

import json
from pathlib import Path
from typing import Any

import pytest

from ingest.errors import LabelsError, StorageError
from scoring.tuning.dialogues import MAX_LINE_BYTES, MAX_TURNS, dialogues
from scoring.tuning.training_set import open_set
from tests.jobs.made import privsieve
from tests.tuning_sets import made

SECRET = "Jane Doe, 5 Elm Street"
TURNS = [
    {"role": "user", "text": "Is anything private in it?"},
    {"role": "assistant", "text": f"Yes: {SECRET}."},
    {"role": "user", "text": "Sure?"},
    {"role": "assistant", "text": "Yes."},
]


def written(tmp_path: Path, *lines: object) -> Path:
    file = tmp_path / "dialogues.jsonl"
    file.write_bytes(b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines))
    return file


def test_conversations_are_stored_with_the_class_of_the_label(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pictures = made.files(8)
    truth = made.by_hash(tmp_path / "l.parquet", pictures)
    source = made.tree(tmp_path / "pictures", pictures)
    by_key: list[object] = [{"key": f"00{number}.png", "turns": TURNS} for number in range(3)]
    by_hash: list[object] = [
        {"sha256": made.sha256(pictures[f"00{number}.png"]).upper(), "turns": TURNS[:2]} for number in (3, 4)
    ]
    file = written(tmp_path, *by_key, b"  ", *by_hash, {"key": "elsewhere.png", "turns": TURNS})
    out = tmp_path / "set"
    command = ("tune", "set", source, "--labels", truth, "--target", "dialogue", "--dialogues", file)
    assert privsieve(*command, "--out", out, "--validation", 0, "--quiet") == 0
    shown = capsys.readouterr()
    assert f"{file}: 1 conversations are of no labelled picture of the source" in shown.err
    assert "8 pictures: 5 usable, 0 more copies of these, 3 without a conversation, or whose label does" in shown.out
    items = open_set(str(out)).items("train")
    assert [len(item.target.turns or ()) for item in items] == [4, 4, 4, 2, 2]
    assert items[0].target.turns == tuple((turn["role"], turn["text"]) for turn in TURNS)
    assert [item.class_name for item in items] == [None, "card", None, "face", None]
    assert SECRET not in shown.out + shown.err + (out / "set.json").read_text()


def test_the_label_must_say_private_or_not_and_both_must_be_there(tmp_path: Path) -> None:
    pictures = made.files(4)
    source = made.tree(tmp_path / "pictures", pictures)
    file = written(tmp_path, *({"key": name, "turns": TURNS} for name in pictures))
    more: dict[str, Any] = {"dialogues": str(file), "validation_share": 0}
    open_ = made.by_hash(tmp_path / "open.parquet", pictures, private=[0, 1, None, None])
    assert made.made(source, open_, tmp_path / "set", "dialogue", **more).num_without_target == 2
    alike = made.by_hash(tmp_path / "alike.parquet", pictures, private=[1] * 4)
    with pytest.raises(LabelsError, match="all 4 pictures to tune on have the same answer for --target dialogue"):
        made.made(source, alike, tmp_path / "other", "dialogue", **more)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "Invalid JSON: EOF while parsing"),
        (b"[" * 50_000, "Invalid JSON: recursion limit exceeded"),
        (b"\xff", "Invalid JSON: "),
        (b"[]", "Input should be an object"),
        ({"key": "k", "turns": [SECRET, SECRET]}, "turns.0: Input should be an object"),
        ({"turns": TURNS}, "has neither sha256 nor key, one of which names the picture"),
        ({"sha256": SECRET, "turns": TURNS}, "sha256: String should match pattern"),
        ({"key": "k", "turns": []}, "turns: List should have at least 2 items"),
        ({"key": "k", "turns": TURNS * MAX_TURNS}, "turns: List should have at most 40 items"),
        ({"key": "k", "turns": TURNS[1:]}, "turns must alternate, from user to assistant, and end with the assistant"),
        ({"key": "k", "turns": TURNS[:3]}, "turns must alternate"),
        ({"key": "k", "turns": [{"role": "human", "text": SECRET}, TURNS[1]]}, "turns.0.role: Input should be 'user'"),
        ({"key": "k", "turns": [{"role": "user", "text": " "}, TURNS[1]]}, "a turn has no text"),
        ({"key": "k", "turns": [{"role": "user", "text": "<image>\nWhat?"}, TURNS[1]]}, 'a text holds "<image>"'),
        ({"key": "k", "turns": TURNS, SECRET: 1}, "Extra inputs are not permitted"),
        (b'{"key": "k", "turns": "' + b"x" * MAX_LINE_BYTES + b'"}', "has more than 131,072 bytes"),
    ],
    ids=lambda one: str(one)[:50],
)
def test_a_wrong_line_is_named_without_its_text(tmp_path: Path, line: object, message: str) -> None:
    file = written(tmp_path, {"key": "good", "turns": TURNS}, line)
    with pytest.raises(LabelsError) as error:
        list(dialogues(str(file)))
    assert str(error.value).startswith(f"{file}, line 2: ")
    assert message in str(error.value)
    assert SECRET not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_missing_empty_or_says_a_picture_twice_is_refused(tmp_path: Path) -> None:
    pictures = made.files(2)
    source, truth = made.tree(tmp_path / "p", pictures), made.by_hash(tmp_path / "l.parquet", pictures)
    one = {"key": "000.png", "turns": TURNS}
    for file, lines, message in (
        ("nowhere.jsonl", None, "nowhere.jsonl cannot be read: no such file"),
        ("dialogues.jsonl", [], "holds no conversation"),
        ("dialogues.jsonl", [one, one], "line 2: the picture has a conversation already; keep one"),
    ):
        if lines is not None:
            written(tmp_path, *lines)
        with pytest.raises((LabelsError, StorageError), match=message):
            made.made(source, truth, tmp_path / "set", "dialogue", dialogues=str(tmp_path / file))
    assert not (tmp_path / "set").exists()
