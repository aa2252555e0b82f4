"""What several annotators say about the same pictures, as arrays: for consensus and for agreement."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.errors import LabelsError
from ingest.sample import printable
from scoring.labels import derived
from scoring.labels.table import attribute_values
from scoring.taxonomy import KEYS

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Judgements:
    """A annotators and P pictures. What an annotator did not judge is NaN, or None."""

    annotators: tuple[str, ...]
    sha256: tuple[str | None, ...]
    key: tuple[str | None, ...]

    is_listed: npt.NDArray[np.bool_]
    """Shape (A, P): whether the annotator has a row of the picture, be it empty."""

    values: Floats
    """Shape (A, P, 22), canonical order: 0, 0.5, 1 or NaN."""

    private: Floats
    """Shape (A, P): 0, 1 or NaN."""

    score: Floats
    """Shape (A, P): 0–1 or NaN."""

    texts: dict[str, npt.NDArray[np.object_]]
    """Columns `class`, `split` and `licence`, shape (A, P): text or None."""

    def refuse_strangers(self) -> None:
        """LabelsError naming an annotator who shares no picture with any other."""
        is_shared = self.is_listed.sum(axis=0) >= 2
        for name, listed in zip(self.annotators, self.is_listed, strict=True):
            if not (listed & is_shared).any():
                raise LabelsError(
                    f"{printable(name)} shares no picture with the other annotators; pictures are joined by sha256, "
                    "else by key: use labels with sha256, which labels import adds if the pictures are there"
                )

    def levels(self) -> Floats:
        """Shape (A, P): level 0–4 of what is judged present (1), NaN if that is not known (`derived.levels`)."""
        return derived.levels(self.values)


def judgements(tables: Sequence[tuple[str, pa.Table]]) -> Judgements:
    """Rows of labels files joined by sha256, or by key where one of them has no sha256.

    tables: a name of each, which is added to an annotator that several of them have, and its labels.
    LabelsError if an annotator names a picture twice, once by sha256 and once by key.
    """
    owners = Counter(name for _, table in tables for name in set(table["annotator"].to_pylist()))
    hashes = _hashes_of_keys(tables)
    pictures: dict[str, int] = {}
    annotators: dict[str, int] = {}
    names: list[tuple[str | None, str | None]] = []
    places: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = []
    for title, table in tables:
        who, what = [], []
        columns = (table[column].to_pylist() for column in ("sha256", "key", "annotator"))
        for sha256, key, annotator in zip(*columns, strict=True):
            sha256 = sha256 or hashes.get(key)
            place = pictures.setdefault(sha256 or f"key {key}", len(pictures))
            if place == len(names):
                names.append((sha256, key))
            elif names[place][1] is None:
                names[place] = (names[place][0], key)
            full = f"{annotator} ({title})" if owners[annotator] > 1 else annotator
            who.append(annotators.setdefault(full, len(annotators)))
            what.append(place)
        places.append((np.array(who, np.int64), np.array(what, np.int64)))
    return _filled(tables, places, tuple(annotators), names)


def _hashes_of_keys(tables: Sequence[tuple[str, pa.Table]]) -> dict[str, str]:
    """Key -> sha256, for keys that name one picture only."""
    found: dict[str, set[str]] = defaultdict(set)
    for _, table in tables:
        for sha256, key in zip(table["sha256"].to_pylist(), table["key"].to_pylist(), strict=True):
            if sha256 and key:
                found[key].add(sha256)
    return {key: next(iter(hashes)) for key, hashes in found.items() if len(hashes) == 1}


def _filled(
    tables: Sequence[tuple[str, pa.Table]],
    places: Sequence[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]],
    annotators: tuple[str, ...],
    names: Sequence[tuple[str | None, str | None]],
) -> Judgements:
    shape = (len(annotators), len(names))
    listed = np.zeros(shape, bool)
    values = np.full((*shape, len(KEYS)), np.nan, np.float32)
    private, score = np.full(shape, np.nan, np.float32), np.full(shape, np.nan, np.float32)
    texts = {column: np.full(shape, None, object) for column in ("class", "split", "licence")}
    for (title, table), at in zip(tables, places, strict=True):
        if listed[at].any() or len(set(zip(*(a.tolist() for a in at), strict=True))) < table.num_rows:
            raise LabelsError(f"{title}: an annotator labels a picture twice, by sha256 and by key; keep one row")
        listed[at] = True
        values[at] = attribute_values(table)
        private[at] = table["private"].cast(pa.float32()).to_numpy()
        score[at] = table["score"].to_numpy()
        for column, cells in texts.items():
            cells[at] = np.array(table[column].to_pylist(), object)
    hashes, keys = zip(*names, strict=True) if names else ((), ())
    return Judgements(annotators, tuple(hashes), tuple(keys), listed, values, private, score, texts)
