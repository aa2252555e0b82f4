"""What the footer of a result file says beside the schema: a file in the wrong place is noticed without reading rows.

Keys of a slice's result, each with "privsieve." before it:

    file       its own name, so that a copy under another name is none
    settings   `scoring.runs.record.RunRecord.settings_hash`
    code       hash of the code that wrote it
    shard      as text, with undecodable bytes as backslash escapes
    chain      hashes of what the shard listed before the slice, and up to its end
    state      `ingest.formats.Source.fingerprint` of the shard when it was listed
    num_rows   and reasons: quarantined rows by reason, as "empty=2,truncated=1"

Results of older versions lack `file` and `state`. Compacted files have the last line, and `slices`: a hash of what they
were made of, which begins as the last part of their name does.
"""

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import RunError, StorageError
from ingest.sample import printable
from ingest.storage.place import Place
from ingest.storage.retries import is_of_storage, reason_of
from scoring.runs.layout import COMPACT, MANIFEST, SCORES
from scoring.runs.ledger import older_shard_id, shard_id_of, shard_id_of_result
from scoring.runs.results import Listing, Manifest, is_compacted, listing, manifest, remedy

FILES_AT_ONCE = 16
FILES_PER_WINDOW = 4096
"""Bounds the memory that waiting files take."""


@dataclass(frozen=True)
class Footer:
    """What a footer says; empty texts where it does not. reasons: quarantined rows by reason.

    num_with_category: rows whose category is not null.
    """

    num_rows: int
    num_with_category: int
    reasons: Counter[str]
    file: str = ""
    settings: str = ""
    shard: str = ""
    chain: str = ""
    state: str = ""
    slices: str = ""
    columns: frozenset[str] = frozenset()
    """Names of the file's columns."""


_PREFIX = "privsieve."
_TEXTS = ("file", "settings", "shard", "chain", "state", "slices")


def footer_of(said: Mapping[str, str], num_rows: int, reasons: Mapping[str, int]) -> dict[str, str]:
    """The key-value metadata of a result file. said: the texts among its keys."""
    counted = ",".join(f"{reason}={n}" for reason, n in sorted(reasons.items()))
    return {f"{_PREFIX}{key}": text for key, text in (*said.items(), ("num_rows", str(num_rows)), ("reasons", counted))}


def write_result(file: Place, table: pa.Table, said: Mapping[str, str], reasons: Mapping[str, int]) -> None:
    """Writes the rows of a slice whole or not at all, with a footer that also names the file. StorageError.

    said: texts among the keys of the footer. reasons: quarantined rows by reason.
    """
    tagged = table.replace_schema_metadata(footer_of({"file": file.name, **said}, table.num_rows, reasons))
    buffer = io.BytesIO()
    pq.write_table(tagged, buffer, compression="zstd", write_page_checksum=True)
    file.write(buffer.getvalue())


def shard_text(shard: str) -> str:
    """The shard as its results' footers name it."""
    return shard.encode("utf-8", "backslashreplace").decode()


def footers(run: Place, names: Iterable[str], settings: str) -> Iterator[Footer]:
    """Of slices' results, in the order of `names`, in which those of a shard follow each other.

    settings: what they must have been made with. RunError names a file that is damaged or no result of this run.
    """
    before, chains = "", set[str]()
    for place, footer in _read_all(run, (f"{SCORES}/{name}" for name in names)):
        _refuse_foreign(place, footer, settings)
        shard_id = shard_id_of_result(place.name)
        if shard_id != before:
            chains = set()
        # Results of older versions do not say their own names.
        if (before and older_shard_id(shard_id) == before) or footer.chain in chains:
            raise _foreign(place, "is a copy of another one")
        before = shard_id
        if footer.chain:
            chains.add(footer.chain)
        yield footer


def compact_footers(run: Place, compacted: Manifest | None = None) -> Iterator[Footer]:
    """Of the files of a compacted run. RunError names one that is damaged or none of those that were decided on.

    compacted: None reads the manifest now.
    """
    compacted = compacted or manifest(run)
    files = compacted.files if compacted else ()
    read = _read_all(run, (f"{COMPACT}/{file.name}" for file in files))
    for file, (place, footer) in zip(files, read, strict=True):
        part = file.name.removesuffix(".parquet").rpartition("-")[2]
        if footer.num_rows != file.num_rows or not footer.slices.startswith(part):
            raise RunError(f"{place.path} is not what {MANIFEST} says; restore it from a copy")
        yield footer


def refuse_foreign(run: Place, settings: str, listed: Listing | None = None) -> Counter[str]:
    """RunError where a file with rows of the run is damaged, of other settings, or a copy of another one.

    Reads every footer once, as the query that follows does. listed: None lists the run now.
    Returns how many of the files have each column.
    """
    listed = listed or listing(run)
    compacted = listed.manifest
    found = compact_footers(run, compacted) if compacted else footers(run, listed.score_files, settings)
    try:
        num_files_by_columns = Counter(footer.columns for footer in found)
    except RunError:
        if is_compacted(run) != (compacted is not None):
            raise RunError(f"{run.path} was compacted meanwhile; ask again") from None
        raise
    num_files = Counter[str]()
    for columns, count in num_files_by_columns.items():
        num_files.update(dict.fromkeys(columns, count))
    return num_files


def _refuse_foreign(place: Place, footer: Footer, settings: str) -> None:
    if footer.settings not in ("", settings):
        raise _foreign(place, "was made with other settings")
    shard_id = shard_id_of_result(place.name)
    # An escape in the text of an older footer leaves open which name it stands for.
    of_another = not footer.file and footer.shard and "\\" not in footer.shard and not _is_id_of(shard_id, footer.shard)
    if of_another or footer.file not in ("", place.name):
        raise _foreign(place, f"is a copy of a result of {printable(footer.shard)}")


def _is_id_of(shard_id: str, shard: str) -> bool:
    """Whether it is the shard's, in the names of this version or of older ones."""
    return shard_id in (shard_id_of(shard), older_shard_id(shard_id_of(shard)))


def _foreign(place: Place, why: str) -> RunError:
    return RunError(f"the score file {printable(place.path)} {why}; remove it and run the same scan again")


def _read_all(run: Place, paths: Iterable[str]) -> Iterator[tuple[Place, Footer]]:
    left = iter(paths)
    with ThreadPoolExecutor(FILES_AT_ONCE) as threads:
        while window := list(islice(left, FILES_PER_WINDOW)):
            found = threads.map(partial(_footer, run), window)
            yield from ((run.at(path), footer) for path, footer in zip(window, found, strict=True))


def _footer(run: Place, path: str) -> Footer:
    """Its row count must be the file's."""
    result = run.at(path)
    try:
        with result.open() as stream:
            metadata = pq.read_metadata(stream)
        said = {k.decode().removeprefix(_PREFIX): v.decode() for k, v in (metadata.metadata or {}).items()}
        parts = [part.rpartition("=") for part in said["reasons"].split(",") if part]
        if int(said["num_rows"]) == metadata.num_rows:
            return Footer(
                metadata.num_rows,
                _num_with_category(metadata),
                Counter({reason: int(count) for reason, _, count in parts}),
                **{key: said.get(key, "") for key in _TEXTS},
                columns=frozenset(metadata.schema.to_arrow_schema().names),
            )
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        if is_of_storage(error):
            raise StorageError(f"cannot read the score file {printable(result.path)}: {reason_of(error)}") from None
    raise RunError(f"the score file {printable(result.path)} is damaged; {remedy(path)}")


def _num_with_category(metadata: pq.FileMetaData) -> int:
    """By the column's statistics, without reading it."""
    place = metadata.schema.names.index("category")
    num_null = 0
    for number in range(metadata.num_row_groups):
        column = metadata.row_group(number).column(place)
        num_null += column.statistics.null_count if column.is_stats_set else 0
    return int(metadata.num_rows - num_null)
