"""The labelled pictures of a corpus, the first of the two passes of `tune set`. What the labels say of a picture, what
the model should answer about it, and which pictures to leave out of tuning."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import LabelsError, number_of
from ingest.formats import Source
from ingest.images.decode import DecodedImage, decode
from ingest.images.phash import near_duplicate_groups, phash
from ingest.images.pixels import ImageLimits
from ingest.sample import Sample, printable
from ingest.storage.place import place
from jobs.runtime.hash_list import NOTHING, Clearance, HashList
from jobs.runtime.progress import SILENT, Feedback
from reports.report.opened import open_run
from scoring.assessment import Values
from scoring.labels.picture_index import PictureIndex
from scoring.labels.reviews import is_reviews
from scoring.labels.table import attribute_values, of_split, read_labels
from scoring.protocols.interface import Protocol
from scoring.table import Col
from scoring.tuning.dialogues import dialogues
from scoring.tuning.targets import Candidate, Label, Target, Turns, is_private, level_of, target_of
from scoring.tuning.training_set import RECORD

EXTENSIONS = {"jpeg": "jpg"}
"""Usual extensions of formats whose name is another."""

LIMITS = ImageLimits(max_frames=1, max_side_px=512)
"""Enough for a perceptual hash: on the demo corpus it differs in four bits at most from that of a scan, which takes all
pixels. A hash list is compared with more frames."""


@dataclass(frozen=True)
class LabelOf:
    """The labels of a file, one per picture."""

    index: PictureIndex
    """Finds the row of the file about a picture."""

    values: Values
    """Shape (labels, attributes)."""

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
        if row is None:
            return None
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
        table = of_split(table, split, url).combine_chunks()
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


@dataclass(frozen=True)
class Targets:
    """Targets of one kind."""

    asked: Protocol
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
            target = target_of(label, self.asked)
            return None if target is None else self._distinct.setdefault(target, target)
        row = None if is_private(label) is None else self.names.row_of(sample.shard, sample.key, sha256)
        return None if row is None else Target(turns=self.turns[row])


def targets_of(kind: str, asked: Protocol, url: str | None) -> Targets:
    """Return the targets. url: of the conversations. LabelsError for a wrong line, or two of one picture."""
    if kind != "dialogue" or url is None:
        return Targets(asked)
    names = PictureIndex(url)
    turns: list[Turns] = []
    for number, sha256, key, conversation in dialogues(url):
        if not names.add(len(turns), sha256, key):
            raise LabelsError(f"{url}, line {number}: the picture has a conversation already; keep one")
        turns.append(conversation)
    if not turns:
        raise LabelsError(f"{url}: holds no conversation")
    return Targets(asked, names, turns)


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
        num_unnamed = rows[Col.SHA256].null_count
        if num_unnamed == rows.num_rows:
            raise LabelsError(
                f"{url}: names no picture by sha256, so none could be left out; give a run over these "
                "pictures, or import the labels where the pictures lie"
            )
        sha256 |= set(rows[Col.SHA256].drop_null().to_pylist())
        if num_unnamed:
            feedback.notice(f"{url}: {number_of(num_unnamed, 'row')} without sha256 cannot be looked for")
        if not is_run:
            feedback.notice(f"{url} is a labels file: only the same files are left out; a run finds copies too")
        elif num_unhashed := rows[Col.PHASH].null_count:
            pictures = number_of(num_unhashed, "picture")
            feedback.notice(f"{url}: {pictures} without a perceptual hash; their resized copies are not found")
    return EvaluationPictures(frozenset(sha256), tuple(sorted(phash)))


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
    clearances = dict[str, Clearance]()
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
            elif sha256 in hash_list.sha256 or clearances.get(sha256) == "listed":
                pictures.num_listed += 1
            elif clearances.get(sha256) == "not_compared":
                pictures.num_not_compared += 1
            elif sha256 in first:
                _refuse_contradiction(pictures.candidates[first[sha256]], sample, label, target)
                pictures.num_copies += 1
            elif not isinstance(decoded := decode(sample.encoded, limits), DecodedImage):
                pictures.num_unreadable += 1
            elif (clearance := hash_list.clearances([sha256], [decoded.pdq])[0]) != "clear":
                clearances[sha256] = clearance
                pictures.num_listed += clearance == "listed"
                pictures.num_not_compared += clearance == "not_compared"
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
