"""From a corpus and labels to a training set: the work of `tune-set`.

The corpus is read twice: once to join it with the labels and hash every picture, once to copy the drawn ones.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from pydantic.dataclasses import dataclass as checked_dataclass

from ingest import __version__
from ingest.errors import LabelsError, StorageError
from ingest.formats import Source, open_source
from ingest.images.decode import DecodedImage, ImageLimits, decode
from ingest.images.phash import SIDE_PX, near_duplicate_groups, phash
from ingest.sample import Sample
from ingest.storage.place import place
from jobs.runtime.feedback import Feedback
from jobs.runtime.requests import STRICT
from jobs.tuning.evaluation_pictures import EvaluationPictures, evaluation_pictures
from jobs.tuning.joining import LabelOf, labels_by_picture
from scoring.protocols import protocol
from scoring.protocols.binary import BinaryProtocol
from scoring.protocols.interface import Protocol, ProtocolOptions
from scoring.taxonomy import KEYS
from scoring.tuning.drawing import Candidate, Draw, drawn, splits
from scoring.tuning.targets import PROTOCOLS, Target, level_of, target_of
from scoring.tuning.training_set import FORMAT_VERSION, RECORD, SPLITS, SetRecord, described, file_sha256

PICTURES_PER_SHARD = 1_000
EXTENSIONS = {"JPEG": "jpg", "TIFF": "tif"}
"""Of formats whose extension is not their name."""


@checked_dataclass(frozen=True, config=STRICT)
class TuneSetRequest:
    """What `tune-set` was asked for."""

    source: str
    labels: str
    """Labels file with one annotator per picture."""

    out: str
    """Folder on this machine that does not exist yet, or is empty."""

    target: str
    protocol: str | None = None
    """Whose prompt the model is tuned on; None: that of the target."""

    prompt_file: bytes | None = None
    """Content of a file that replaces texts of the protocol."""

    dialogues: str | None = None
    """JSONL file of conversations, for the target `dialogue`."""

    source_format: str | None = None
    split: str | None = None
    """Only labels of this split; None: all."""

    draw: Draw = Draw()
    exclude: tuple[str, ...] = ()
    """Runs or labels files of evaluation sets; their pictures and near duplicates of these are left out."""

    keep_ambiguous: bool = False
    licence: str | None = None
    """Of the pictures, for the card."""


def run_tune_set(request: TuneSetRequest, feedback: Feedback) -> SetRecord:
    """Writes a training set and returns its record.

    LabelsError, SourceError, EngineError or StorageError in one line; then `out` holds no set.json.
    """
    asked, words = _protocol(request)
    out = _empty_folder(request.out)
    labels = labels_by_picture(request.labels, request.split)
    source = open_source(request.source, request.source_format, None)
    excluded = evaluation_pictures(request.exclude)
    found, skipped = _candidates(source, labels, request, words, feedback)
    if not found:
        raise LabelsError(
            f"no picture of {request.source} has a usable label: {skipped['unlabelled']} without a label, "
            f"{skipped['no target']} whose label does not say what --target {request.target} needs, "
            f"{skipped['unreadable']} unreadable; the labels name pictures by sha256 or by key, as a scan writes them"
        )
    left, num_excluded = _without(found, excluded)
    chosen = drawn(left, request.draw)
    _refuse_useless(chosen, request.target)
    parts = splits(chosen, request.draw)
    if not parts["train"]:
        raise LabelsError("all drawn pictures went into the validation split; lower --validation")
    files = _written(source, parts, out, feedback)
    record = SetRecord(
        format_version=FORMAT_VERSION,
        privsieve_version=__version__,
        target=request.target,
        protocol=asked.name,
        protocol_version=asked.version,
        prompt_file=None if request.prompt_file is None else request.prompt_file.decode(),
        source=request.source,
        labels_sha256=hashlib.sha256(place(request.labels).read()).hexdigest(),
        annotators=labels.annotators,
        licences=tuple(sorted({*labels.licences, *([request.licence] if request.licence else [])})),
        draw=asdict(request.draw),
        keeps_ambiguous=request.keep_ambiguous,
        num_labelled=len(found),
        num_without_target=skipped["no target"],
        num_unreadable=skipped["unreadable"],
        num_excluded=num_excluded,
        num_groups=len({c.group for c in chosen}),
        counts={split: _counts(parts[split]) for split in SPLITS},
        num_values=_num_values(parts["train"]) if request.target == "slots" else {},
        files=files,
    )
    place(str(out / RECORD)).write(record.model_dump_json(indent=1).encode())
    return record


def _protocol(request: TuneSetRequest) -> tuple[Protocol, tuple[str, str]]:
    """The protocol, and how it spells yes and no."""
    name = request.protocol or PROTOCOLS[request.target]
    base = name.partition(":")[0]
    if base != PROTOCOLS[request.target]:
        raise LabelsError(
            f"--protocol {name} does not fit --target {request.target}, which is for {PROTOCOLS[request.target]}"
        )
    asked = protocol(name, ProtocolOptions(request.prompt_file))
    if isinstance(asked, BinaryProtocol):
        return asked, (asked.answers.yes[0], asked.answers.no[0])
    return asked, ("", "")


def _empty_folder(out: str) -> Path:
    where = place(out)
    if not where.is_local:
        raise StorageError(f"{out}: a training set is written to a folder of this machine; copy it from there")
    folder = Path(where.path)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise LabelsError(f"{out} already exists; name another --out, or remove it")
    return folder


def _candidates(
    source: Source, labels: LabelOf, request: TuneSetRequest, words: tuple[str, str], feedback: Feedback
) -> tuple[list[Candidate], Counter[str]]:
    found: list[tuple[Sample, str, str, Target]] = []
    skipped: Counter[str] = Counter()
    limits = ImageLimits(max_frames=1, max_side_px=4 * SIDE_PX)
    with feedback.meter("reading", None) as meter:
        for sample in _samples(source):
            meter.advance(1)
            sha256 = hashlib.sha256(sample.encoded).hexdigest()
            label = None if sample.fault else labels.of(sha256, sample.key)
            if label is None:
                skipped["unreadable" if sample.fault else "unlabelled"] += 1
                continue
            target = target_of(label, request.target, words, keep_ambiguous=request.keep_ambiguous)
            if target is None:
                skipped["no target"] += 1
                continue
            decoded = decode(sample.encoded, limits)
            if not isinstance(decoded, DecodedImage):
                skipped["unreadable"] += 1
                continue
            named = Sample(sample.shard, sample.index, sample.key, sample.category, b"")
            found.append((named, sha256, phash(decoded.views[0]), target))
    groups = near_duplicate_groups([hashed for _, _, hashed, _ in found])
    candidates = []
    for (sample, sha256, hashed, target), group in zip(found, groups, strict=True):
        label = labels.of(sha256, sample.key)
        assert label is not None
        candidates.append(Candidate(sample.shard, sample.index, sample.key, sha256, hashed, int(group), label, target))
    return candidates, skipped


def _samples(source: Source) -> Iterator[Sample]:
    for shard in source.shards:
        for slice_ in source.slices(shard):
            yield from source.read(slice_)


def _without(candidates: Sequence[Candidate], excluded: EvaluationPictures) -> tuple[list[Candidate], dict[str, int]]:
    same = [c for c in candidates if c.sha256 in excluded.sha256]
    near = excluded.near([c.phash for c in candidates])
    left = [c for c, is_near in zip(candidates, near, strict=True) if not is_near and c.sha256 not in excluded.sha256]
    counts = {"sha256": len(same), "phash": len(candidates) - len(left) - len(same)}
    if candidates and not left:
        raise LabelsError(
            f"all {len(candidates)} labelled pictures are in an evaluation set ({counts['sha256']} the same file, "
            f"{counts['phash']} near duplicates); tune on others, or leave out --exclude"
        )
    return left, counts


def _refuse_useless(chosen: Sequence[Candidate], target: str) -> None:
    """LabelsError if there is only one answer to learn."""
    if len({c.target for c in chosen}) < 2:
        raise LabelsError(
            f"all {len(chosen)} drawn pictures have the same answer for --target {target}, so there is nothing to "
            "learn; add pictures of another class"
        )


def _written(source: Source, parts: Mapping[str, Sequence[Candidate]], out: Path, feedback: Feedback) -> dict[str, str]:
    """Shard -> sha256. Pictures are written in the order of the corpus."""
    import webdataset

    out.mkdir(parents=True, exist_ok=True)
    where = {(c.shard, c.index): (split, c) for split, chosen in parts.items() for c in chosen}
    writers = {
        split: webdataset.ShardWriter(
            str(out / f"{split}-%06d.tar"), maxcount=PICTURES_PER_SHARD, verbose=0, mtime=0, user="root", group="root"
        )
        for split, chosen in parts.items()
        if chosen
    }
    numbers: Counter[str] = Counter()
    with feedback.meter("writing", len(where)) as meter:
        for sample in _samples(source):
            if (entry := where.get((sample.shard, sample.index))) is None:
                continue
            split, candidate = entry
            if hashlib.sha256(sample.encoded).hexdigest() != candidate.sha256:
                raise LabelsError(f"{sample.shard}: a picture has changed while the set was made; start again")
            content = described(
                candidate.target, candidate.label.class_name, candidate.key, candidate.sha256, candidate.group
            )
            key = f"{numbers[split]:09d}"
            writers[split].write({"__key__": key, _extension(sample): sample.encoded, "json": content})
            numbers[split] += 1
            meter.advance(1)
    for writer in writers.values():
        writer.close()
    if sum(numbers.values()) != len(where):
        raise LabelsError("pictures of the source have gone while the set was made; start again")
    return {file.name: file_sha256(file) for file in sorted(out.glob("*.tar"))}


def _extension(sample: Sample) -> str:
    decoded = decode(sample.encoded, ImageLimits(max_frames=1, max_side_px=SIDE_PX))
    name = decoded.format or "JPEG"
    return EXTENSIONS.get(name, name.lower())


def _counts(chosen: Sequence[Candidate]) -> dict[str, int]:
    counts = Counter({"pictures": len(chosen)})
    for candidate in chosen:
        counts[f"class {candidate.stratum}"] += 1
        level = level_of(candidate.label)
        counts["level unknown" if level is None else f"level {level}"] += 1
    return dict(sorted(counts.items()))


def _num_values(chosen: Sequence[Candidate]) -> dict[str, dict[str, int]]:
    names = {0: "0", 1: "0.5", 2: "1", None: "not judged"}
    slots = [c.target.slots for c in chosen if c.target.slots is not None]
    return {key: dict(Counter(names[one[at]] for one in slots)) for at, key in enumerate(KEYS)}
