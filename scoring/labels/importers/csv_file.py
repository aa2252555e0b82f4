"""A plain CSV file of labels, next to the pictures or elsewhere.

Columns are those of the labels table, any of them may be missing; `key` is the path of the picture relative to the
folder of the file, or its name in a scan. A column `labels` holds labels of another source, separated by semicolons,
for `--mapping`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ingest.storage.place import Place
from scoring.labels.labelled import LabelledPicture, folder_and_file, inside
from scoring.labels.source_files import content_of
from scoring.labels.table import labels_from_csv
from scoring.taxonomy import KEYS

DEFAULT_NAME = "labels.csv"


@dataclass(frozen=True)
class CsvFile:
    """An `Importer`."""

    ignores_columns: bool = False
    """Whether columns that are not labels are skipped instead of refused."""

    MAPPING: str | None = None
    LICENCE: str | None = None
    NOTES: tuple[str, ...] = ()

    def pictures(self, root: Place) -> Iterator[LabelledPicture]:
        folder, name = folder_and_file(root, DEFAULT_NAME)
        table = labels_from_csv(content_of(folder.at(name), name), name, ["labels"], self.ignores_columns)
        for number, row in enumerate(table.to_pylist()):
            where = f"{name}, line {number + 2}"
            yield LabelledPicture(
                inside(row["key"], where) if row["key"] else None,
                private=row["private"],
                class_=row["class"],
                split=row["split"],
                score=row["score"],
                vote=row["vote"],
                labels=tuple(label.strip() for label in (row.get("labels") or "").split(";") if label.strip()),
                values={key: row[key] for key in KEYS if row[key] is not None},
                annotator=None if row["annotator"] == "labels" else row["annotator"],
                licence=row["licence"],
                sha256=row["sha256"],
                key=row["key"],
                where=where,
            )
