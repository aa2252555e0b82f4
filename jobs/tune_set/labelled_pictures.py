"""The labelled pictures of a corpus: the first of the two passes of `tune-set`."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ingest.errors import LabelsError
from ingest.formats import Source
from ingest.images.decode import DecodedImage, decode
from ingest.images.phash import near_duplicate_groups, phash
from ingest.images.pixels import ImageLimits
from ingest.sample import Sample, printable
from jobs.runtime.feedback import Feedback
from jobs.runtime.hash_list import NOTHING, HashList, Listing
from jobs.tune_set.joining import LabelOf
from jobs.tune_set.targeting import Targets
from scoring.tuning.drawing import Candidate
from scoring.tuning.targets import Label, Target, is_private, level_of

EXTENSIONS = {"jpeg": "jpg"}
"""Usual extensions of formats whose name is another."""

LIMITS = ImageLimits(max_frames=1, max_side_px=512)
"""Enough for a perceptual hash: on the demo corpus that differs in four bits at most from that of a scan, which takes
all pixels. A hash list is compared with more frames."""


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
    """The same, of which not all can be compared with the list."""


def samples(source: Source) -> Iterator[Sample]:
    for shard in source.shards:
        for slice_ in source.slices(shard):
            yield from source.read(slice_)


def labelled_pictures(
    source: Source, labels: LabelOf, targets: Targets, feedback: Feedback, hash_list: HashList = NOTHING
) -> LabelledPictures:
    """LabelsError if a label is of two pictures, or two copies of a picture have different labels."""
    pictures = LabelledPictures()
    first: dict[str, int] = {}
    listings = dict[str, Listing]()
    limits = replace(LIMITS, max_frames=ImageLimits.max_frames, has_pdq=True) if hash_list.needs_pdq else LIMITS
    with feedback.meter("reading", None) as meter:
        for sample in samples(source):
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
    for at, group in enumerate(groups):
        pictures.candidates[at] = replace(pictures.candidates[at], group=names[group])
