"""The two kinds of release, of pictures or of a list of URLs, and which of them a release is."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.formats.released import Written
from ingest.storage.place import Place
from jobs.releases.decider import Decider
from jobs.releases.entries import Entry
from jobs.releases.journal import Rest
from jobs.releases.matching import Matches
from jobs.releases.plan import Plan
from jobs.releases.record import ReleaseRecord, UrlCounts
from jobs.releases.shards import Shards
from jobs.releases.tombstones import Tombstones
from jobs.releases.url_list import UrlList
from jobs.runtime.progress import Feedback


class ReleaseKind(Protocol):
    """The work that differs between the kinds. root: folder of a release. decisions: as in `DECISIONS_SCHEMA`."""

    @property
    def has_pictures(self) -> bool:
        """Whether pictures are copied into the release, and can be searched and looked at."""

    def refuse_names(self, plan: Plan) -> None:
        """Raise StorageError if what is released would take the name of one of the release's own files."""

    def written_last(self, table: str | None, out: Place, run: Place, plan: Plan, decider: Decider) -> list[Written]:
        """Write what `filter` writes once all shards are decided. table: URL of that of --urls.

        IncompleteError if the table is not the one that was counted.
        """

    def may_hold(self, name: str, source: Place) -> bool:
        """Return whether an unfinished release may hold a file of this name. source: of the filter."""

    def refuse_hashes(self, entries: Sequence[Entry], url: str) -> None:
        """Raise PrivsieveError if a takedown names pictures by PDQ hashes, and there are none to compare."""

    def with_all_rows(self, decisions: pa.Table, matches: Matches) -> Matches:
        """Return the matches and the pictures that a takedown cannot leave when it takes these."""

    def rest(
        self, root: Place, staged: Place, release: ReleaseRecord, decisions: pa.Table, is_taken: npt.NDArray[np.bool_]
    ) -> Rest:
        """Write the files that hold what is taken down again without it. is_taken: shape (decisions,).

        IncompleteError if the files are not those that were released.
        """

    def counted(self, root: Place, release: ReleaseRecord, feedback: Feedback) -> tuple[int, list[str]]:
        """Compare what a published copy holds with the counts in `release.json`.

        Returns how many pictures were read, and the faults.
        """

    def compared(
        self, root: Place, release: ReleaseRecord, decisions: pa.Table, removed: Tombstones, feedback: Feedback
    ) -> tuple[int, list[str]]:
        """Compare what a release holds with the decisions. Returns how many pictures were compared, and the faults."""

    def removed_again(self, root: Place, decisions: pa.Table, removed: Tombstones, feedback: Feedback) -> Iterator[str]:
        """Yield the shards of a release with other faults that hold removed pictures."""

    def log_faults(self, release: ReleaseRecord) -> list[str]:
        """Compare the log of takedowns with the counts in `release.json`."""

    def in_words(self, num_pictures: int) -> str:
        """Return what `verify` has compared."""

    def facts(self) -> Mapping[str, Any]:
        """Return what the templates of the documents name of this kind alone."""

    def data_files(self, release: ReleaseRecord) -> list[str]:
        """Return which files the hub's viewer and `datasets` read: else they would take other tables for data."""

    def distribution(self, release: ReleaseRecord) -> tuple[str | None, dict[str, Any]]:
        """Return how a Croissant record describes the files: their type, None if it does not list them; and where the
        set of pictures lies, empty without one."""


def kind_of(urls: UrlCounts | None) -> ReleaseKind:
    """Return the kind of a release. urls: its counts of a list."""
    return Shards() if urls is None else UrlList(urls)
