"""`screen fit`, on labelled pictures that are decoded as a scan decodes them."""

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ingest.errors import EngineError, LabelsError, NoFeaturesError, number_of
from ingest.formats import Source, open_source
from ingest.images.decode import DecodedImage, decode
from ingest.images.phash import near_duplicate_groups, phash
from ingest.images.pixels import ImageLimits
from ingest.sample import Sample, printable
from ingest.storage.given_files import given_content
from ingest.storage.place import place
from jobs.console.requests import refuse_existing
from jobs.runtime.hash_list import hash_list_of
from jobs.runtime.progress import SILENT, Feedback
from jobs.scanning.batch import picture_views
from jobs.scanning.chosen import selected
from jobs.screening.request import FitRequest, LookRequest
from reports.evaluation.answers import truth_of
from reports.labels.agreed import AgreedLabels, agreed
from reports.labels.joining import Drawn, LabelledRows, labelled_rows
from reports.screening.compute import FitSettings, MadeScreen, made_screen
from reports.screening.pictures import LabelledFeatures, needed_for_bound
from reports.statistics.binary import Flags, Numbers
from reports.statistics.shares import Row, evenly_taken
from scoring.labels.picture_index import PictureIndex
from scoring.labels.table import labels_sha256, read_judged
from scoring.runs.record import read_record
from scoring.screen.encoder import MAX_ENCODER_BYTES
from scoring.screen.modalities import Modality
from scoring.screen.model import FittedScreen, Vectors, identity_of, loaded_modalities
from scoring.screen.record import ModalityName
from scoring.screen.screen_file import write_screen

LFS_POINTER = b"version https://git-lfs.github.com/spec/"
"""How the text begins that a clone without Git LFS has in place of a large file."""

LIMITS = ImageLimits()
ROW_COLUMNS = ("shard", "index", "key", "sha256", "status")


@dataclass(frozen=True)
class _Labels:
    """What people say of the pictures, and which picture each label is of."""

    agreed: AgreedLabels
    label_of: Callable[[Sample, str], int | None]
    """Sample and sha256 -> row of the labels."""

    chosen: Mapping[str, list[int]] | None
    """Shard -> ascending indices of labelled samples; None: all must be read."""

    rows: LabelledRows | None
    """Rows of the run, if there is one."""


def labelled_pictures(
    request: LookRequest, modalities: Mapping[ModalityName, Modality], feedback: Feedback
) -> tuple[LabelledFeatures, Drawn]:
    """Return the labelled pictures with their features, and how the labels were drawn. LabelsError if no labelled
    picture is found, or labels contradict each other; SourceError, StorageError and RunError of corpus and run."""
    labels = _labels(request)
    source = open_source(request.source, request.source_format, None)
    hash_list = hash_list_of(request.hash_list)
    limits = replace(LIMITS, has_pdq=True) if hash_list.needs_pdq else LIMITS
    places, hashes, phashes = dict[str, int](), list[str](), list[str | None]()
    views, left_out = list[tuple[Vectors, ...]](), dict[int, str]()
    with feedback.meter("labelled pictures", None) as meter:
        for sample in _samples(source, labels.chosen):
            meter.advance(1)
            if sample.fault:
                continue
            sha256 = hashlib.sha256(sample.encoded).hexdigest()
            label = labels.label_of(sample, sha256)
            if label is None or sha256 in places:
                continue
            if sha256 in hash_list.sha256:
                left_out[label] = "withheld by the hash list"
                continue
            decoded = decode(sample.encoded, limits)
            if not isinstance(decoded, DecodedImage):
                left_out[label] = "unreadable"
                continue
            if hash_list.clearances([sha256], [decoded.pdq])[0] != "clear":
                left_out[label] = "withheld by the hash list"
                continue
            try:
                vectors = tuple(
                    {name: modality.features(view) for name, modality in modalities.items()}
                    for view in picture_views(decoded, sha256, sample.caption)
                )
            except NoFeaturesError as error:
                left_out[label] = f"of a picture without features: {error}"
                continue
            places[sha256] = label
            hashes.append(sha256)
            phashes.append(phash(decoded.views[0]))
            views.append(vectors)
    if not hashes and not left_out:
        raise LabelsError(
            f"no label of {request.labels} is of a picture of {request.source}; labels name pictures by sha256, or by "
            "key as a scan writes it"
        )
    counts = Counter(left_out[label] for label in left_out.keys() - set(places.values()))
    counts["of no picture of the corpus"] = labels.agreed.labels.num_rows - len(left_out.keys() | set(places.values()))
    unused = [f"{num:,} {why}" for why, num in counts.items() if num]
    if not hashes:
        raise LabelsError(f"no label of {request.labels} can be used: {', '.join(unused)}")
    for number_and_why in unused:
        feedback.notice(f"labels that are not used: {number_and_why}")
    return _found(labels, places, hashes, phashes, views)


def _labels(request: LookRequest) -> _Labels:
    together = agreed(read_judged(request.labels))
    if request.run is None:
        index = PictureIndex(request.labels)
        index.add_labels(together.labels)
        return _Labels(together, lambda sample, sha256: index.row_of(sample.shard, sample.key, sha256), None, None)
    root, record = read_record(request.run)
    rows = labelled_rows(root, record, together, ROW_COLUMNS, request.drawn)
    joined = rows.joined
    named = zip(*(joined.rows[name].to_pylist() for name in ("shard", "index", "sha256")), strict=True)
    by_row = dict(zip(named, joined.label_places.tolist(), strict=True))
    chosen = dict[str, list[int]]()
    for shard, index_, _ in by_row:
        chosen.setdefault(shard, []).append(index_)
    ascending = {shard: sorted(indices) for shard, indices in chosen.items()}
    return _Labels(together, lambda sample, sha256: by_row.get((sample.shard, sample.index, sha256)), ascending, rows)


def _samples(source: Source, chosen: Mapping[str, list[int]] | None) -> Iterator[Sample]:
    for shard in source.shards:
        indices = None if chosen is None else chosen.get(shard, chosen.get(printable(shard), []))
        if indices == []:
            continue
        for slice_ in selected(source.slices(shard), shard, indices):
            yield from source.read(slice_)


def _found(
    labels: _Labels,
    places: Mapping[str, int],
    hashes: list[str],
    phashes: list[str | None],
    views: list[tuple[Vectors, ...]],
) -> tuple[LabelledFeatures, Drawn]:
    numbers = np.array([places[sha256] for sha256 in hashes], dtype=np.int64)
    truth = truth_of(labels.agreed.labels.take(pa.array(numbers)))
    is_undecided = np.asarray(labels.agreed.undecided[numbers, 0], dtype=np.bool_)
    is_open = np.isnan(truth.private) & ~is_undecided
    if is_open.any():
        raise LabelsError(
            f"of {number_of(int(is_open.sum()), 'labelled picture')} only some of the attributes are labelled that "
            "make a picture private (levels 1 and 2), so it is not known whether they are; fill in the column "
            "private, or all of these attributes"
        )
    probabilities, is_even = _drawn(labels.rows, hashes)
    pictures = LabelledFeatures(
        sha256=tuple(hashes),
        private=np.where(is_undecided, np.nan, truth.private),
        levels=np.asarray(truth.levels, dtype=np.int64),
        probabilities=probabilities,
        is_even=is_even,
        groups=np.asarray(near_duplicate_groups(phashes), dtype=np.int64),
        views=tuple(views),
    )
    return pictures, "evenly" if labels.rows is None else labels.rows.drawn


def _drawn(rows: LabelledRows | None, hashes: list[str]) -> tuple[Numbers, Flags]:
    """Return each picture's probability of being drawn, and whether it is left once all are equal; both (n,)."""
    if rows is None or rows.sample is None or rows.copies is None:
        return np.ones(len(hashes)), np.ones(len(hashes), dtype=np.bool_)
    least = rows.sample.design.least_probability
    by_hash = dict(zip(rows.joined.rows["sha256"].to_pylist(), rows.probabilities.tolist(), strict=True))
    rows_of = dict[str, list[Row]]()
    for sha256, *row in zip(*(rows.copies[name].to_pylist() for name in ("sha256", "shard", "index")), strict=True):
        rows_of.setdefault(sha256, []).append((row[0], row[1]))
    drawn = frozenset(evenly_taken(rows_of, rows.sample.probabilities(), least, rows.sample.design.seed))
    probabilities = np.array([by_hash[sha256] for sha256 in hashes], dtype=np.float64)
    return probabilities, np.array([sha256 in drawn for sha256 in hashes], dtype=np.bool_)


@dataclass(frozen=True)
class FitResult:
    """A screen, as it was written, and how it was chosen."""

    screen: FittedScreen
    made: MadeScreen
    num_labelled: int


def run_screen_fit(request: FitRequest, feedback: Feedback = SILENT) -> FitResult:
    """Fit a screen and write it. LabelsError with the number of labels that is missing; SourceError, EngineError,
    RunError or StorageError in one line. Then nothing is written."""
    refuse_existing(request.out)
    settings = FitSettings(
        target_miss=request.target_miss,
        confidence=request.confidence,
        target_miss_level_1=request.target_miss_level_1,
        guard_share=request.guard,
        seed=request.seed,
    )
    names, url = request.sees.names, request.sees.encoder
    encoder = None if url is None else _model_file(url)
    identities = {name: identity_of(name, encoder) for name in names}
    modalities = loaded_modalities(names, encoder)
    # Before the pictures are read, which may take hours.
    private = truth_of(agreed(read_judged(request.look.labels)).labels).private
    needed_for_bound(int((private == 1).sum()), request.target_miss, request.confidence)
    pictures, drawn = labelled_pictures(request.look, modalities, feedback)
    lengths = {name: modality.length for name, modality in modalities.items()}
    digest = labels_sha256(request.look.labels)
    made = made_screen(pictures, identities, lengths, settings, digest, drawn)
    try:
        screen = write_screen(request.out, made.record, made.predictor, encoder)
    except BaseException:
        if place(request.out).is_local:
            shutil.rmtree(place(request.out).path, ignore_errors=True)  # it did not exist before
        raise
    return FitResult(screen, made, len(pictures))


def _model_file(url: str) -> bytes:
    """Read an ONNX file. EngineError if it is of another kind or was not downloaded; StorageError."""
    if not url.lower().endswith(".onnx"):
        raise EngineError(f"--encoder {url}: give one .onnx file that holds its own weights (privsieve help screen)")
    content = given_content(place(url), url, MAX_ENCODER_BYTES)
    if not content:
        raise EngineError(f"{url} is empty; download the model again")
    if content.startswith(LFS_POINTER):
        raise EngineError(f"{url} is only the pointer of Git LFS to the file; download the file with: git lfs pull")
    return content
