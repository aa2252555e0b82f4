"""Labels of several annotators for the same pictures, as arrays: for consensus and for agreement."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import LabelsError, PrivsieveError
from ingest.sample import printable
from scoring.labels.label_files import steps_of
from scoring.labels.picture_index import hashes_by_name
from scoring.labels.table import attribute_values
from scoring.severity import levels_with_gaps
from scoring.taxonomy import KEYS

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Judgements:
    """A annotators and P pictures. Missing judgements are NaN, or None."""

    annotators: tuple[str, ...]
    sha256: tuple[str | None, ...]
    key: tuple[str | None, ...]

    is_listed: npt.NDArray[np.bool_]
    """Shape (A, P): whether the annotator has a row of the picture, even an empty one."""

    values: Floats
    """Shape (A, P, attributes), canonical order: 0, 0.5, 1 or NaN."""

    private: Floats
    """Shape (A, P): 0, 1 or NaN."""

    score: Floats
    """Shape (A, P): 0–1 or NaN."""

    vote: Floats
    """Shape (A, P): step of `votes.VOTES`, 1 for clearly private to 0 for clearly public, or NaN."""

    texts: dict[str, npt.NDArray[np.object_]]
    """Columns `class`, `split` and `licence`, shape (A, P): text or None."""

    def refuse_strangers(self) -> None:
        """Raise LabelsError naming an annotator who shares no picture with any other."""
        is_shared = self.is_listed.sum(axis=0) >= 2
        for name, listed in zip(self.annotators, self.is_listed, strict=True):
            if not (listed & is_shared).any():
                raise LabelsError(
                    f"{printable(name)} shares no picture with the other annotators; pictures are joined by sha256, "
                    "else by key: use labels with sha256, which labels import adds if the pictures are there"
                )

    def levels(self) -> Floats:
        """Return the levels 0–4 of what is present (1), shape (A, P); NaN if unknown (`severity.levels_with_gaps`)."""
        return levels_with_gaps(self.values)


def judgements(tables: Sequence[tuple[str, pa.Table]]) -> Judgements:
    """Join the rows of labels files by sha256, or by key if one of them has no sha256.

    tables: name and labels of each; the name is added to an annotator who is in several of them.
    LabelsError if an annotator names a picture twice, once by sha256 and once by key.
    """
    owners = Counter(name for _, table in tables for name in set(table["annotator"].to_pylist()))
    hashed = (table.filter(pc.is_valid(table["sha256"])) for _, table in tables)
    hashes = hashes_by_name(
        name for table in hashed for name in zip(table["key"].to_pylist(), table["sha256"].to_pylist(), strict=True)
    )
    pictures: dict[str, int] = {}
    annotators: dict[str, int] = {}
    names: list[tuple[str | None, str | None]] = []
    positions: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = []
    for title, table in tables:
        annotator_numbers, picture_numbers = [], []
        columns = (table[column].to_pylist() for column in ("sha256", "key", "annotator"))
        for sha256, key, annotator in zip(*columns, strict=True):
            sha256 = sha256 or hashes.get(key)
            number = pictures.setdefault(sha256 or f"key {key}", len(pictures))
            if number == len(names):
                names.append((sha256, key))
            elif names[number][1] is None:
                names[number] = (names[number][0], key)
            full = f"{annotator} ({title})" if owners[annotator] > 1 else annotator
            annotator_numbers.append(annotators.setdefault(full, len(annotators)))
            picture_numbers.append(number)
        positions.append((np.array(annotator_numbers, np.int64), np.array(picture_numbers, np.int64)))
    return _filled(tables, positions, tuple(annotators), names)


def _filled(
    tables: Sequence[tuple[str, pa.Table]],
    positions: Sequence[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]],
    annotators: tuple[str, ...],
    names: Sequence[tuple[str | None, str | None]],
) -> Judgements:
    shape = (len(annotators), len(names))
    listed = np.zeros(shape, bool)
    values = np.full((*shape, len(KEYS)), np.nan, np.float32)
    private, score, vote = (np.full(shape, np.nan, np.float32) for _ in range(3))
    texts = {column: np.full(shape, None, object) for column in ("class", "split", "licence")}
    for (title, table), cells_at in zip(tables, positions, strict=True):
        if listed[cells_at].any() or len(set(zip(*(a.tolist() for a in cells_at), strict=True))) < table.num_rows:
            raise LabelsError(f"{title}: an annotator labels a picture twice, by sha256 and by key; keep one row")
        listed[cells_at] = True
        values[cells_at] = attribute_values(table)
        private[cells_at] = table["private"].cast(pa.float32()).to_numpy()
        score[cells_at] = table["score"].to_numpy()
        vote[cells_at] = steps_of(table["vote"])
        for column, cells in texts.items():
            cells[cells_at] = np.array(table[column].to_pylist(), object)
    hashes, keys = zip(*names, strict=True) if names else ((), ())
    return Judgements(annotators, tuple(hashes), tuple(keys), listed, values, private, score, vote, texts)


MAX_REVIEWER_CHARS = 80

CHECKS = "known answers"
"""The annotator's name of known answers, while they are joined with labels of people."""


def checked_name(name: str) -> str:
    """Return the name of a person, without spaces around it. PrivsieveError if it is none."""
    name = name.strip()
    if not name or len(name) > MAX_REVIEWER_CHARS or not name.isprintable() or name == CHECKS:
        raise PrivsieveError(f"a reviewer's name has 1 to {MAX_REVIEWER_CHARS} printable characters; give another one")
    return name
