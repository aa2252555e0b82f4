"""Pictures of evaluation sets, which must not be tuned on: neither the same file nor a near duplicate."""

from collections.abc import Sequence
from dataclasses import dataclass

from ingest.images.phash import near_duplicate_groups
from ingest.storage.place import place
from reports.opened import open_run
from scoring.labels.table import read_labels


@dataclass(frozen=True)
class EvaluationPictures:
    """What is known of them."""

    sha256: frozenset[str]
    phash: tuple[str, ...]

    def near(self, hashes: Sequence[str | None]) -> list[bool]:
        """Whether each of the hashes is that of a near duplicate of one of them."""
        if not self.phash or not hashes:
            return [False] * len(hashes)
        groups = near_duplicate_groups([*hashes, *self.phash]).tolist()
        of_evaluation = set(groups[len(hashes) :])
        return [group in of_evaluation for group in groups[: len(hashes)]]


def evaluation_pictures(urls: Sequence[str]) -> EvaluationPictures:
    """Of runs, by hash and near duplicates; of labels files, by hash alone."""
    sha256: set[str] = set()
    phash: set[str] = set()
    for url in urls:
        if place(url).is_dir():
            with open_run(url) as run:
                rows = run.rows(["sha256", "phash"])
            phash |= set(rows["phash"].drop_null().to_pylist())
        else:
            rows = read_labels(url)
        sha256 |= set(rows["sha256"].drop_null().to_pylist())
    return EvaluationPictures(frozenset(sha256), tuple(sorted(phash)))
