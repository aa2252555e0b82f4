"""The slice files of a finished run, in the order of their rows, and which of them go into a file together."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import tee

from ingest.errors import RunError, number_of
from ingest.formats import open_source
from ingest.sample import printable
from ingest.storage.place import Place
from scoring.runs.coverage import has_all_chosen
from scoring.runs.footers import footers
from scoring.runs.ledger import Ledger, finished, has_any_result, result_names, shard_id_in, shard_ids_of_others
from scoring.runs.record import RunRecord
from scoring.runs.results import ResultPart

SLICES_PER_FILE = 4_096
"""A file ends here at the latest, however few rows its slices have."""


@dataclass(frozen=True)
class SliceFile:
    shard: str
    """As the source names it."""

    name: str
    """Below `scores/`."""

    num_rows: int

    mark: int
    """What it adds to the hash of the run's rows (`scoring.runs.rows_hash`)."""

    blocks_sha256: str
    """`scoring.runs.footers.Footer.blocks_sha256`."""


def finished_shards(url: str, record: RunRecord, ledger: Ledger) -> list[str]:
    """The shards with results, in order. RunError where one is not scanned to its end, or not of this source."""
    is_whole = record.sample is None and record.limit is None
    corpus = open_source(record.source, record.format, record.category)
    shards = [shard for shard in corpus.shards if is_whole or has_any_result(shard, ledger)]
    unfinished = [shard for shard in shards if not finished(shard, ledger)]
    if unfinished or not shards:
        have = "has" if len(unfinished) == 1 else "have"
        first = f": {number_of(len(unfinished), 'shard')} {have} images without a row, {printable(unfinished[0])} first"
        raise RunError(f"{url} is not finished{first if unfinished else ''}; run the same scan again, then compact")
    others = shard_ids_of_others(corpus.shards, ledger)
    if others:
        raise RunError(
            f"{url} has results of {number_of(len(others), 'shard')} that {printable(record.source)} has no longer; "
            "restore what is gone, or scan the source into a new run"
        )
    return shards


def refuse_missing(url: str, record: RunRecord, inputs: Sequence[SliceFile], ledger: Ledger) -> None:
    """RunError where a scan of chosen samples has fewer rows than it chose."""
    num_rows, corpus = rows_in(inputs), open_source(record.source, record.format, record.category)
    if not has_all_chosen(record, num_rows, corpus.shards, ledger):
        raise RunError(
            f"{url} is not finished: {num_rows} of {record.num_chosen} chosen images have a row; "
            "run the same scan again, then compact"
        )


def slice_files(run: Place, record: RunRecord, shards: list[str], ledger: Ledger) -> Iterator[SliceFile]:
    """The slice files in the order of their rows, with the counts of their footers."""
    named, again = tee((shard, name) for shard in shards for name in result_names(shard, ledger))
    found_footers = footers(run, (name for _, name in again), record.settings_hash())
    yield from (
        SliceFile(shard, name, one.num_rows, one.mark(name), one.blocks_sha256)
        for (shard, name), one in zip(named, found_footers, strict=True)
    )


def grouped(inputs: Iterable[SliceFile], rows_per_file: int) -> Iterator[list[SliceFile]]:
    """The slices of each large file; follows from their names and row counts alone."""
    group, num_rows = list[SliceFile](), 0
    for path_ in inputs:
        if group and (num_rows + path_.num_rows > rows_per_file or len(group) == SLICES_PER_FILE):
            yield group
            group, num_rows = [], 0
        group.append(path_)
        num_rows += path_.num_rows
    if group:
        yield group


def rows_in(inputs: Sequence[SliceFile]) -> int:
    return sum(path_.num_rows for path_ in inputs)


def lines_of(inputs: Sequence[SliceFile]) -> bytes:
    return "".join(f"{path_.name} {path_.num_rows}\n" for path_ in inputs).encode()


def hash_of(inputs: Sequence[SliceFile]) -> str:
    """Tells what a large file holds."""
    return hashlib.sha256(lines_of(inputs)).hexdigest()


def rows_by_shard(inputs: Sequence[SliceFile]) -> Counter[str]:
    rows = Counter[str]()
    for path_ in inputs:
        rows[path_.shard] += path_.num_rows
    return rows


def parts_of(inputs: Sequence[SliceFile], file: int, ledger: Ledger) -> list[ResultPart]:
    slices, rows = Counter(path_.shard for path_ in inputs), rows_by_shard(inputs)
    blocks = dict[str, set[str]]()
    for path_ in inputs:
        blocks.setdefault(path_.shard, set()).add(path_.blocks_sha256)
    parts, first_row = list[ResultPart](), 0
    for shard, num_slices in slices.items():
        of_shard = blocks[shard].pop() if len(blocks[shard]) == 1 else ""
        parts.append(ResultPart(shard_id_in(shard, ledger), num_slices, file, first_row, rows[shard], of_shard))
        first_row += rows[shard]
    return parts
