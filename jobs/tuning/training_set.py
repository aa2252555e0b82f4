"""`privsieve tune set SOURCE --labels FILE --target T --out SET`: a training set for `tune`. Two passes: the first
chooses among the labelled pictures, the second writes the folder of the set."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from pydantic import Field

from ingest import __version__
from ingest.errors import EngineError, LabelsError, StorageError, number_of
from ingest.formats import Source, open_source
from ingest.machine import install_command
from ingest.storage.place import place, reason_of
from jobs.console.requests import HashListUrl, Option, Url, Urls, checked_request
from jobs.runtime.hash_list import hash_list_of
from jobs.runtime.progress import SILENT, Feedback
from jobs.tuning.labelled_pictures import (
    EvaluationPictures,
    LabelledPictures,
    evaluation_pictures,
    labelled_pictures,
    labels_by_picture,
    targets_of,
)
from scoring.labels.table import labels_sha256
from scoring.protocols import protocol
from scoring.protocols.interface import Protocol
from scoring.taxonomy import KEYS
from scoring.tuning.targets import PROTOCOLS, WITHOUT, Candidate, TargetKind, differ, drawn, splits
from scoring.tuning.training_set import RECORD, SHARD_NAME, SPLITS, UNFINISHED, SetRecord, described, file_sha256

PICTURES_PER_SHARD = 1_000


@checked_request
class TuneSetRequest:
    """What `tune set` was asked for."""

    source: Annotated[Url, Option(argument="SOURCE")]
    """Folder, tar, Parquet file, glob or fsspec URL of the pictures."""

    labels: Url
    """Labels file with one label per picture (privsieve help labels)."""

    out: Url
    """Folder of the training set on this machine; a new one."""

    target: TargetKind
    """What the model learns to answer."""

    protocol: str | None = None
    """Whose prompt the model is tuned on, such as binary:ours-2; that of the target by default."""

    prompt_file: bytes | None = None
    """YAML file that replaces texts of the protocol, as in scan."""

    dialogues: Url | None = None
    """For --target dialogue: conversations, one per line of JSON."""

    source_format: str | None = None
    """webdataset, tree or parquet; recognised if not given."""

    split: str | None = None
    """Only labels of this split, such as train."""

    num_pictures: Annotated[Annotated[int, Field(ge=2)] | None, Option("--n")] = None
    """Pictures in total, each class in proportion."""

    validation_share: Annotated[Annotated[float, Field(ge=0, le=0.5)], Option("--validation")] = 0.1
    """Share that is held back, by groups of near duplicates."""

    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of every draw."""

    exclude: Annotated[Urls, Option(metavar="RUN|LABELS")] = ()
    """An evaluation set, as a run or labels file, or labels that are probably wrong: its pictures, and near duplicates
    of those in runs, are left out. Repeatable."""

    hash_list: HashListUrl = None
    """File of hashes (sha256 or PDQ, one a line); a picture on it is not copied into the set."""


def run_tune_set(request: TuneSetRequest, feedback: Feedback = SILENT) -> SetRecord:
    """Write a training set and return its record.

    LabelsError, SourceError, EngineError or StorageError in one line; then `out` holds no set.json.
    """
    if request.dialogues is not None and request.target != "dialogue":
        raise LabelsError(f"--dialogues is for --target dialogue, not {request.target}; leave it out")
    if request.dialogues is None and request.target == "dialogue":
        raise LabelsError("--target dialogue needs --dialogues FILE, one conversation per line (privsieve help tuning)")
    asked = _protocol(request)
    out = set_folder(request.out)
    labels = labels_by_picture(request.labels, request.split)
    targets = targets_of(request.target, asked, request.dialogues)
    source = open_source(request.source, request.source_format, None)
    hash_list = hash_list_of(request.hash_list)
    excluded = evaluation_pictures(request.exclude, feedback)
    pictures = labelled_pictures(source, labels, targets, feedback, hash_list)
    if not pictures.candidates:
        raise LabelsError(_none_usable(request, pictures))
    if targets.num_unused:
        feedback.notice(
            f"{request.dialogues}: {targets.num_unused} conversations are of no labelled picture of the source"
        )
    usable, num_excluded = _without(pictures, excluded)
    chosen = drawn(usable, request.num_pictures, request.seed)
    parts = splits(chosen, request.validation_share, request.seed)
    _refuse_useless(chosen, parts["train"], request)
    files = write_shards(source, parts, out, feedback)
    record = SetRecord(
        privsieve_version=__version__,
        target=request.target,
        protocol=asked.name,
        protocol_version=asked.version,
        prompt_file=None if request.prompt_file is None else request.prompt_file.decode(),
        source=request.source,
        labels_sha256=labels_sha256(request.labels),
        annotators=labels.annotators,
        licences=labels.licences,
        draw={name: getattr(request, name) for name in ("num_pictures", "validation_share", "seed")},
        num_pictures=pictures.num_pictures,
        num_labelled=len(pictures.candidates),
        num_copies=pictures.num_copies,
        num_without_target=pictures.num_without_target,
        num_unreadable=pictures.num_unreadable,
        num_unlabelled=pictures.num_unlabelled,
        num_listed=pictures.num_listed,
        num_not_compared=pictures.num_not_compared,
        num_unused_labels=labels.num_unused,
        num_excluded=num_excluded,
        num_groups=len({c.group for c in chosen}),
        counts={split: _counts(parts[split]) for split in SPLITS},
        num_values=_num_values(parts["train"]) if request.target == "slots" else {},
        files=files,
    )
    place(str(out / RECORD)).write(record.model_dump_json(indent=1).encode())
    (out / UNFINISHED).unlink(missing_ok=True)
    return record


def _protocol(request: TuneSetRequest) -> Protocol:
    name = request.protocol or PROTOCOLS[request.target]
    base = name.partition(":")[0]
    if base != PROTOCOLS[request.target]:
        raise LabelsError(
            f"--protocol {name:.80} does not fit --target {request.target}, which is for {PROTOCOLS[request.target]}"
        )
    asked = protocol(name, request.prompt_file)
    try:
        (request.prompt_file or b"").decode()
    except UnicodeDecodeError:
        raise LabelsError("the prompt file is not written in UTF-8; save it as UTF-8") from None
    return asked


def _none_usable(request: TuneSetRequest, pictures: LabelledPictures) -> str:
    listed = f", {pictures.num_listed} on the hash list" if pictures.num_listed else ""
    listed += f", {pictures.num_not_compared} that cannot be compared with it" if pictures.num_not_compared else ""
    return (
        f"no picture of {request.source} can be used: of {pictures.num_pictures}, "
        f"{pictures.num_unlabelled} without a label, "
        f"{pictures.num_without_target} {WITHOUT[request.target]}, "
        f"{pictures.num_unreadable} unreadable{listed}; the labels name pictures by sha256, or by key as a scan writes "
        "it"
    )


def _without(pictures: LabelledPictures, excluded: EvaluationPictures) -> tuple[list[Candidate], dict[str, int]]:
    candidates = pictures.candidates
    same = [c.sha256 in excluded.sha256 for c in candidates]
    near = excluded.near(pictures.phashes)
    remaining = [c for c, is_same, is_near in zip(candidates, same, near, strict=True) if not is_same and not is_near]
    counts = {"sha256": sum(same), "phash": len(candidates) - len(remaining) - sum(same)}
    if not remaining:
        raise LabelsError(
            f"all {len(candidates)} labelled pictures are in an evaluation set ({counts['sha256']} the same file, "
            f"{counts['phash']} near duplicates); tune on others, or leave out --exclude"
        )
    return remaining, counts


def _refuse_useless(chosen: Sequence[Candidate], train: Sequence[Candidate], request: TuneSetRequest) -> None:
    """Raise LabelsError if there is only one answer to learn."""
    if not train:
        raise LabelsError(
            f"all {len(chosen)} drawn pictures went into the validation split; lower --validation, or take another "
            "--seed"
        )
    are_both = len({c.is_private for c in train}) > 1
    if not (are_both if request.target == "dialogue" else differ(c.target for c in train)):
        raise LabelsError(
            f"all {len(train)} pictures to tune on have the same answer for --target {request.target}, so there is "
            "nothing to learn; add pictures of another class"
        )


def _counts(chosen: Sequence[Candidate]) -> dict[str, int]:
    counts = Counter({"pictures": len(chosen)})
    for candidate in chosen:
        counts[f"class {candidate.stratum}"] += 1
        counts["level unknown" if candidate.level is None else f"level {candidate.level}"] += 1
    return dict(sorted(counts.items()))


def _num_values(chosen: Sequence[Candidate]) -> dict[str, dict[str, int]]:
    names = {0: "0", 1: "0.5", 2: "1", None: "not judged"}
    slots = [c.target.slots for c in chosen if c.target.slots is not None]
    counts_of = {key: Counter(names[slot[number]] for slot in slots) for number, key in enumerate(KEYS)}
    return {key: dict(sorted(counts.items())) for key, counts in counts_of.items()}


def set_folder(out: str) -> Path:
    """Return the folder. LabelsError if it holds anything but what an interrupted tune set left."""
    where = place(out)
    if not where.is_local:
        raise StorageError(f"{out}: a training set is written to a folder of this machine; copy it from there")
    folder = Path(where.path)
    try:
        names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    except OSError as error:
        raise StorageError(f"--out {out}: {reason_of(error)}; name another folder") from None
    if not names or (UNFINISHED in names and all(map(SHARD_NAME.fullmatch, names - {UNFINISHED}))):
        return folder
    raise LabelsError(f"{out} already exists and is not empty; name another --out, or remove it")


def write_shards(
    source: Source, parts: Mapping[str, Sequence[Candidate]], out: Path, feedback: Feedback
) -> dict[str, str]:
    """Write the shards in the order of the corpus. Return shard -> sha256. The mark `UNFINISHED` stays in the folder.

    LabelsError if the corpus changed meanwhile, StorageError if the shards cannot be written; then none is left.
    """
    if num_removed := _remove_shards(out):
        feedback.notice(f"{out}: {number_of(num_removed, 'shard')} of an interrupted tune set removed")
    existed = out.exists()
    place(str(out / UNFINISHED)).write(b"")
    try:
        _write(source, parts, out, feedback)
        return {file.name: file_sha256(file) for file in sorted(out.glob("*.tar"))}
    except BaseException as error:
        with suppress(OSError):
            _remove_shards(out)
            (out / UNFINISHED).unlink()
            if not existed:
                out.rmdir()
        if isinstance(error, OSError):
            raise StorageError(f"cannot write {out}: {reason_of(error)}") from None
        raise


def _write(source: Source, parts: Mapping[str, Sequence[Candidate]], out: Path, feedback: Feedback) -> None:
    try:
        from webdataset import ShardWriter
    except ImportError:
        raise EngineError(f"tune set needs the package webdataset: {install_command('tune')}") from None
    where = {(c.shard, c.index): (split, c) for split, chosen in parts.items() for c in chosen}
    writers = {
        split: ShardWriter(
            str(out / f"{split}-%06d.tar"), maxcount=PICTURES_PER_SHARD, verbose=0, mtime=0, user="root", group="root"
        )
        for split, chosen in parts.items()
        if chosen
    }
    numbers: Counter[str] = Counter()
    try:
        with feedback.meter("writing", len(where)) as meter:
            for sample in source.samples():
                if (entry := where.get((sample.shard, sample.index))) is None:
                    continue
                split, c = entry
                if hashlib.sha256(sample.encoded).hexdigest() != c.sha256:
                    raise LabelsError(f"{sample.shard}: a picture has changed while the set was made; start again")
                content = described(c.target, c.class_name, c.key, c.sha256, c.group)
                key = f"{numbers[split]:09d}"
                writers[split].write({"__key__": key, c.extension: sample.encoded, "json": content})
                numbers[split] += 1
                meter.advance(1)
    finally:
        for writer in writers.values():
            writer.close()
    if sum(numbers.values()) != len(where):
        raise LabelsError("pictures of the source have gone while the set was made; start again")


def _remove_shards(out: Path) -> int:
    """Remove shards, only if the mark says that they are of an interrupted tune set. Return how many."""
    if not (out / UNFINISHED).exists():
        return 0
    shards = [file for file in out.iterdir() if SHARD_NAME.fullmatch(file.name)]
    for file in shards:
        file.unlink()
    return len(shards)
