"""An opened run, as programs and commands ask it: its rows, rates, summary, and SQL over its views."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ingest.errors import QueryError, RunError, did_you_mean
from reports.run import warehouse
from scoring.privacy import PROBABILITIES, unanswered_columns
from scoring.runs.record import RunRecord
from scoring.runs.results import results, row_ranges
from scoring.runs.rows import Damage, images_only, rows_at
from scoring.sql.expressions import shown
from scoring.sql.limits import NO_LIMITS, Limits, is_left_behind
from scoring.table import SCHEMA, Col

if TYPE_CHECKING:
    from collections import Counter

    import duckdb

    from reports.report.results import Report
    from reports.run.design import SourceSizes
    from reports.run.figures import Rate
    from scoring.runs.coverage import Coverage

ROWS_AT_ONCE = 16_384
"""Rows that are compared or decided together: a run has many small files, and fewer rows take as long as these."""

MayName = Callable[["OpenRun", pa.Table], Sequence[bool]]
"""Function that decides for each row of a run whether it may be named. The rows have the columns shard, index, sha256
and key.

An operator's list of pictures (jobs/runtime/hash_list.py) decides which may not.
"""


def all_named(run: "OpenRun", rows: pa.Table) -> Sequence[bool]:
    """Allow every row to be named: the `MayName` without such a list."""
    return [True] * rows.num_rows


def open_run(url: str, limits: Limits = NO_LIMITS) -> "OpenRun":
    """Open a run folder or URL, list its files and check the footer of each. Nothing in the run is changed.

    limits: of time and memory, for each statement and for all questions of a summary together.
    RunError if there is no run, or if a file of it is damaged or of another run; StorageError if it cannot be reached.
    """
    return OpenRun(warehouse.open_warehouse(url, limits))


class OpenRun:
    """One opened run. Every answer is about the files that it had when it was opened. For one thread at a time.

    Use it in a `with` block, or call `close`. Every method can raise RunError if the run was compacted or damaged
    since, StorageError if its storage does not answer, and QueryError if a limit was reached.
    """

    def __init__(self, run: warehouse.Run):
        self._run = run
        self._is_closed = False

    def __enter__(self) -> "OpenRun":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the run cannot be asked afterwards.

        It stays open if a statement that did not stop at a limit still runs: closing would wait for its end.
        """
        self._is_closed = True
        if not is_left_behind():
            self._run.connection.close()

    def _refuse_closed(self, **statements: object) -> None:
        if self._is_closed:
            raise QueryError("the run is closed; open it again")
        for name, statement in statements.items():
            if not isinstance(statement, str):
                raise QueryError(f"{name}={statement!r:.80}: give a text")

    @property
    def url(self) -> str:
        """Return the folder or URL as it was given."""
        return self._run.url

    @property
    def record(self) -> RunRecord:
        """Return the content of `run.json`: the source and the settings."""
        return self._run.record

    @property
    def connection(self) -> "duckdb.DuckDBPyConnection":
        """Return a DuckDB connection with the views of `privsieve sql`: images, scored, quarantined, damaged, rates, ….

        It reads the score files of the run, no other file, and can write none; its settings are locked. Unlike `sql` it
        has no limits, takes several statements, and raises DuckDB's own errors.
        """
        return self._run.connection

    @cached_property
    def coverage(self) -> "Coverage":
        """Return whether the scan came to its end. The first call may list the source."""
        from scoring.runs.coverage import coverage  # which reads sources

        run = self._run
        return coverage(run.root, run.record, results(run.root, run.listed), run.checked.num_rows)

    @property
    def damage(self) -> Damage:
        """Return the shards of the source of which an unknown number of images was not seen; mostly none."""
        return self._run.damage

    @property
    def cautions(self) -> tuple[str, ...]:
        """Return why figures do not describe the whole source, or any picture at all; one line each, mostly none."""
        from reports.report.compute import cautions_of

        return cautions_of(self._run, self.coverage)

    def rows(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return one row per image, in memory: the columns of docs/columns.md, or those named, with their types.

        Rows of a shard follow each other in the order of `index`. A row takes about 1 KB in memory with all columns, so
        name columns, or use `batches`, if the run is large. QueryError if a column is unknown.
        """
        return self.batches(columns).read_all()

    def batches(self, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """Return the same rows in parts, at most a score file at once, for runs larger than the memory."""
        self._refuse_closed()
        if isinstance(columns, str):
            raise QueryError(f'columns are given as a list, such as ["{shown(columns)}"]')
        chosen = SCHEMA.names if columns is None else [str(name) for name in columns]
        for name in chosen:
            if name not in SCHEMA.names:
                raise QueryError(
                    f'no column "{shown(name)}"{did_you_mean(name, SCHEMA.names)}; privsieve help columns lists them'
                )
        if not chosen or len(set(chosen)) < len(chosen):
            raise QueryError("name at least one column, and none twice")
        schema = pa.schema([SCHEMA.field(name) for name in chosen])
        return pa.RecordBatchReader.from_batches(schema, self._batches(chosen))

    def chunks(self, columns: Sequence[str], num_rows: int = ROWS_AT_ONCE) -> Iterator[pa.Table]:
        """Yield the same rows in tables of about this many. At least one table, which may be empty."""
        reader = self.batches(columns)
        waiting, num_waiting, num_tables = list[pa.RecordBatch](), 0, 0
        for batch in reader:
            waiting.append(batch)
            num_waiting += batch.num_rows
            if num_waiting >= num_rows:
                yield pa.Table.from_batches(waiting)
                waiting, num_waiting, num_tables = [], 0, num_tables + 1
        if waiting or not num_tables:
            yield pa.Table.from_batches(waiting, reader.schema)

    def _batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        needed = list(dict.fromkeys([*columns, Col.REASON]))
        for part in row_ranges(self._run.listed):
            rows = images_only(rows_at(self._run.root, [part], needed)).select(columns)
            yield from (batch for batch in rows.to_batches() if batch.num_rows)

    def rates(self, by: str = "category", private: str | None = None) -> "tuple[Rate, ...]":
        """Return the rate of each group, highest first: how many of its images are private.

        Shares are 0–1 with 95 % Wilson intervals. by: column or SQL expression that groups the images. private: SQL
        condition; None for that of the run's protocol (`scoring.privacy`).
        QueryError if one of them is no such expression, or makes more than 10,000 groups.
        """
        from reports.report import compute

        self._refuse_closed(by=by, private="" if private is None else private)
        return compute.rates(self._run, by, private)

    def sql(self, statement: str) -> pa.Table:
        """Return the answer of one SELECT over the views. QueryError in one line if it is anything else or fails."""
        self._refuse_closed(statement=statement)
        return self._run.table(statement)

    def unanswered(self, columns: Collection[str]) -> frozenset[str]:
        """Return the columns that are null in every scored image: those that the engine is not asked for, and of
        `columns` the probabilities that it never gave."""
        unanswered = unanswered_columns(self.record.engine)
        asked = sorted(PROBABILITIES & set(columns) - unanswered)
        if asked:
            [counts] = self.sql(f"SELECT count(*), {', '.join(map('count({})'.format, asked))} FROM scored").to_pylist()
            num_scored, *num_given = counts.values()
            unanswered |= {name for name, num in zip(asked, num_given, strict=True) if num_scored and not num}
        return unanswered

    @contextmanager
    def joined_with(self, name: str, table: pa.Table) -> Iterator[None]:
        """Let statements of `connection` use the table by this name inside the block. RunError if they fail."""
        import duckdb

        self.connection.register(name, table)
        try:
            yield
        except duckdb.Error:
            raise RunError(f"{self.url}: its rows cannot be read; privsieve report says what is wrong") from None
        finally:
            self.connection.unregister(name)

    def select(self, statement: str) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
        """Return column names and rows of the same answer as `sql`, for answers larger than the memory.

        Read the rows before the next question.
        """
        self._refuse_closed(statement=statement)
        return self._run.select(statement)

    def summary(
        self, by: str = "category", private: str | None = None, top: int = 15, sizes: "SourceSizes | None" = None
    ) -> "Report":
        """Return everything that `privsieve report` says. by, private and errors: as with `rates`.

        top: number of groups in `highest` and in `lowest`. sizes: of the source of a sample, if known.
        """
        from reports.report import compute

        self._refuse_closed(by=by, private="" if private is None else private)
        return compute.summarise(self._run, by, private, top, sizes or compute.EVERY_IMAGE, self.coverage)

    def explanations(
        self, groups: Sequence[str], num: int, by: str = "category", private: str | None = None
    ) -> "dict[str, Counter[str]]":
        """Return group -> kinds of evidence that an image shows -> how many of up to `num` random private images of the
        group show just these. by, private and errors: as with `rates`."""
        from reports.report import answers

        self._refuse_closed(by=by, private="" if private is None else private)
        return answers.explanations_of(self._run, groups, num, by, private)
