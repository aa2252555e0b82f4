"""Labels of single pictures, found by hash or by name."""

from dataclasses import dataclass, field

import numpy as np

from ingest.errors import LabelsError
from scoring.labels.table import attribute_values, read_labels
from scoring.tuning.targets import Label


@dataclass(frozen=True)
class LabelOf:
    """The labels of a file, one per picture."""

    by_sha256: dict[str, Label]
    by_key: dict[str, Label]
    annotators: tuple[str, ...]
    licences: tuple[str, ...]
    sha256_of_key: dict[str, str] = field(default_factory=dict)
    """Of the pictures that were found by key."""

    def of(self, sha256: str, key: str) -> Label | None:
        """By hash; labels without a hash by the key that a scan of the same folder writes.

        LabelsError if two different pictures have that key.
        """
        if (label := self.by_sha256.get(sha256)) is not None:
            return label
        if (label := self.by_key.get(key)) is not None:
            if self.sha256_of_key.setdefault(key, sha256) != sha256:
                raise LabelsError(f'two different pictures have the key "{key}"; label them by sha256')
            return label
        return None


def labels_by_picture(url: str, split: str | None) -> LabelOf:
    """The labels of a file, or those of one split. LabelsError if a picture has several."""
    table = read_labels(url)
    rows = table.select(["sha256", "key", "annotator", "split", "licence", "class", "private", "score"]).to_pylist()
    values = attribute_values(table)
    by_sha256: dict[str, Label] = {}
    by_key: dict[str, Label] = {}
    chosen = [(row, values[at]) for at, row in enumerate(rows) if split is None or row["split"] == split]
    if not chosen:
        known = sorted({str(row["split"]) for row in rows})
        raise LabelsError(f'{url}: no label has the split "{split}"; there are: {", ".join(known) or "no labels"}')
    for row, judged in chosen:
        private = None if row["private"] is None else bool(row["private"])
        label = Label(np.array(judged), private, row["score"], row["class"])
        for found, name in ((by_sha256, row["sha256"]), (by_key, row["key"])):
            if name is None or (found is by_key and row["sha256"] is not None):
                continue
            if name in found:
                raise LabelsError(f"{url}: {name} has several labels; join them with privsieve labels consensus")
            found[name] = label
    annotators = tuple(sorted({row["annotator"] for row, _ in chosen}))
    return LabelOf(by_sha256, by_key, annotators, tuple(sorted({row["licence"] for row, _ in chosen} - {None})))
