"""Label Studio: the labelling interface, tasks with answers to correct, and the names that its importer reads.

Source of the formats: Label Studio's documentation, "Import pre-annotated data" and "Export annotations" (JSON).
"""

import json
from collections.abc import Mapping
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

import pyarrow as pa

from ingest.sample import printable
from scoring.labels.votes import SHOWN_TO, VOTES
from scoring.taxonomy import ATTRIBUTES, KEYS, LEVELS

IMAGE = "image"
ANSWERS = {"present": 1.0, "unclear": 0.5, "absent": 0.0}
"""Choice of an attribute -> its value. No choice is null."""

PRIVATE = {"private": 1, "public": 0}
MAX_CLASSES = 100
"""Limit of classes; with more, the interface does not ask for a class."""

LOCAL_FILES = "/data/local-files/?d="
"""Prefix under which Label Studio serves a folder of its own machine."""


def tasks(labels: pa.Table, paths: Mapping[str, str], image_prefix: str = LOCAL_FILES) -> bytes:
    """Build the JSON file to import: one task per picture, with the labels of each annotator as a prediction.

    paths: sha256 or key of a picture -> its path below the folder of the prefix; else its key is used.
    """
    tasks_by_name: dict[str, dict[str, object]] = {}
    predictions: dict[str, list[object]] = {}
    for row in labels.to_pylist():
        name = row["sha256"] or row["key"]
        path = paths.get(name)
        data = {IMAGE: f"{image_prefix}{quote(path or row['key'] or name)}", "key": row["key"], "sha256": row["sha256"]}
        tasks_by_name.setdefault(name, {"data": data | ({"path": path} if path else {})})
        if results := _results(row):
            predictions.setdefault(name, []).append({"model_version": row["annotator"], "result": results})
    listed = [task | {"predictions": predictions.get(name, [])} for name, task in tasks_by_name.items()]
    return (json.dumps(listed, indent=1) + "\n").encode()


def interface(labels: pa.Table) -> bytes:
    """Build the labelling interface (XML): three choices per attribute, private or public, and of the labels the
    classes and, if they have any, the votes."""
    lines = ["<View>", f'  <Image name="{IMAGE}" value="${IMAGE}" zoom="true"/>']
    lines += _choices("private", "Is the picture private?", list(PRIVATE))
    if labels["vote"].null_count < labels.num_rows:
        who = "; ".join(f"{vote}: {shown_to}" for vote, shown_to in SHOWN_TO.items())
        lines += _choices("vote", f"If it were yours, who may see the picture? {who}", list(VOTES))
    classes = _classes(labels)
    if classes:
        lines += _choices("class", "Class", classes)
    for attribute in ATTRIBUTES:
        title = f"{attribute.title} (level {attribute.level}, {LEVELS[attribute.level]}): {attribute.shows}"
        lines += _choices(attribute.key, title, list(ANSWERS))
    return ("\n".join([*lines, "</View>"]) + "\n").encode()


def _classes(labels: pa.Table) -> list[str]:
    classes = sorted({printable(class_) for class_ in labels["class"].to_pylist() if class_ is not None})
    return classes if len(classes) <= MAX_CLASSES else []


def _choices(name: str, title: str, values: list[str]) -> list[str]:
    head = f'  <Choices name="{name}" toName="{IMAGE}" choice="single" showInline="true">'
    inner = [f"    <Choice value={quoteattr(value)}/>" for value in values]
    return [f'  <Header size="6" value={quoteattr(title)}/>', head, *inner, "  </Choices>"]


def _results(row: Mapping[str, object]) -> list[dict[str, object]]:
    attributes = {value: choice for choice, value in ANSWERS.items()}
    chosen = {key: attributes[row[key]] for key in KEYS if isinstance(row[key], float)}  # type: ignore[index]
    if row["private"] is not None:
        chosen["private"] = {value: choice for choice, value in PRIVATE.items()}[row["private"]]  # type: ignore[index]
    if isinstance(row["vote"], str):
        chosen["vote"] = row["vote"]
    if isinstance(row["class"], str):
        chosen["class"] = printable(row["class"])
    return [
        {"from_name": name, "to_name": IMAGE, "type": "choices", "value": {"choices": [choice]}}
        for name, choice in chosen.items()
    ]
