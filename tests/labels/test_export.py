"""`privsieve labels export`, and the import of what people made of it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image

from scoring.labels.label_studio import Asked, interface
from scoring.labels.table import LabelsOrigin, read_labels, to_labels, write_labels
from scoring.taxonomy import KEYS
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import privsieve
from tests.labels.made import picture
from tests.making import Capture
from tests.reviewing.made import pdq
from tests.tuning_sets.made import by_hash, files, sha256, tree


def _labels(path: Path) -> Path:
    columns: dict[str, Sequence[object]] = {
        "sha256": ["ab" * 32, "cd" * 32, None],
        "key": ["=a.jpg", 'b & "c".jpg', "gone.jpg"],
        "annotator": ["run", "run", "run"],
        "private": [1, 0, None],
        "class": ["face", "a <public> one", None],
        "nudity": [1, 0.5, None],
        "age": [0, None, None],
    }
    write_labels(to_labels(columns, 3), str(path), LabelsOrigin("test"))
    return path


def _annotated(tasks: list[dict[str, Any]], changes: dict[int, dict[str, str]], person: object) -> None:
    """What Label Studio exports when a person accepts the predictions but for some answers."""
    for number, task in enumerate(tasks):
        results = [dict(result) for one in task["predictions"] for result in one["result"]]
        changed = changes.get(number, {})
        results = [result for result in results if result["from_name"] not in changed]
        results += [
            {"from_name": name, "to_name": "image", "type": "choices", "value": {"choices": [choice]}, "id": "x1"}
            for name, choice in changed.items()
        ]
        annotation = {"id": number, "completed_by": person, "was_cancelled": False, "result": results}
        task.setdefault("annotations", []).append(annotation)


def _imported(path: Path, out: Path, *options: object) -> list[dict[str, Any]]:
    assert privsieve("labels", "import", "label-studio", path, "--out", out, "--quiet", *options) == 0
    found: list[dict[str, Any]] = read_labels(str(out)).to_pylist()
    return found


def _run_of_two(tmp_path: Path) -> Path:
    picture(tmp_path / "corpus/one/1.jpg", 1)
    picture(tmp_path / "corpus/two/1.jpg", 2)
    scan_in_process(tmp_path / "corpus", tmp_path / "run")
    return tmp_path / "run"


def test_a_run_goes_through_label_studio_and_comes_back(tmp_path: Path, capsys: Capture) -> None:
    run, out = _run_of_two(tmp_path), tmp_path / "tasks.json"
    assert privsieve("labels", "export", tmp_path / "l.csv", "--format", "label-studio", "--out", out) == 2
    assert "Label Studio's tasks are made of a run" in capsys.readouterr().err
    assert privsieve("labels", "export", run, "--format", "label-studio", "--out", out) == 0
    assert f"labelling interface: {tmp_path / 'tasks.xml'}" in capsys.readouterr().out
    tasks = json.loads(out.read_text())
    names = {f"/data/local-files/?d=tasks-pictures/{task['data']['sha256']}.jpg" for task in tasks}
    assert {task["data"]["image"] for task in tasks} == names
    _annotated(tasks, {}, 7)
    out.write_text(json.dumps(tasks))
    back = _imported(out, tmp_path / "back.parquet")
    assert privsieve("labels", "export", run, "--format", "csv", "--out", tmp_path / "run.csv") == 0
    before = {row["sha256"]: row for row in read_labels(str(tmp_path / "run.csv")).to_pylist()}
    for row in back:
        assert row["annotator"] == "person 7"
        assert {key: row[key] for key in ("private", *KEYS)} == {
            key: before[row["sha256"]][key] for key in ("private", *KEYS)
        }


def test_the_interface_has_every_attribute_and_fits_the_tasks(tmp_path: Path) -> None:
    out = tmp_path / "tasks.json"
    assert privsieve("labels", "export", _run_of_two(tmp_path), "--format", "label-studio", "--out", out) == 0
    view = ElementTree.fromstring((tmp_path / "tasks.xml").read_text())  # our own file
    choices = {one.attrib["name"]: {c.attrib["value"] for c in one} for one in view.iter("Choices")}
    assert set(choices) == {*KEYS, "private"}
    image = next(iter(view.iter("Image"))).attrib
    for task in json.loads(out.read_text()):
        assert image["value"] == "$image"
        assert "image" in task["data"]
        for prediction in task["predictions"]:
            for result in prediction["result"]:
                assert result["to_name"] == image["name"]
                assert set(result["value"]["choices"]) <= choices[result["from_name"]]


@pytest.mark.parametrize(
    ("asked", "questions", "definition"),
    [
        ("private", {"private"}, "a unique identifier (level 1"),
        ("classes", {"class"}, "fingerprint: a fingerprint from near"),
        ("votes", {"vote"}, "must never be online"),
        ("attributes", set(KEYS), "level 1, "),
    ],
)
def test_the_interface_has_one_question_with_its_own_definition(
    asked: Asked, questions: set[str], definition: str
) -> None:
    view = ElementTree.fromstring(interface(asked))
    assert {one.attrib["name"] for one in view.iter("Choices")} == questions
    assert definition in view.findall("Header")[0].attrib["value"]


def test_people_correct_a_run_and_their_answers_join_it(tmp_path: Path) -> None:
    _run_of_two(tmp_path)
    out = tmp_path / "tasks.json"
    export = ("labels", "export", tmp_path / "run", "--format", "label-studio", "--out", out)
    assert privsieve(*export, "--image-prefix", "https://images.invalid/") == 0
    tasks = json.loads(out.read_text())
    for task in tasks:  # nothing says what the file was called
        name = f"{task['data']['sha256']}.jpg"
        assert task["data"] == {"image": f"https://images.invalid/{name}", "sha256": name[:64]}
        assert Image.open(tmp_path / "tasks-pictures" / name).size == Image.open(tmp_path / "corpus/one/1.jpg").size
    _annotated(tasks, {0: {"nudity": "unclear"}}, {"id": 3, "email": "jane@example.org"})
    _annotated(tasks, {1: {"private": "private"}}, 4)
    tasks[0]["annotations"][1]["was_cancelled"] = True
    out.write_text(json.dumps(tasks))
    found = _imported(out, tmp_path / "people.parquet")
    assert b"jane" not in (tmp_path / "people.parquet").read_bytes()
    by = {(row["sha256"], row["annotator"]): row for row in found}
    first, second = (task["data"]["sha256"] for task in tasks)
    assert len(by) == 4
    assert by[first, "person 3"]["nudity"] == 0.5
    assert {by[first, "person 4"][key] for key in KEYS} == {None}  # skipped
    assert by[second, "person 4"]["private"] == 1
    assert by[second, "person 3"]["private"] == 1  # the run's answer, which was not changed
    agreement = ("labels", "agreement", tmp_path / "run", tmp_path / "people.parquet")
    assert privsieve(*agreement) == 0


def test_an_export_as_json_min_is_refused_by_its_name(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "tasks.json").write_text(json.dumps([{"image": "a", "key": "a.jpg", "annotator": 7, "id": 1}]))
    given = ("labels", "import", "label-studio", tmp_path / "tasks.json", "--out", tmp_path / "l.parquet")
    assert privsieve(*given) != 0
    assert "export from Label Studio as JSON, not JSON-MIN" in capsys.readouterr().err


def test_a_task_without_an_answer_is_a_row_of_null_and_no_further_annotator(tmp_path: Path) -> None:
    tasks: list[dict[str, Any]] = [{"data": {"key": f"{n}.jpg"}, "predictions": []} for n in range(3)]
    _annotated(tasks[:2], {0: {"private": "public"}, 1: {"shape": "round"}}, 5)
    (tmp_path / "tasks.json").write_text(json.dumps(tasks))
    found = _imported(tmp_path / "tasks.json", tmp_path / "l.parquet")
    assert [(row["key"], row["annotator"], row["private"]) for row in found] == [
        ("0.jpg", "person 5", 0),
        ("1.jpg", "person 5", None),
        ("2.jpg", "person 5", None),
    ]


def test_characters_that_json_escapes_in_two_halves_are_kept(tmp_path: Path) -> None:
    (tmp_path / "tasks.json").write_text(json.dumps([{"data": {"key": "\U0001f600.jpg"}}]))
    assert "\\ud83d\\ude00" in (tmp_path / "tasks.json").read_text()
    assert [row["key"] for row in _imported(tmp_path, tmp_path / "l.parquet")] == ["\U0001f600.jpg"]


def test_a_class_of_privbench_says_whether_a_picture_is_private(tmp_path: Path) -> None:
    tasks: list[dict[str, Any]] = [{"data": {"key": name}, "predictions": []} for name in "abc"]
    _annotated(tasks, {0: {"class": "passport"}, 1: {"class": "public"}, 2: {"class": "beach"}}, 5)
    (tmp_path / "tasks.json").write_text(json.dumps(tasks))
    assert [row["private"] for row in _imported(tmp_path, tmp_path / "l.parquet")] == [1, 0, None]


def test_the_last_annotation_of_a_person_counts(tmp_path: Path) -> None:
    tasks: list[dict[str, Any]] = [{"data": {"key": "a.jpg"}, "predictions": []}]
    _annotated(tasks, {0: {"private": "public"}}, 5)
    _annotated(tasks, {0: {"private": "private"}}, 5)
    (tmp_path / "tasks.json").write_text(json.dumps(tasks))
    assert [row["private"] for row in _imported(tmp_path, tmp_path / "l.parquet")] == [1]


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"data": {"image": "x"}}, 'tasks.json, task 1: its data has neither "sha256" nor "key"'),
        ({"data": {"key": "", "sha256": ""}}, 'tasks.json, task 1: its data has neither "sha256" nor "key"'),
        ({"data": {"key": "Jane\ud800"}}, "tasks.json: is not JSON in UTF-8"),
        (
            {
                "data": {"key": "a"},
                "annotations": [{"result": [{"from_name": "class", "value": {"choices": ["Jane\ud800"]}}]}],
            },
            "tasks.json: is not JSON in UTF-8",
        ),
        ({"data": {"key": "a"}, "annotations": {}}, 'tasks.json, task 1: "annotations" is not a list'),
        ({"data": {"key": "a"}, "annotations": [{"result": "Jane"}]}, "an annotation has no list of results"),
        ({"data": {"key": "a"}, "annotations": [{"result": [{}]}]}, 'a result has no "from_name"'),
        (
            {"data": {"key": "a"}, "annotations": [{"result": [{"from_name": "age", "value": {"choices": ["Jane"]}}]}]},
            'the answer to "age" is not one that labels export offers',
        ),
        (
            {"data": {"key": "a"}, "annotations": [{"result": [{"from_name": "age", "value": {"choices": []}}]}]},
            '"age" has 0 answers; give one',
        ),
    ],
)
def test_wrong_tasks_are_refused_with_their_number(
    tmp_path: Path, capsys: Capture, task: dict[str, Any], message: str
) -> None:
    (tmp_path / "tasks.json").write_text(json.dumps([task]))
    assert privsieve("labels", "import", "label-studio", tmp_path, "--out", tmp_path / "l.parquet", "--quiet") == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert "Jane" not in shown
    assert not (tmp_path / "l.parquet").exists()


def test_csv_goes_out_and_comes_back_the_same(tmp_path: Path) -> None:
    source = _labels(tmp_path / "labels.parquet")
    out = tmp_path / "out" / "labels.csv"
    assert privsieve("labels", "export", source, "--format", "csv", "--out", out) == 0
    assert not [line for line in out.read_text().splitlines() if line.startswith(("=", '"=')) or ',"=' in line]
    assert privsieve("labels", "import", "csv", out, "--out", tmp_path / "back.parquet", "--quiet") == 0
    assert read_labels(str(tmp_path / "back.parquet")).equals(read_labels(str(source)))


def test_a_picture_that_cannot_be_decoded_is_no_task_and_counted_as_that(tmp_path: Path, capsys: Capture) -> None:
    run, out = tmp_path / "run", tmp_path / "tasks.json"
    scan_in_process(tree(tmp_path / "corpus", files(2) | {"broken.jpg": b"GIF89a"}), run)
    assert privsieve("labels", "export", run, "--format", "label-studio", "--out", out) == 0
    assert "1 of 3 pictures are left out: they cannot be decoded" in capsys.readouterr().err


def test_a_picture_on_the_hash_list_is_no_task_and_only_counted(tmp_path: Path, capsys: Capture) -> None:
    pictures = files(4)
    run, hashes, out = tmp_path / "run", tmp_path / "hashes.txt", tmp_path / "tasks.json"
    scan_in_process(tree(tmp_path / "corpus", pictures), run)
    hashes.write_text(f"sha256 {sha256(pictures['001.png'])}\npdq {pdq(pictures['003.png'])}\n")
    assert privsieve("labels", "export", run, "--format", "label-studio", "--out", out, "--hash-list", hashes) == 0
    output = capsys.readouterr().out
    assert output.startswith("left out: 2 pictures on the hash list\n2 rows in ")
    kept = {sha256(pictures[name]) for name in ("000.png", "002.png")}
    assert {task["data"]["sha256"] for task in json.loads(out.read_text())} == kept
    assert {file.stem for file in (tmp_path / "tasks-pictures").iterdir()} == kept

    labels = by_hash(tmp_path / "labels.parquet", pictures)
    command = ("labels", "export", labels, "--format", "csv", "--out", tmp_path / "out.csv", "--hash-list", hashes)
    assert privsieve(*command) == 2
    assert "holds no pictures, with which the PDQ hashes of --hash-list could be compared" in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()
    hashes.write_text(f"sha256 {sha256(pictures['001.png'])}\n")
    assert privsieve(*command) == 0
    assert sha256(pictures["001.png"]) not in (tmp_path / "out.csv").read_text()
    assert read_labels(str(tmp_path / "out.csv")).num_rows == 3
