"""Which row of a labels table is about which picture. Every join of labels to pictures follows these rules.

- The hash of a picture's bytes (sha256) decides.
- If one of the two sides has no hash, the name decides: SHARD/KEY if a label gives that, else the key alone.
- The hash also decides between two labels of one annotator. Those of two annotators are refused: the hash and the name
  would give the picture two answers.
- A key that several pictures have names none of them. If all pictures are known beforehand, as those of a run are,
  such a key is left out. If they come one after another, as those of a corpus do, the second one is refused.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import LabelsError
from ingest.sample import printable

MAX_NAME_CHARS = 200


@dataclass
class PictureIndex:
    """Rows of a table by the pictures that they name."""

    url: str | None
    """URL of the table, for errors; None if it is not known here."""

    annotator_of: Callable[[int], str] | None = None
    """Row -> its annotator; None if the rows are no labels of people."""

    shared_keys: Collection[str] | None = None
    """Keys that several pictures have; None if the pictures are not known beforehand, so that the second is refused."""

    has_unreadable: bool = False
    """Whether some pictures have no bytes and thus no hash: labels with a hash are then kept by their key too."""

    used: set[int] = field(default_factory=set)
    """Rows of which a picture was found."""

    _by_sha256: dict[bytes, int] = field(default_factory=dict)
    _by_key: dict[str, int] = field(default_factory=dict)
    _by_key_of_hashed: dict[str, int | None] = field(default_factory=dict)
    """None: several rows with a hash have the key."""

    _picture_of_row: dict[int, str] = field(default_factory=dict)
    """Row -> sha256 of the picture that was found by its key."""

    def add(self, row: int, sha256: str | None, key: str | None) -> bool:
        """Add a row by its hash, or by its key if it has no hash. Return False if another row has this name."""
        if sha256 is None:
            return self._by_key.setdefault(key or "", row) == row
        if self.has_unreadable and key is not None:
            self._by_key_of_hashed[key] = None if key in self._by_key_of_hashed else row
        return self._by_sha256.setdefault(bytes.fromhex(sha256), row) == row

    def add_labels(self, labels: pa.Table) -> None:
        """Add every row of a table with the columns sha256 and key. LabelsError if two rows name the same picture."""
        for row, (sha256, key) in enumerate(zip(labels["sha256"].to_pylist(), labels["key"].to_pylist(), strict=True)):
            if not self.add(row, sha256, key):
                raise self._several_annotators(sha256 or key)

    def row_of(self, shard: str, key: str, sha256: str | None) -> int | None:
        """Return the row of a picture, None without one. sha256: None if the picture has no bytes.

        LabelsError if rows of two annotators name the picture, or if the row was found by a key that another picture
        had before.
        """
        by_hash = None if sha256 is None else self._by_sha256.get(bytes.fromhex(sha256))
        by_name = self._row_named(f"{shard}/{key}", sha256)
        if by_name is None and not self._is_shared(key):
            by_name = self._row_named(key, sha256)
        if by_hash is not None and by_name is not None and self._differ(by_hash, by_name):
            raise self._several_annotators(key, ", one by sha256 and one by key alone")
        row = by_name if by_hash is None else by_hash
        if row is None:
            return None
        if by_hash is None and sha256 is not None:
            self._refuse_second_picture(row, key, sha256)
        self.used.add(row)
        return row

    def is_ambiguous(self, key: str, sha256: str | None) -> bool:
        """Return whether a row gives this key, but several pictures have it."""
        return self._is_shared(key) and self._row_named(key, sha256) is not None

    def _is_shared(self, key: str) -> bool:
        return self.shared_keys is not None and key in self.shared_keys

    def _row_named(self, name: str, sha256: str | None) -> int | None:
        row = self._by_key.get(name)
        return self._by_key_of_hashed.get(name) if row is None and sha256 is None else row

    def _differ(self, row: int, other: int) -> bool:
        """Return whether the rows are of different annotators."""
        return self.annotator_of is not None and self.annotator_of(row) != self.annotator_of(other)

    def _refuse_second_picture(self, row: int, key: str, sha256: str) -> None:
        if self.shared_keys is None and self._picture_of_row.setdefault(row, sha256) != sha256:
            raise LabelsError(
                f'{self.url or "the labels"}: two different pictures have the key "{_named(key)}"; name them by sha256'
            )

    def _several_annotators(self, name: str, how: str = "") -> LabelsError:
        return LabelsError(
            f"{self.url or 'the labels'}: {_named(name)} has labels of several annotators{how}; make one label per "
            f"picture with: privsieve labels consensus {self.url or 'LABELS'} --out FILE"
        )


def shared_keys(keys: Iterable[str], hashes: Iterable[str | None]) -> frozenset[str]:
    """Return the keys that pictures with different bytes have. A missing hash differs from every hash."""
    first: dict[str, str | None] = {}
    return frozenset(key for key, sha256 in zip(keys, hashes, strict=True) if first.setdefault(key, sha256) != sha256)


def hashes_by_name(names: Iterable[tuple[str | None, str | None]]) -> dict[str, str]:
    """Return name -> hash, of the names that belong to one picture only, which has bytes.

    names: name and sha256 of each picture; a picture may have several names, and copies of it the same one.
    """
    by_name: dict[str, str | None] = {}
    for name, sha256 in names:
        if name is not None:
            by_name[name] = sha256 if by_name.get(name, sha256) == sha256 else None
    return {name: sha256 for name, sha256 in by_name.items() if sha256 is not None}


def picture_names(labels: pa.Table) -> pa.ChunkedArray:
    """Return what names the picture of each row: its hash, or its key if it has no hash."""
    return pc.coalesce(labels["sha256"], labels["key"])


def are_named(rows: pa.Table, hashes: pa.Array, names: pa.Array) -> pa.ChunkedArray:
    """Return for each row whether one of the hashes, keys or SHARD/KEYs is its own, so that a label may be of it.

    rows: with the columns shard, key and sha256.
    """
    full = pc.binary_join_element_wise(rows["shard"], rows["key"], "/")
    is_named = pc.or_(pc.is_in(rows["key"], names), pc.is_in(full, names))
    return pc.or_(pc.is_in(rows["sha256"], hashes), is_named)


def _named(name: str) -> str:
    return printable(name)[:MAX_NAME_CHARS]
