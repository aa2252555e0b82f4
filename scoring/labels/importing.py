"""Conversion of the labelled pictures of a data set to the labels table: hashes, keys, mapping, one row per picture.

A mapping says which attributes a label of another source means; it is shipped as YAML, or a user's own.
"""

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ingest.errors import LabelsError, did_you_mean, number_of
from ingest.formats.shard import MAX_IMAGE_BYTES
from ingest.sample import printable
from ingest.storage.place import Place
from scoring.labels.label_files import LABELS_SCHEMA, PRIVATE_VOTES
from scoring.labels.source_files import Importer, LabelledPicture, folder_and_file, key_of
from scoring.labels.table import LabelsOrigin, to_labels, write_labels
from scoring.taxonomy import KEYS
from scoring.yaml_files import load_yaml, shipped_or_given

SHIPPED = ("vispr", "privbench")

MAX_MAPPING_BYTES = 10 * 2**20

Text = Annotated[str, Field(min_length=1, max_length=200)]


class LabelMapping(BaseModel):
    """A mapping file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Text
    version: Annotated[int, Field(ge=1)]

    source: Text
    """The source of the labels, in words."""

    licence: Text
    """Licence of this file, not of the labels."""

    absent_is_zero: bool
    """Whether the source judged every picture for all of its labels: if so, attributes without any of their labels are
    0, else null."""

    safe: tuple[Text, ...] = ()
    """Labels that say that nothing private is shown. They map to no attribute and are not counted as unmapped."""

    only_affirmed: tuple[Text, ...] = ()
    """Attributes that are never 0, since the source has labels for a part of them only."""

    entries: Mapping[str, Mapping[str, float]]
    """Label of the source -> attributes that it means. An empty entry is a label that fits no attribute."""

    @field_validator("entries")
    @classmethod
    def _known(cls, entries: Mapping[str, Mapping[str, float]]) -> Mapping[str, Mapping[str, float]]:
        _refuse_unknown({key for entry in entries.values() for key in entry})
        if any(value not in (0.5, 1) for entry in entries.values() for value in entry.values()):
            raise ValueError("an entry gives an attribute 0.5 or 1; leave out attributes that its label does not mean")
        return entries

    @field_validator("only_affirmed")
    @classmethod
    def _known_affirmed(cls, keys: tuple[str, ...]) -> tuple[str, ...]:
        _refuse_unknown(keys)
        return keys

    @property
    def keys(self) -> tuple[str, ...]:
        """Attributes that any label means, in canonical order; all others are always null."""
        mapped = {key for entry in self.entries.values() for key in entry}
        return tuple(key for key in KEYS if key in mapped)

    def values(self, labels: Collection[str]) -> dict[str, float]:
        """Return attribute -> 0, 0.5 or 1, the highest of all labels. Missing attributes are null.

        A picture without any label was not judged, so all of its attributes are null.
        """
        if not labels:
            return {}
        values = dict.fromkeys(set(self.keys) - set(self.only_affirmed), 0.0) if self.absent_is_zero else {}
        for label in labels:
            for key, value in self.entries.get(label, {}).items():
                values[key] = max(values.get(key, 0.0), float(value))
        return values

    def unmapped(self, labels: Collection[str]) -> list[str]:
        """Return the labels that fit no attribute."""
        return [label for label in labels if not self.entries.get(label) and label not in self.safe]


def load_mapping(name: str) -> LabelMapping:
    """Load a shipped mapping by its name, or a YAML file by its path. LabelsError if it is neither or wrong."""
    folder = resources.files("scoring.labels") / "mappings"
    content = shipped_or_given("mapping", name, SHIPPED, folder, LabelsError, MAX_MAPPING_BYTES)
    fields = load_yaml(content, f"the mapping {name}", LabelsError)
    if not isinstance(fields, dict):
        raise LabelsError(f"{name} is not a mapping: write it like those in {folder}, with the same fields")
    try:
        return LabelMapping.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        position = ".".join(str(part) for part in first["loc"])
        raise LabelsError(f'the mapping {name}: "{position:.80}": {first["msg"].lower()}') from None


def _refuse_unknown(keys: Collection[str]) -> None:
    for key in sorted(keys):
        if key not in KEYS:
            raise ValueError(f'there is no attribute "{key:.40}"{did_you_mean(key, KEYS)}')


JUDGED = ("private", "class", "score", "vote", *KEYS)
"""Columns in which two rows of one picture can contradict each other."""


@dataclass(frozen=True)
class Imported:
    origin: LabelsOrigin

    num_rows: int

    num_listed: int
    """Number of pictures that the data set lists, one per annotator; those with the same bytes share a row."""

    num_missing: int
    """Number of rows without sha256: the picture is missing or cannot be read."""


def import_labels(
    name: str,
    importer: Importer,
    root: Place,
    mapping: LabelMapping | None,
    out: str,
    *,
    split: str | None = None,
    annotator: str | None = None,
    advance: Callable[[int, int], None] = lambda done, all_: None,
) -> Imported:
    """Write the labels of the data set below `root` to `out`; return what they are.

    split: only pictures of this split; data sets without splits get it as their split.
    annotator: who gave the labels, if the source does not name anyone; None for the name of the data set.
    advance: called with the number of pictures done and of all, for a display of progress.
    LabelsError if a file of labels is wrong or lists no picture, or the mapping or annotator would change nothing.
    Nothing is written then.
    """
    listed = [picture for picture in importer.pictures(root) if split is None or picture.split in (None, split)]
    if not listed:
        which = f" of the split {split}" if split else ""
        raise LabelsError(f"{root.path}: no labelled picture{which} was found; privsieve help labels shows the layouts")
    if mapping is not None and importer.mapping is None and not any(picture.labels for picture in listed):
        raise LabelsError(f"--mapping changes nothing: {name} has no labels of its own here to map; leave it out")
    if annotator is not None and all(picture.annotator for picture in listed):
        raise LabelsError("--annotator changes nothing: every label names its annotator; leave it out")
    _refuse_labelled_twice(listed)
    names = Counter(key_of(path) for path in {picture.path for picture in listed} if path is not None)
    shared = {name for name, num in names.items() if num > 1}
    num_shared_names = sum(picture.path is not None and key_of(picture.path) in shared for picture in listed)
    folder, _ = folder_and_file(root, "")
    unmapped, rows = Counter[str](), dict[tuple[object, object], dict[str, object]]()
    contradictory = set[tuple[object, object]]()
    for number, picture in enumerate(listed, 1):
        row = _row(picture, folder, mapping, picture.path is not None and key_of(picture.path) in shared)
        row |= {"annotator": picture.annotator or annotator or name, "split": picture.split or split}
        row["licence"] = picture.licence or importer.licence
        unmapped.update(mapping.unmapped(picture.labels) if mapping else picture.labels)
        named = row["sha256"] or row["key"], row["annotator"]
        first = rows.setdefault(named, row)  # pictures with the same bytes are one row, without what they differ in
        differing = {column for column in (*JUDGED, "split", "licence") if first.get(column) != row.get(column)}
        first |= dict.fromkeys(differing)
        if not differing.isdisjoint(JUDGED):
            contradictory.add(named)
        advance(number, len(listed))
    columns = {column: [row.get(column) for row in rows.values()] for column in LABELS_SCHEMA.names}
    labels = to_labels(columns, len(rows))
    num_missing = labels["sha256"].null_count
    origin = LabelsOrigin(
        source=name,
        mapping=f"{mapping.name} {mapping.version}" if mapping else None,
        num_pictures=len({picture for picture, _ in rows}),
        unmapped={printable(label)[:200]: count for label, count in sorted(unmapped.items())},
        notes=(*importer.notes, *_notes(num_missing, len(listed) - len(rows), len(contradictory), num_shared_names)),
    )
    write_labels(labels, out, origin)
    return Imported(origin, len(rows), len(listed), num_missing)


def _refuse_labelled_twice(listed: Sequence[LabelledPicture]) -> None:
    seen = set[tuple[object, ...]]()
    for picture in listed:
        named = (picture.path, picture.sha256 or picture.key, picture.annotator)
        if named in seen:
            raise LabelsError(f"{picture.where}: the same picture is labelled a second time; keep one of them")
        seen.add(named)


def sha256_of(picture: Place) -> str | None:
    """Hash the encoded bytes, as a scan does. None if the file is missing or a scan would not read it."""
    if not picture.is_local:
        try:
            content = picture.content()
        except FileNotFoundError:
            return None
        return hashlib.sha256(content).hexdigest() if content else None
    try:
        if not stat.S_ISREG(os.stat(picture.path).st_mode):  # to open a pipe would wait for a writer
            return None
        with open(picture.path, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as file:
            size = os.fstat(file.fileno()).st_size
            if not 0 < size <= MAX_IMAGE_BYTES:
                return None
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _row(labelled: LabelledPicture, root: Place, mapping: LabelMapping | None, is_shared: bool) -> dict[str, object]:
    actual_sha256 = sha256_of(root.at(labelled.path)) if labelled.path is not None else None
    if actual_sha256 and labelled.sha256 and actual_sha256 != labelled.sha256:
        raise LabelsError(
            f"{labelled.where}: sha256 is not that of the picture at this path; correct it or leave it out"
        )
    sha256, key = actual_sha256 or labelled.sha256, _key(labelled, actual_sha256 is not None, is_shared)
    values: dict[str, float] = mapping.values(labelled.labels) if mapping else {}
    private = labelled.private
    if private is None and labelled.vote is not None:
        private = int(labelled.vote in PRIVATE_VOTES)
    score = None if labelled.score is None else float(np.float32(labelled.score))  # as in the table
    row: dict[str, object] = {"private": private, "class": labelled.class_, "score": score, "vote": labelled.vote}
    return row | {"sha256": sha256, "key": key} | values | dict(labelled.values)


def _key(labelled: LabelledPicture, is_there: bool, is_shared: bool) -> str | None:
    """Return the key as a scan writes it; None if it would name several pictures."""
    if labelled.path is None or (labelled.key is not None and not is_there):
        return labelled.key
    if not is_shared:
        return key_of(labelled.path)
    return None if is_there or labelled.sha256 else printable(labelled.path)


def _notes(num_missing: int, num_copies: int, num_contradictions: int, num_shared_names: int) -> tuple[str, ...]:
    counted = (
        (num_missing, "row", "without sha256: the picture was not there"),
        (num_copies, "picture", "with the bytes of another one, in its row"),
        (num_contradictions, "picture", "with several files had different labels, now null"),
        (num_shared_names, "picture", "with a file name that another folder has too: found by sha256 only"),
    )
    return tuple(f"{number_of(num, noun)} {what}." for num, noun, what in counted if num)
