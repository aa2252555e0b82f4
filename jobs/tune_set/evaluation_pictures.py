"""Pictures of evaluation sets, which must not be tuned on: neither the same file nor a near duplicate."""

from collections.abc import Sequence
from dataclasses import dataclass

from ingest.errors import LabelsError, number_of
from ingest.images.phash import near_duplicate_groups
from ingest.storage.place import place
from jobs.runtime.feedback import SILENT, Feedback
from reports.report.opened import open_run
from scoring.labels.reviews import is_reviews
from scoring.labels.table import read_labels
from scoring.table import Col
from scoring.tuning.training_set import RECORD


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


def evaluation_pictures(urls: Sequence[str], feedback: Feedback = SILENT) -> EvaluationPictures:
    """Find the pictures of runs by hash and near duplicates, and of labels files by hash alone. A notice says what
    cannot be found."""
    sha256: set[str] = set()
    phash: set[str] = set()
    for url in urls:
        is_run = place(url).is_dir() and not is_reviews(place(url))
        if is_run and place(url).at(RECORD).exists():
            raise LabelsError(f"{url} is a training set; give the run or the labels file of an evaluation")
        if is_run:
            with open_run(url) as run:
                rows = run.rows([Col.SHA256, Col.PHASH])
            phash |= set(rows[Col.PHASH].drop_null().to_pylist())
        else:
            rows = read_labels(url)
        if not (num_named := rows.num_rows - rows[Col.SHA256].null_count):
            raise LabelsError(
                f"{url}: names no picture by sha256, so none could be left out; give a run over these "
                "pictures, or import the labels where the pictures lie"
            )
        sha256 |= set(rows[Col.SHA256].drop_null().to_pylist())
        _say_what_is_missing(url, rows.num_rows - num_named, rows[Col.PHASH].null_count if is_run else None, feedback)
    return EvaluationPictures(frozenset(sha256), tuple(sorted(phash)))


def _say_what_is_missing(url: str, num_unnamed: int, num_unhashed: int | None, feedback: Feedback) -> None:
    """num_unhashed: rows of a run without a perceptual hash, None for labels."""
    if num_unnamed:
        feedback.notice(f"{url}: {number_of(num_unnamed, 'row')} without sha256 cannot be looked for")
    if num_unhashed is None:
        feedback.notice(f"{url} is a labels file: only the same files are left out; a run finds copies too")
    elif num_unhashed:
        feedback.notice(
            f"{url}: {number_of(num_unhashed, 'picture')} without a perceptual hash; their resized copies are not found"
        )
