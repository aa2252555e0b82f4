"""The labels of a file, one per picture of a corpus, and what the model should answer about each picture."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import LabelsError
from ingest.sample import Sample, printable
from ingest.storage.place import place
from scoring.assessment import Values
from scoring.labels.picture_index import PictureIndex
from scoring.labels.reviews import is_reviews
from scoring.labels.table import attribute_values, read_labels
from scoring.protocols.interface import Protocol
from scoring.tuning.dialogues import dialogues
from scoring.tuning.targets import Label, Target, Turns, is_private, target_of

MAX_SHOWN = 20
"""Limit on the names in an error message."""


@dataclass(frozen=True)
class LabelOf:
    """The labels of a file, one per picture."""

    index: PictureIndex
    """Finds the row of the file about a picture."""

    values: Values
    """Shape (labels, 22)."""

    private: npt.NDArray[np.float32]
    """Shape (labels,): 0, 1 or NaN."""

    score: npt.NDArray[np.float32]
    """Shape (labels,): 0–1 or NaN."""

    class_codes: npt.NDArray[np.int64]
    """Shape (labels,): place in `class_names`, -1 for none."""

    class_names: tuple[str, ...]
    annotators: tuple[str, ...]
    licences: tuple[str, ...]

    @property
    def num_unused(self) -> int:
        """Return how many labels have no picture so far."""
        return len(self.private) - len(self.index.used)

    def of(self, sample: Sample, sha256: str) -> Label | None:
        """Return the label. LabelsError if two pictures have the key of one, or two annotators label a picture."""
        row = self.index.row_of(sample.shard, sample.key, sha256)
        return None if row is None else self._label(row)

    def every(self) -> Iterator[Label]:
        """Yield every label, in the order of the file."""
        for row in range(len(self.private)):
            yield self._label(row)

    def _label(self, row: int) -> Label:
        private, score = float(self.private[row]), float(self.score[row])
        return Label(
            self.values[row],
            None if np.isnan(private) else private == 1,
            None if np.isnan(score) else score,
            None if self.class_codes[row] < 0 else self.class_names[self.class_codes[row]],
        )


def labels_by_picture(url: str, split: str | None) -> LabelOf:
    """Return the labels of a file, or of one split. LabelsError if there are none, or a picture has several."""
    if place(url).is_dir() and not is_reviews(place(url)):
        raise LabelsError(
            f"{url} is a folder, and --labels takes a file; of a run make one with privsieve labels export"
        )
    table = read_labels(url).combine_chunks()
    if not table.num_rows:
        raise LabelsError(f"{url}: holds no labels")
    if split is not None:
        table = _of_split(table, split, url)
    annotators = table["annotator"]
    index = PictureIndex(url, lambda row: str(annotators[row].as_py()))
    index.add_labels(table)
    classes = pa.concat_arrays(table["class"].chunks).dictionary_encode()
    return LabelOf(
        index,
        attribute_values(table),
        table["private"].cast(pa.float32()).to_numpy(),
        table["score"].to_numpy(),
        classes.indices.fill_null(-1).cast(pa.int64()).to_numpy(),
        tuple(classes.dictionary.to_pylist()),
        tuple(sorted(pc.unique(table["annotator"]).to_pylist())),
        tuple(sorted(pc.unique(table["licence"]).drop_null().to_pylist())),
    )


def _of_split(table: pa.Table, split: str, url: str) -> pa.Table:
    chosen = table.filter(pc.equal(table["split"], split)).combine_chunks()
    if not chosen.num_rows:
        known = sorted(printable(name[:80]) for name in pc.unique(table["split"]).drop_null().to_pylist())
        there = f"there are: {', '.join(known[:MAX_SHOWN])}" if known else "the labels name no split"
        raise LabelsError(f'{url}: no label is of the split "{split:.80}"; {there}')
    return chosen


@dataclass(frozen=True)
class Targets:
    """Targets of one kind."""

    asked: Protocol
    keep_ambiguous: bool
    names: PictureIndex | None = None
    """Names of conversations; None if the label alone gives the target."""

    turns: list[Turns] = field(default_factory=list)
    """By row of `names`."""

    _distinct: dict[Target, Target] = field(default_factory=dict)
    """Many pictures have equal targets; each target is kept once."""

    @property
    def num_unused(self) -> int:
        """Return how many conversations have no labelled picture so far."""
        return 0 if self.names is None else len(self.turns) - len(self.names.used)

    def of(self, label: Label, sample: Sample, sha256: str) -> Target | None:
        """Return the target; None if the label leaves the answer open, or the picture has no conversation."""
        if self.names is None:
            target = target_of(label, self.asked, keep_ambiguous=self.keep_ambiguous)
            return None if target is None else self._distinct.setdefault(target, target)
        row = None if is_private(label) is None else self.names.row_of(sample.shard, sample.key, sha256)
        return None if row is None else Target(turns=self.turns[row])


def targets_of(kind: str, asked: Protocol, keep_ambiguous: bool, url: str | None) -> Targets:
    """Return the targets. url: of the conversations. LabelsError for a wrong line, or two of one picture."""
    if kind != "dialogue" or url is None:
        return Targets(asked, keep_ambiguous)
    names = PictureIndex(url)
    turns: list[Turns] = []
    for number, sha256, key, conversation in dialogues(url):
        if not names.add(len(turns), sha256, key):
            raise LabelsError(f"{url}, line {number}: the picture has a conversation already; keep one")
        turns.append(conversation)
    if not turns:
        raise LabelsError(f"{url}: holds no conversation")
    return Targets(asked, keep_ambiguous, names, turns)
