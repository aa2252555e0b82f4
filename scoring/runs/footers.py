"""Facts about a result file in its Parquet footer, so that a wrong file is noticed without reading its rows.

Keys of a slice's result, each with "privsieve." before it:

    file             its own name, so that a copy under another name is refused
    settings         `scoring.runs.record.RunRecord.settings_hash`
    code             hash of the code that wrote it
    shard            its name as text, with undecodable bytes as backslash escapes
    listing_digests  `jobs.scanning.slice_tasks.SliceTask.listing_digests`
    fingerprint      `ingest.formats.Source.fingerprint` of the shard when it was listed
    content          hash of the rows (`_content_of`)
    num_rows         number of rows of the file
    reasons          quarantined rows by reason, as "empty=2,truncated=1"
    screen           what a screen did, as `scoring.screen.guard.GuardCounts.text`; only in runs with a screen
    hidden           number of hidden files in the shard, if there are any; in the result of its last slice

Compacted files have `num_rows`, `reasons`, `screen` and `slices`: a hash of the files that they replaced, whose first
digits are the last part of their name.
"""

import hashlib
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import RunError
from ingest.sample import printable
from ingest.storage.parquet_tables import refuse_damage
from ingest.storage.place import Place
from scoring.runs import COMPACT, MANIFEST, SCORES
from scoring.runs.results import RowRange, RunListing, listing, manifest, remedy
from scoring.table import SCHEMA, Col

FILES_AT_ONCE = 16
FILES_PER_WINDOW = 4096
"""Number of footers read ahead, which limits their memory."""


@dataclass(frozen=True)
class Footer:
    """A footer as read from a file. Texts that it need not have are empty; the module's docstring explains them."""

    num_rows: int

    num_with_category: int
    """Rows whose category is not null."""

    reasons: Counter[str]
    """Number of quarantined rows by reason."""

    file: str = ""
    settings: str = ""
    shard: str = ""

    listing_digests: str = ""
    fingerprint: str = ""
    content: str = ""
    slices: str = ""
    screen: str = ""
    hidden: str = ""

    @property
    def blocks_sha256(self) -> str:
        """Hash of a few blocks of the shard, from the fingerprint; empty if it has none."""
        return self.fingerprint.partition(" ")[2]

    @property
    def mark(self) -> int:
        """The part of a slice's result in the hash of the run's rows."""
        return mark_of(self.file, self.num_rows, self.content)


@dataclass(frozen=True)
class CheckedFiles:
    """Summary of the footers of all score files of a run."""

    num_rows: int
    """Rows of images and of damaged parts of shards."""

    reasons: Counter[str]
    """Number of quarantined rows by reason."""

    rows_sha256: str
    """Hash of the run's rows (`scoring.runs.footers`)."""


_PREFIX = "privsieve."
_OF_SLICE = ("file", "settings", "shard", "listing_digests", "fingerprint", "content")
"""Texts that each result of a slice has."""


def footer_of(texts: Mapping[str, str], num_rows: int, reasons: Mapping[str, int]) -> dict[str, str]:
    """Build the key-value metadata of a result file. texts: the values of its other keys."""
    counted = ",".join(f"{reason}={n}" for reason, n in sorted(reasons.items()))
    return {
        f"{_PREFIX}{key}": text for key, text in (*texts.items(), ("num_rows", str(num_rows)), ("reasons", counted))
    }


def write_result(file: Place, table: pa.Table, texts: Mapping[str, str], reasons: Mapping[str, int]) -> None:
    """Write the rows of a slice, whole or not at all. StorageError if that fails. texts: values of the footer's keys,
    except `file` and `content`. reasons: quarantined rows by reason."""
    texts = {"file": file.name, "content": _content_of(table), **texts}
    tagged = table.replace_schema_metadata(footer_of(texts, table.num_rows, reasons))
    buffer = io.BytesIO()
    pq.write_table(tagged, buffer, compression="zstd", write_page_checksum=True)
    file.write(buffer.getvalue())


def _content_of(table: pa.Table) -> str:
    """Hash the rows as Parquet encodes them: in memory there may be leftover bytes under a null."""
    buffer = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(None), buffer, compression="none")
    content = buffer.getvalue()
    # Without the footer, which may say more of the columns in a table that was read from a file.
    num_footer_bytes = int.from_bytes(content[-8:-4], "little") + 8
    return hashlib.sha256(content[:-num_footer_bytes]).hexdigest()


def shard_text(shard: str) -> str:
    """Return the shard's name as in the footers of its results."""
    return shard.encode("utf-8", "backslashreplace").decode()


def blocks_at(run: Place, ranges: Iterable[RowRange]) -> frozenset[str]:
    """Return the block hashes of the shard at the time when these rows were scanned; none if the storage tells."""
    ranges = list(ranges)
    of_slices = (footer.blocks_sha256 for _, footer in _read_all(run, (r.path for r in ranges if r.num_rows is None)))
    return frozenset([*of_slices, *(r.blocks_sha256 for r in ranges)]) - {""}


def are_different(fingerprints: Iterable[str]) -> bool:
    """Return whether the fingerprints show different states of a shard. Missing hashes are not compared."""
    marks, blocks = set[str](), set[str]()
    for fingerprint in fingerprints:
        marks_hash, _, blocks_hash = fingerprint.partition(" ")
        marks.add(marks_hash)
        blocks.add(blocks_hash)
    return len(marks - {""}) > 1 or len(blocks - {""}) > 1


def footers(run: Place, names: Iterable[str], settings: str) -> Iterator[Footer]:
    """Yield footers of slices' results, in the order of `names`. settings: `RunRecord.settings_hash`. RunError names a
    file that is damaged or not a result of this run."""
    for file, footer in _read_all(run, (f"{SCORES}/{name}" for name in names)):
        why = "was made with other settings" if footer.settings != settings else ""
        if not why and footer.file != file.name:
            why = f"is a copy of a result of {printable(footer.shard)}"
        if why:
            raise RunError(f"the score file {printable(file.path)} {why}; remove it and run the same scan again")
        yield footer


def compact_footers(run: Place, listed: RunListing) -> Iterator[Footer]:
    """Yield the footers of the compacted files. RunError names a file that is damaged or not the one in the
    manifest."""
    files = () if listed.manifest is None else listed.manifest.files
    read = _read_all(run, (f"{COMPACT}/{file.name}" for file in files))
    for file, (path, footer) in zip(files, read, strict=True):
        part = file.name.removesuffix(".parquet").rpartition("-")[2]
        if footer.num_rows != file.num_rows or not footer.slices.startswith(part):
            raise RunError(f"{path.path} is not what {MANIFEST} says; restore it from a copy")
        yield footer


def all_footers(run: Place, listed: RunListing, settings: str) -> Iterator[Footer]:
    """Yield the footers of all score files, in the order of `RunListing.score_files`. Errors as in both above."""
    yield from compact_footers(run, listed)
    yield from footers(run, listed.names, settings)


def refuse_foreign(run: Place, settings: str, listed: RunListing | None = None) -> CheckedFiles:
    """Raise RunError if a score file is damaged, was made with other settings, or is a copy of another one. Reads every
    footer once. listed: None lists the run now."""
    listed = listed or listing(run)
    reasons, num_rows = Counter[str](), 0
    total = 0 if listed.manifest is None else int(listed.manifest.rows_sha256, 16)
    try:
        for footer in all_footers(run, listed, settings):
            reasons.update(footer.reasons)
            num_rows += footer.num_rows
            total += 0 if footer.slices else footer.mark
    except RunError:
        if manifest(run) != listed.manifest:
            raise RunError(f"{run.path} was compacted meanwhile; ask again") from None
        raise
    return CheckedFiles(num_rows, reasons, hash_of_marks(total))


def _read_all(run: Place, paths: Iterable[str]) -> Iterator[tuple[Place, Footer]]:
    waiting = iter(paths)
    with ThreadPoolExecutor(FILES_AT_ONCE) as threads:
        while window := list(islice(waiting, FILES_PER_WINDOW)):
            read_footers = threads.map(partial(_footer, run), window)
            yield from ((run.at(path), footer) for path, footer in zip(window, read_footers, strict=True))


def _footer(run: Place, path: str) -> Footer:
    """Read the footer of one file. RunError if it is missing or damaged, or says other rows or columns."""
    result = run.at(path)
    name, what = f"the score file {printable(result.path)}", f"is damaged; {remedy(path)}"
    with refuse_damage(name, what):
        with result.open() as stream:
            metadata = pq.read_metadata(stream)
        texts = {k.decode().removeprefix(_PREFIX): v.decode() for k, v in (metadata.metadata or {}).items()}
        parts = [part.rpartition("=") for part in texts["reasons"].split(",") if part]
        needed = ("slices",) if path.startswith(f"{COMPACT}/") else _OF_SLICE
        if int(texts["num_rows"]) == metadata.num_rows and metadata.schema.to_arrow_schema().names == SCHEMA.names:
            return Footer(
                metadata.num_rows,
                _num_with_category(metadata),
                Counter({reason: int(count) for reason, _, count in parts}),
                **{key: texts[key] for key in needed},
                screen=texts.get("screen", ""),
                hidden=texts.get("hidden", ""),
            )
    raise RunError(f"{name} {what}")


def _num_with_category(metadata: pq.FileMetaData) -> int:
    """Count rows with a category from the column's statistics, without reading it."""
    index = metadata.schema.names.index(Col.CATEGORY)
    columns = (metadata.row_group(number).column(index) for number in range(metadata.num_row_groups))
    return int(metadata.num_rows - sum(column.statistics.null_count for column in columns if column.is_stats_set))


# One hash of all rows of a run: it changes if a result is added, removed, or replaced by one with other rows, and
# stays the same if the run is compacted. The marks of the files are added up, so that their order does not matter and
# millions of them need no memory.
def mark_of(name: str, num_rows: int, content: str) -> int:
    """Return the part of a result file in the sum. content: a text that changes with the rows, such as the footer's."""
    return int.from_bytes(hashlib.sha256(f"{name}\n{num_rows}\n{content}".encode()).digest(), "big")


def hash_of_marks(total: int) -> str:
    """Return the hash of a run whose marks have this sum."""
    return f"{total % 2**256:064x}"
