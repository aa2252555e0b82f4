"""Label Studio: the labelling interface, tasks with answers to correct, and the importer of what people answered.

Source of the formats: Label Studio's documentation, "Import pre-annotated data" and "Export annotations" (JSON).
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

import pyarrow as pa

from ingest.errors import LabelsError
from ingest.storage.given_files import given_content
from ingest.storage.place import Place
from scoring.labels.label_files import PRIVATE_VOTES, SHOWN_TO, VOTES
from scoring.labels.source_files import MAX_LABEL_FILE_BYTES, LabelledPicture, folder_and_file, json_of
from scoring.privacy import PRIVATE_CLASSES, SHOWS_PRIVATE
from scoring.taxonomy import ATTRIBUTES, KEYS, LEVELS

IMAGE = "image"
ANSWERS = {"present": 1.0, "unclear": 0.5, "absent": 0.0}
"""Choice of an attribute -> its value. No choice is null."""

PUBLIC = "public"
PRIVATE = {"private": 1, PUBLIC: 0}
LOCAL_FILES = "/data/local-files/?d="
"""Prefix under which Label Studio serves a folder of its own machine."""


def tasks(labels: pa.Table, names: Mapping[str, str], image_prefix: str) -> bytes:
    """Build the JSON file to import: one task per picture, with its label as a prediction.

    labels: one row a picture. names: sha256 of a picture -> its name below the prefix; others are left out. Tasks do
    not say the picture's own name, which in some data sets is its label.
    """
    listed = []
    for row in labels.to_pylist():
        if (sha256 := row["sha256"]) in names:
            data = {IMAGE: f"{image_prefix}{quote(names[sha256])}", "sha256": sha256}
            results = _results(row)
            predictions = [{"model_version": row["annotator"], "result": results}] if results else []
            listed.append({"data": data, "predictions": predictions})
    return (json.dumps(listed, indent=1) + "\n").encode()


Asked = Literal["private", "classes", "votes", "attributes"]


def interface(asked: Asked | None = None) -> bytes:
    """Build the labelling interface (XML), with the definition of what is asked and no other.

    asked: None for private and three choices per attribute.
    """
    lines = ["<View>", f'  <Image name="{IMAGE}" value="${IMAGE}" zoom="true"/>']
    if asked in (None, "private"):
        lines += _choices("private", f"Is the picture private? Private: it shows {SHOWS_PRIVATE}.", list(PRIVATE))
    if asked == "classes":
        rules = "; ".join(f"{name}: {rule}" for name, (rule, _) in PRIVATE_CLASSES.items())
        lines += _choices("class", f"Which does the picture show? {rules}; public: none", [*PRIVATE_CLASSES, PUBLIC])
    if asked == "votes":
        who = "; ".join(f"{vote}: {shown_to}" for vote, shown_to in SHOWN_TO.items())
        lines += _choices("vote", f"If it were yours, who may see the picture? {who}", list(VOTES))
    for attribute in ATTRIBUTES if asked in (None, "attributes") else ():
        title = f"{attribute.title} (level {attribute.level}, {LEVELS[attribute.level]}): {attribute.shows}"
        lines += _choices(attribute.key, title, list(ANSWERS))
    return ("\n".join([*lines, "</View>"]) + "\n").encode()


def _choices(name: str, title: str, values: list[str]) -> list[str]:
    head = f'  <Choices name="{name}" toName="{IMAGE}" choice="single" showInline="true">'
    inner = [f"    <Choice value={quoteattr(value)}/>" for value in values]
    return [f'  <Header size="6" value={quoteattr(title)}/>', head, *inner, "  </Choices>"]


def _results(row: Mapping[str, object]) -> list[dict[str, object]]:
    attributes = {value: choice for choice, value in ANSWERS.items()}
    chosen = {key: attributes[row[key]] for key in KEYS if isinstance(row[key], float)}  # type: ignore[index]
    if row["private"] is not None:
        chosen["private"] = {value: choice for choice, value in PRIVATE.items()}[row["private"]]  # type: ignore[index]
    return [
        {"from_name": name, "to_name": IMAGE, "type": "choices", "value": {"choices": [choice]}}
        for name, choice in chosen.items()
    ]


def pictures(root: Place) -> Iterator[LabelledPicture]:
    """Yield one row per picture and person of a JSON export of tasks that `labels export` made.

    People are called "person" with the number that Label Studio gave them: e-mail addresses are not kept. A task that
    was not answered, or that a person skipped, is a row of null.
    """
    folder, name = folder_and_file(root, "tasks.json")
    tasks = json_of(given_content(folder.at(name), name, MAX_LABEL_FILE_BYTES), name)
    is_min = isinstance(tasks, list) and any(isinstance(task, dict) and "data" not in task for task in tasks)
    if is_min or not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise LabelsError(f"{name}: is not a list of tasks; export from Label Studio as JSON, not JSON-MIN")
    answered = [_annotations(task, f"{name}, task {number + 1}") for number, task in enumerate(tasks)]
    everyone = sorted({person for annotations in answered for person in annotations})
    for number, (task, annotations) in enumerate(zip(tasks, answered, strict=True)):
        where = f"{name}, task {number + 1}"
        # An unanswered task gets a row of nulls under a known name: a new name would count as another annotator.
        for person, results in (annotations or {everyone[0] if everyone else "label-studio": []}).items():
            yield _labelled(task, person, results, where)


def _labelled(task: dict[str, Any], person: str, results: list[Any], where: str) -> LabelledPicture:
    data = task.get("data")
    known = data if isinstance(data, dict) else {}
    texts = {name: known[name] for name in ("sha256", "key") if isinstance(known.get(name), str) and known[name]}
    if not {"sha256", "key"} & texts.keys():
        raise LabelsError(f'{where}: its data has neither "sha256" nor "key"; tasks are made with labels export')
    values, others, whole = dict[str, float](), list[str](), dict[str, str]()
    for result in results:
        question, choice = _choice(result, where)
        if question in KEYS and choice in ANSWERS:
            values[question] = ANSWERS[choice]
        elif question == "class" or choice in {"private": [*PRIVATE], "vote": [*VOTES]}.get(question, []):
            whole[question] = choice
        elif question in (*KEYS, "private", "vote"):
            raise LabelsError(f'{where}: the answer to "{question}" is not one that labels export offers')
        else:
            others.append(question)
    vote, private = whole.get("vote"), PRIVATE.get(whole.get("private", ""))
    if private is None and "class" in whole and whole["class"] in {*PRIVATE_CLASSES, PUBLIC}:
        private = int(whole["class"] != PUBLIC)
    if vote is not None and private is not None and private != int(vote in PRIVATE_VOTES):
        raise LabelsError(f'{where}: the answers to "private" and "vote" contradict each other')
    return LabelledPicture(
        None,
        private=private,
        vote=vote,
        class_=whole.get("class"),
        labels=tuple(others),
        values=values,
        annotator=person,
        sha256=texts.get("sha256"),
        key=texts.get("key"),
        where=where,
    )


def _annotations(task: dict[str, Any], where: str) -> dict[str, list[Any]]:
    """Return person -> results of the last annotation; none if it was skipped."""
    results_by_person: dict[str, list[Any]] = {}
    annotations = task.get("annotations", [])
    if not isinstance(annotations, list):
        raise LabelsError(f'{where}: "annotations" is not a list')
    for annotation in annotations:
        if not isinstance(annotation, dict) or not isinstance(annotation.get("result", []), list):
            raise LabelsError(f"{where}: an annotation has no list of results")
        by = annotation.get("completed_by")
        number = by.get("id") if isinstance(by, dict) else by
        person = f"person {number}" if isinstance(number, int) else "label-studio"
        results_by_person[person] = [] if annotation.get("was_cancelled") else annotation.get("result", [])
    return results_by_person


def _choice(result: Any, where: str) -> tuple[str, str]:
    """Return question and answer; an answer that is not a choice has no text."""
    question = result.get("from_name") if isinstance(result, dict) else None
    if not isinstance(question, str):
        raise LabelsError(f'{where}: a result has no "from_name"')
    value = result.get("value")
    choices = value.get("choices") if isinstance(value, dict) else None
    if not isinstance(choices, list):
        return f"{question} (no choice)", ""
    if len(choices) != 1 or not isinstance(choices[0], str):
        raise LabelsError(f'{where}: "{question:.80}" has {len(choices)} answers; give one')
    return question, choices[0]
