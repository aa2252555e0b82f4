"""The folder of a training set: the second of the two passes of `tune-set`."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ingest.errors import EngineError, LabelsError, StorageError, number_of
from ingest.formats import Source
from ingest.machine import install_command
from ingest.storage.place import place, reason_of
from jobs.runtime.progress import Feedback
from scoring.tuning.drawing import Candidate
from scoring.tuning.training_set import RECORD, SHARD_NAME, UNFINISHED, described, file_sha256

PICTURES_PER_SHARD = 1_000


def set_folder(out: str) -> Path:
    """Return the folder. LabelsError if it holds anything but what an interrupted tune-set left."""
    where = place(out)
    if not where.is_local:
        raise StorageError(f"{out}: a training set is written to a folder of this machine; copy it from there")
    folder = Path(where.path)
    try:
        names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    except OSError as error:
        raise StorageError(f"--out {out}: {reason_of(error)}; name another folder") from None
    if not names or (UNFINISHED in names and not _others(names)):
        return folder
    raise LabelsError(f"{out} already exists and is not empty; name another --out, or remove it")


def write_shards(
    source: Source, parts: Mapping[str, Sequence[Candidate]], out: Path, feedback: Feedback
) -> dict[str, str]:
    """Write the shards in the order of the corpus. Return shard -> sha256. The mark `UNFINISHED` stays in the folder.

    LabelsError if the corpus changed meanwhile, StorageError if the shards cannot be written; then none is left.
    """
    if num_removed := _remove_shards(out):
        feedback.notice(f"{out}: {number_of(num_removed, 'shard')} of an interrupted tune-set removed")
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
        raise EngineError(f"tune-set needs the package webdataset: {install_command('tune')}") from None
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
                split, candidate = entry
                if hashlib.sha256(sample.encoded).hexdigest() != candidate.sha256:
                    raise LabelsError(f"{sample.shard}: a picture has changed while the set was made; start again")
                content = described(
                    candidate.target, candidate.class_name, candidate.key, candidate.sha256, candidate.group
                )
                key = f"{numbers[split]:09d}"
                writers[split].write({"__key__": key, candidate.extension: sample.encoded, "json": content})
                numbers[split] += 1
                meter.advance(1)
    finally:
        for writer in writers.values():
            writer.close()
    if sum(numbers.values()) != len(where):
        raise LabelsError("pictures of the source have gone while the set was made; start again")


def _others(names: set[str]) -> set[str]:
    """Return names that tune-set does not write before its set.json."""
    return {name for name in names if name != UNFINISHED and not SHARD_NAME.fullmatch(name)} | names & {RECORD}


def _remove_shards(out: Path) -> int:
    """Remove shards, only if the mark says that they are of an interrupted tune-set. Return how many."""
    if not (out / UNFINISHED).exists():
        return 0
    shards = [file for file in out.iterdir() if SHARD_NAME.fullmatch(file.name)]
    for file in shards:
        file.unlink()
    return len(shards)
