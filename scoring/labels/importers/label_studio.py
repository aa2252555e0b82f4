"""Label Studio's JSON export of tasks that `labels export` made: one row per picture and person.

People are called "person" with the number that Label Studio gave them: e-mail addresses are not kept. A task that
was not answered, or that a person skipped, is a row of null.
"""

from collections.abc import Iterator
from typing import Any

from ingest.errors import LabelsError
from ingest.storage.place import Place
from scoring.labels.label_studio import ANSWERS, PRIVATE
from scoring.labels.labelled import LabelledPicture, folder_and_file, inside
from scoring.labels.source_files import content_of, json_of
from scoring.labels.votes import PRIVATE_VOTES, VOTES
from scoring.taxonomy import KEYS

MAPPING: str | None = None
LICENCE: str | None = None
NOTES: tuple[str, ...] = ("The last of several annotations of one task by one person counts.",)

DEFAULT_NAME = "tasks.json"


def pictures(root: Place) -> Iterator[LabelledPicture]:
    folder, name = folder_and_file(root, DEFAULT_NAME)
    tasks = json_of(content_of(folder.at(name), name), name)
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
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
    given = data if isinstance(data, dict) else {}
    texts = {
        name: given[name] for name in ("sha256", "key", "path") if isinstance(given.get(name), str) and given[name]
    }
    if not {"sha256", "key"} & texts.keys():
        raise LabelsError(f'{where}: its data has neither "sha256" nor "key"; tasks are made with labels export')
    values, others, whole = dict[str, float](), list[str](), dict[str, str]()
    for result in results:
        question, choice = _choice(result, where)
        if question in KEYS and choice in ANSWERS:
            values[question] = ANSWERS[choice]
        elif (
            question == "class"
            or (question == "private" and choice in PRIVATE)
            or (question == "vote" and choice in VOTES)
        ):
            whole[question] = choice
        elif question in (*KEYS, "private", "vote"):
            raise LabelsError(f'{where}: the answer to "{question}" is not one that labels export offers')
        else:
            others.append(question)
    vote, private = whole.get("vote"), PRIVATE.get(whole.get("private", ""))
    if vote is not None and private is not None and private != int(vote in PRIVATE_VOTES):
        raise LabelsError(f'{where}: the answers to "private" and "vote" contradict each other')
    return LabelledPicture(
        inside(texts["path"], where) if "path" in texts else None,
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
