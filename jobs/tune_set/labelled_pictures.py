"""The labelled pictures of a corpus, the first of the two passes of `tune-set`; and pictures to leave out of tuning."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ingest.errors import LabelsError, number_of
from ingest.formats import Source
from ingest.images.decode import DecodedImage, decode
from ingest.images.phash import near_duplicate_groups, phash
from ingest.images.pixels import ImageLimits
from ingest.sample import Sample, printable
from ingest.storage.place import place
from jobs.runtime.hash_list import NOTHING, HashList, Listing
from jobs.runtime.progress import SILENT, Feedback
from jobs.tune_set.joining import LabelOf, Targets
from reports.report.opened import open_run
from scoring.labels.reviews import is_reviews
from scoring.labels.table import read_labels
from scoring.table import Col
from scoring.tuning.drawing import Candidate
from scoring.tuning.targets import Label, Target, is_private, level_of
from scoring.tuning.training_set import RECORD

EXTENSIONS = {"jpeg": "jpg"}
"""Usual extensions of formats whose name is another."""

LIMITS = ImageLimits(max_frames=1, max_side_px=512)
"""Enough for a perceptual hash: on the demo corpus it differs in four bits at most from that of a scan, which takes all
pixels. A hash list is compared with more frames."""


@dataclass(frozen=True)
class EvaluationPictures:
    """Pictures of evaluation sets. Neither they nor near duplicates of them may be tuned on."""

    sha256: frozenset[str]
    phash: tuple[str, ...]

    def near(self, hashes: Sequence[str | None]) -> list[bool]:
        """Return whether each of the hashes is that of a near duplicate of one of these pictures."""
        if not self.phash or not hashes:
            return [False] * len(hashes)
        groups = near_duplicate_groups([*hashes, *self.phash]).tolist()
        of_evaluation = set(groups[len(hashes) :])
        return [group in of_evaluation for group in groups[: len(hashes)]]


def evaluation_pictures(urls: Sequence[str], feedback: Feedback = SILENT) -> EvaluationPictures:
    """Find the pictures of runs by hash and near duplicates, and those of labels files by hash alone. A notice says
    what cannot be found."""
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
    """Say which rows cannot be found. num_unhashed: rows of a run without a perceptual hash, None for labels."""
    if num_unnamed:
        feedback.notice(f"{url}: {number_of(num_unnamed, 'row')} without sha256 cannot be looked for")
    if num_unhashed is None:
        feedback.notice(f"{url} is a labels file: only the same files are left out; a run finds copies too")
    elif num_unhashed:
        feedback.notice(
            f"{url}: {number_of(num_unhashed, 'picture')} without a perceptual hash; their resized copies are not found"
        )


@dataclass
class LabelledPictures:
    """What the corpus holds. Every picture of it is counted once."""

    candidates: list[Candidate] = field(default_factory=list)
    """Pictures with a usable label, each sha256 once, in the order of the corpus."""

    phashes: list[str] = field(default_factory=list)
    """Perceptual hashes of the candidates."""

    num_pictures: int = 0
    num_copies: int = 0
    num_without_target: int = 0
    num_unreadable: int = 0
    num_unlabelled: int = 0
    num_listed: int = 0
    """How many of the pictures with a usable label are on the hash list."""

    num_not_compared: int = 0
    """How many of them cannot be compared with the list, or only in part."""


def labelled_pictures(
    source: Source, labels: LabelOf, targets: Targets, feedback: Feedback, hash_list: HashList = NOTHING
) -> LabelledPictures:
    """Read the labelled pictures. LabelsError if a label is of two pictures, or copies of one have different labels."""
    pictures = LabelledPictures()
    first: dict[str, int] = {}
    listings = dict[str, Listing]()
    limits = replace(LIMITS, max_frames=ImageLimits.max_frames, has_pdq=True) if hash_list.needs_pdq else LIMITS
    with feedback.meter("reading", None) as meter:
        for sample in source.samples():
            meter.advance(1)
            pictures.num_pictures += 1
            if sample.fault:
                pictures.num_unreadable += 1
                continue
            sha256 = hashlib.sha256(sample.encoded).hexdigest()
            label = labels.of(sample, sha256)
            if label is None:
                pictures.num_unlabelled += 1
            elif (target := targets.of(label, sample, sha256)) is None:
                pictures.num_without_target += 1
            elif sha256 in hash_list.sha256 or listings.get(sha256) == "listed":
                pictures.num_listed += 1
            elif listings.get(sha256) == "not_compared":
                pictures.num_not_compared += 1
            elif sha256 in first:
                _refuse_contradiction(pictures.candidates[first[sha256]], sample, label, target)
                pictures.num_copies += 1
            elif not isinstance(decoded := decode(sample.encoded, limits), DecodedImage):
                pictures.num_unreadable += 1
            elif (listing := hash_list.listings([sha256], [decoded.pdq])[0]) != "clear":
                listings[sha256] = listing
                pictures.num_listed += listing == "listed"
                pictures.num_not_compared += listing == "not_compared"
            else:
                first[sha256] = len(pictures.candidates)
                pictures.candidates.append(_candidate(sample, sha256, decoded.format, label, target))
                pictures.phashes.append(phash(decoded.views[0]))
    _group(pictures)
    return pictures


def _candidate(sample: Sample, sha256: str, format_name: str, label: Label, target: Target) -> Candidate:
    return Candidate(
        sample.shard,
        sample.index,
        sample.key,
        sha256,
        EXTENSIONS.get(format_name, format_name),
        label.class_name,
        is_private(label),
        level_of(label),
        target,
    )


def _refuse_contradiction(candidate: Candidate, copy: Sample, label: Label, target: Target) -> None:
    if (candidate.target, candidate.class_name, candidate.is_private) != (target, label.class_name, is_private(label)):
        raise LabelsError(
            f"{printable(candidate.shard)}/{printable(candidate.key)} and "
            f"{printable(copy.shard)}/{printable(copy.key)} are the same file and have different labels; "
            "give them one label, by sha256"
        )


def _group(pictures: LabelledPictures) -> None:
    groups = near_duplicate_groups(pictures.phashes).tolist()
    names: dict[int, str] = {}
    for group, candidate in zip(groups, pictures.candidates, strict=True):
        names[group] = min(candidate.sha256, names.get(group, candidate.sha256))
    for number, group in enumerate(groups):
        pictures.candidates[number] = replace(pictures.candidates[number], group=names[group])
