"""A release as a list of URLs: the rows of a table, without those whose picture the policy drops.

Rows and pictures are joined by the hash of the URL, which the scan records. A row whose URL the run does not know was
not judged: its picture could not be downloaded, or was not scanned. The list leaves it out, and counts it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.errors import IncompleteError, PolicyError, PrivsieveError, number_of
from ingest.formats.parquet_columns import masked_rows
from ingest.formats.released import DECISIONS, RELEASE, Written
from ingest.sample import url_sha256_of
from ingest.storage.parquet_tables import refuse_damage
from ingest.storage.place import Place
from jobs.releases.decider import Decider
from jobs.releases.decisions import kept_rows, row_chunks
from jobs.releases.journal import Replaced
from jobs.releases.overruling import Decided
from jobs.releases.plan import Plan
from jobs.releases.record import ReleaseRecord, UrlCounts
from jobs.releases.shards import Shards
from jobs.runtime.progress import Feedback
from scoring.captions import masked
from scoring.policies.policy import ACTIONS, Action, Policy
from scoring.sql.limits import spilling_database
from scoring.sql.names import identifier
from scoring.sql.url_tables import ROWS_PER_FILE, Metadata, cut_batches, open_metadata, unreadable

FOLDER = "urls"
"""Folder of the list in a release."""

OWN = "privsieve_"
"""The columns that the list adds begin like this; a table that has such columns loses them."""

_DAMAGED = "is not what was released; privsieve release verify says more"

_SPACE = "' ' || chr(9) || chr(10) || chr(11) || chr(12) || chr(13)"
_URL_SHA256 = f"sha256(nullif(trim(CAST(url AS VARCHAR), {_SPACE}), ''))"
"""`ingest.sample.url_sha256_of` in SQL."""

_MAX_LIST_MEMORY_BYTES = 2**29
"""The rows of a large table are put in order on the disk."""

_FAILED = "('failed', 'failed_to_download', 'failed_to_resize')"
"""Values of the column `status` of img2dataset's tables, and of fetch.parquet, for a picture that is not there."""


def refuse_unlistable(policy: Policy) -> None:
    """Raise PolicyError if the policy changes pictures, which a list of their URLs cannot."""
    if policy.writes_again:
        what = "files: clean" if policy.files == "clean" else "then: redact"
        raise PolicyError(
            f"{policy.file}: {what} changes pictures, and --urls releases URLs, which lead to the unchanged ones; "
            "take a policy that keeps, flags or drops"
        )
    if policy.members == "image-only":
        raise PolicyError(
            f"{policy.file}: members: image-only leaves all columns out, the URL too; --urls needs members: listed"
        )


def count_urls(url: str, decided: Decided) -> UrlCounts:
    """Drop pictures whose URL is not listed, and return how many rows of the table get which action. URLs that the run
    does not know are counted as one, so that the memory does not grow with the table.

    SourceError if the table cannot be read; PrivsieveError if no row has a URL of the run.
    """
    connection = decided.connection
    metadata = open_metadata(url, connection)
    has_status = "status" in {name.lower() for name in metadata.types}
    failed = f"lower(CAST(status AS VARCHAR)) IN {_FAILED}" if has_status else "false"
    try:
        connection.execute(
            f"""
            CREATE TABLE listed AS
            SELECT CASE WHEN url_sha256 IN (SELECT url_sha256 FROM decided WHERE url_sha256 IS NOT NULL)
                OR url_sha256 IS NULL THEN url_sha256 ELSE '' END AS url_sha256,
                count(*) AS num_rows, count(*) FILTER (is_failed) AS num_failed
            FROM (SELECT {_URL_SHA256} AS url_sha256, {failed} AS is_failed FROM {metadata.rows}) GROUP BY 1
            """
        )
    except (duckdb.Error, OSError) as error:
        raise unreadable(url, error) from None
    decided.drop_unlisted()
    rows = connection.execute(
        """
        WITH of_urls AS (
            SELECT url_sha256, max(rank) AS rank FROM decided WHERE url_sha256 IS NOT NULL GROUP BY ALL
        )
        SELECT rank, listed.url_sha256 IS NULL, sum(num_rows)::BIGINT, sum(num_failed)::BIGINT
        FROM listed LEFT JOIN of_urls USING (url_sha256) GROUP BY ALL
        """
    ).fetchall()
    actions: dict[Action, int] = {
        action: sum(n for rank, _, n, _ in rows if rank == i) for i, action in enumerate(ACTIONS)
    }
    num_failed = sum(failed for rank, is_blank, _, failed in rows if rank is None and not is_blank)
    num_without_url = sum(n for _, is_blank, n, _ in rows if is_blank)
    if not sum(actions.values()):
        raise PrivsieveError(
            f"--urls {url}: the run knows none of its URLs; give the table that the pictures were downloaded from, and "
            "a run whose source gives URLs"
        )
    num_rows = sum(n for *_, n, _ in rows)
    return UrlCounts(
        column=next(name for name, written in metadata.written.items() if written == "url"),
        num_listed=num_rows,
        actions=actions,
        num_failed=num_failed,
        num_not_scanned=num_rows - sum(actions.values()) - num_failed - num_without_url,
        num_without_url=num_without_url,
    )


@dataclass(frozen=True)
class UrlList:
    """The work on a list of URLs. `Shards` documents the methods."""

    has_pictures: ClassVar[bool] = False
    counts: UrlCounts

    def written_last(self, table: str | None, out: Place, run: Place, plan: Plan, decider: Decider) -> list[Written]:
        assert table is not None  # that of the counts
        column = self.counts.column
        with spilling_database("the list of URLs", _MAX_LIST_MEMORY_BYTES) as connection:
            connection.execute("SET preserve_insertion_order = true")  # the order of the table
            metadata = open_metadata(table, connection)
            _load_released(connection, run, plan, decider)
            names = [name for name in metadata.types if not name.lower().startswith(OWN)]
            has_bytes = {name for name, kind in metadata.types.items() if "BLOB" in kind or "TINYINT[" in kind}
            may_have_bytes = decider.policy.members == "all"  # which may be a picture
            kept = [name for name in names if may_have_bytes or name == column or name not in has_bytes]
            try:
                reader = connection.sql(_list_sql(metadata, kept, column)).to_arrow_reader(10_000)
                num_rows, files, num_masked = _written(reader, out, column, decider.policy)
            except (duckdb.Error, pa.ArrowException) as error:
                raise unreadable(table, error) from None
        if num_rows != self.counts.num_released:
            raise IncompleteError(f"--urls {table} has changed since it was counted; nothing is released")
        cells_left_out = {f"column {name}": num_rows for name in names if name not in kept}
        return [Written(0, dict(files), {}, cells_left_out, num_masked=num_masked)]

    def with_all_rows(self, decisions: pa.Table, is_taken: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Add the other pictures of the same URLs: a list of URLs has each of these rows or none."""
        urls = pc.drop_null(decisions["url_sha256"].filter(pa.array(is_taken))).combine_chunks()
        is_same = pc.and_(pc.is_in(decisions["url_sha256"], urls), pc.is_valid(decisions["released_sha256"]))
        return np.asarray(is_taken | is_same.to_numpy(), np.bool_)

    def rest(
        self, root: Place, staged: Place, release: ReleaseRecord, decisions: pa.Table, is_taken: npt.NDArray[np.bool_]
    ) -> tuple[Replaced, UrlCounts | None, int]:
        gone = {*pc.drop_null(decisions["url_sha256"].filter(pa.array(is_taken))).to_pylist()}
        replaced, num_gone = dict[str, str](), 0
        for name in release.sha256:
            num_before = num_gone
            with refuse_damage(root.at(name).path, _DAMAGED, IncompleteError), root.at(name).open() as stream:
                schema = pq.read_schema(stream)
            with staged.at(name).create() as target, pq.ParquetWriter(target, schema, compression="zstd") as writer:
                for batch, hashes in self._rows(root.at(name)):
                    stays = [url_sha256 not in gone for url_sha256 in hashes]
                    writer.write_batch(batch.filter(pa.array(stays, pa.bool_())))
                    num_gone += stays.count(False)
            if num_gone == num_before:
                staged.at(name).remove()
            else:
                replaced[name] = target.sha256
        counts = self.counts.model_copy(update={"num_taken_down": self.counts.num_taken_down + num_gone})
        return (replaced, []), counts, num_gone

    def counted(self, root: Place, release: ReleaseRecord, feedback: Feedback) -> tuple[int, list[str]]:
        num_rows = sum(len(hashes) for name in release.sha256 for _, hashes in self._rows(root.at(name)))
        return 0, self._row_faults(num_rows)

    def compared(
        self, root: Place, release: ReleaseRecord, decisions: pa.Table, feedback: Feedback
    ) -> tuple[int, list[str]]:
        """Compare the rows of the list with the decisions."""
        is_released = pc.is_valid(decisions["released_sha256"])
        released = {*pc.drop_null(decisions["url_sha256"].filter(is_released)).to_pylist()}
        seen, num_rows = set[str](), 0
        for name in release.sha256:
            for _, hashes in self._rows(root.at(name)):
                seen.update(url_sha256 or "" for url_sha256 in hashes)
                num_rows += len(hashes)
        faults = self._row_faults(num_rows)
        if seen != released:
            faults.append(f"{FOLDER}: its URLs are not those of {DECISIONS}")
        return 0, faults

    def in_words(self, num_pictures: int) -> str:
        return f"{number_of(self.counts.num_released, 'row')} with URLs"

    def _row_faults(self, num_rows: int) -> list[str]:
        said = self.counts.num_released
        return [] if num_rows == said else [f"{FOLDER}: it has {num_rows:,} rows, and {RELEASE} counts {said:,}"]

    def _rows(self, file: Place) -> Iterator[tuple[pa.RecordBatch, list[str | None]]]:
        """Yield the rows of a file of the list, in order, and the hash of the URL of each; None if it has none.
        IncompleteError if the file is damaged."""
        with refuse_damage(file.path, _DAMAGED, IncompleteError), file.open() as stream:
            for batch in pq.ParquetFile(stream, pre_buffer=False).iter_batches(10_000, use_threads=False):
                urls = batch.column(self.counts.column).cast(pa.string()).to_pylist()
                yield batch, [None if url is None else url_sha256_of(url) for url in urls]


ReleaseKind = Shards | UrlList
"""The two kinds of release. Both have the same methods, so that what is common to all reads without branches."""


def kind_of(urls: UrlCounts | None) -> ReleaseKind:
    """Return the kind of a release. urls: what its record or its plan counts of a list."""
    return Shards() if urls is None else UrlList(urls)


def _load_released(connection: duckdb.DuckDBPyConnection, run: Place, plan: Plan, decider: Decider) -> None:
    """Make the table `released`: URL of the list, action, hash of its picture; null if the URL has several."""
    connection.execute("CREATE TABLE picture (url_sha256 VARCHAR, action VARCHAR, sha256 VARCHAR)")
    for share in plan.shares:
        for rows in row_chunks(run, share.rows, decider.columns):
            decisions = kept_rows(decider.decide(rows)).select(["url_sha256", "action", "sha256"])
            connection.register("decisions", decisions)
            connection.execute("INSERT INTO picture FROM decisions WHERE url_sha256 IS NOT NULL")
            connection.unregister("decisions")
    connection.execute(
        """
        CREATE TABLE released AS
        SELECT url_sha256, any_value(action) AS action,
            CASE WHEN count(DISTINCT sha256) = 1 THEN any_value(sha256) END AS sha256
        FROM picture GROUP BY url_sha256
        """
    )


def _list_sql(metadata: Metadata, kept: Sequence[str], url_column: str) -> str:
    chosen = [f"m.{identifier(name)}" for name in kept]
    chosen += [f"released.{name} AS {OWN}{name}" for name in ("action", "sha256")]
    of_table = [  # not *: the table may have columns with the names that are added
        f"CAST({identifier(name)} AS VARCHAR) AS {identifier(name)}" if name == url_column else identifier(name)
        for name in kept
    ]
    return f"""
        SELECT {", ".join(chosen)}
        FROM (
            SELECT {", ".join(of_table)}, {_URL_SHA256} AS {OWN}url_sha256, row_number() OVER () AS {OWN}row
            FROM {metadata.rows}
        ) AS m
        JOIN released ON released.url_sha256 = m.{OWN}url_sha256
        ORDER BY m.{OWN}row
    """


def _written(
    reader: pa.RecordBatchReader, out: Place, url_column: str, policy: Policy
) -> tuple[int, Mapping[str, str], int]:
    """Write numbered files. Return the number of rows, file -> sha256, and in how many cells something was masked."""
    num_rows, files, num_masked = 0, dict[str, str](), 0
    for number, parts in groupby(cut_batches(reader, ROWS_PER_FILE), key=lambda part: part[0] // ROWS_PER_FILE):
        name = f"{FOLDER}/{number:05d}.parquet"
        with out.at(name).create() as stream, pq.ParquetWriter(stream, reader.schema, compression="zstd") as writer:
            for _, batch in parts:
                if policy.texts == "masked":
                    batch, num_masked_here = masked_rows(
                        batch, lambda _, name: name == url_column or name.startswith(OWN), masked
                    )
                    num_masked += num_masked_here
                writer.write_batch(batch)
                num_rows += batch.num_rows
        files[name] = stream.sha256
    return num_rows, files, num_masked
