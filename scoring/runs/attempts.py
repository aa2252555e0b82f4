"""What a run notes of its workers, so that it outlives them: attempts at a slice, its first rows, and working time.

`RUN/attempts/<name>.json` exists while a worker scans a slice. If the worker is killed the file stays, and the next
worker counts it as a death. Without this count, Ray would restart a worker that an image kills without end.

`RUN/attempts/<name>.rows` has the first rows of a slice under way. The next attempt takes them over, so that an end of
the scan costs a few seconds of work and not a slice.

`RUN/engine-time.json`: how long the engines of a run worked, and for how long they had too few requests.
"""

import io
import time
from collections import Counter
from collections.abc import Iterable
from typing import Annotated

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field

from ingest.errors import RunError
from ingest.sample import printable
from ingest.storage.place import Place
from scoring.runs import ENGINE_TIME
from scoring.runs.record import parsed
from scoring.table import SCHEMA

ISOLATE_AFTER_DEATHS = 2
"""After this many deaths a slice is scanned image by image in a child process."""

GIVE_UP_AFTER_DEATHS = 5
"""After this many deaths the machine is probably at fault: the slice is left for the next scan."""

_MARK = b"privsieve.mark"

WRITE_EVERY_S = 10.0
"""How often the time of the engines is written, and once at the end."""


class Attempt(BaseModel):
    """State of the work on one slice, as its file in `attempts/` holds it."""

    model_config = ConfigDict(frozen=True)

    name: Annotated[str, Field(exclude=True)] = ""
    """Name of the slice's result file, or of a listing (`listing_of`); in the file's name, not in its content."""

    deaths: Annotated[int, Field(ge=0, lt=2**31)]
    """Number of attempts that never ended."""

    failure: str | None = None
    """Reason why the last attempt gave up, if it did."""

    cause: str = ""
    """Type of the exception that ended the worker, if one did; not its text, which may hold content."""

    @property
    def shard_id(self) -> str:
        """The shard's part of `name`, see `scoring.runs.ledger.shard_id_of`."""
        return self.name.removesuffix(".parquet").rpartition(".")[0]


def listing_of(shard_id: str) -> str:
    """Return the name under which the listing of a shard is recorded."""
    return f"{shard_id}.listing"


class Attempts:
    """The attempts of a run. folder: `attempts/` of the run."""

    def __init__(self, folder: Place):
        self._folder = folder

    def begin(self, name: str) -> Attempt:
        """Note that work on a slice begins; return its state before."""
        before = self._read(name)
        # Counted as a death now, and taken back by `end`: a killed worker cannot count its own death.
        self._write(Attempt(name=name, deaths=before.deaths + 1, cause=before.cause))
        return before

    def keep(self, name: str, rows: pa.Table, mark: str) -> None:
        """Store the first rows of a slice. mark: text of all that they depend on. StorageError."""
        buffer, marked = io.BytesIO(), rows.replace_schema_metadata({_MARK: mark})
        pq.write_table(marked, buffer, compression="zstd", write_page_checksum=True)
        self._rows(name).write(buffer.getvalue())

    def kept(self, name: str, mark: str) -> pa.Table:
        """Return the rows that an earlier attempt has stored; none if there are none with this mark."""
        try:
            content = io.BytesIO(self._rows(name).content())
            # Without threads: those of pyarrow abort the process if it ends while they start.
            rows = pq.read_table(content, use_threads=False, page_checksum_verification=True)
        except (pa.ArrowException, OSError, ValueError):  # there are none, or they are damaged
            return SCHEMA.empty_table()
        is_same = (rows.schema.metadata or {}).get(_MARK) == mark.encode()
        rows = rows.replace_schema_metadata(None)
        return rows if is_same and rows.schema.equals(SCHEMA) else SCHEMA.empty_table()

    def drop_rows(self, name: str) -> None:
        self._rows(name).remove()

    def drop_ended(self, ended: Iterable[str]) -> None:
        """Forget the slices that have their result: a killed worker, or another mark, may have left their files."""
        for name in {file.rpartition(".")[0] for file in self._folder.names()}.intersection(ended):
            self.end(name)
            self.drop_rows(name)

    def end(self, name: str) -> None:
        """Forget the slice, which has its result."""
        self._marker(name).remove()

    def record_crash(self, name: str, cause: str) -> None:
        """Record an unexpected exception before the worker ends."""
        self._write(Attempt(name=name, deaths=self._read(name).deaths, cause=cause))

    def fail(self, name: str, failure: str) -> None:
        """Note that the slice was given up without a crash, which is not a death."""
        self._write(Attempt(name=name, deaths=0, failure=printable(failure)))

    def give_back(self, before: Attempt) -> None:
        """Note that the slice was not tried after all. before: as `begin` returned it."""
        if before.deaths or before.failure is not None:
            self._write(before)
        else:
            self.end(before.name)

    def all(self) -> list[Attempt]:
        """Return those of slices under way or given up, also where only their first rows are left."""
        files = (file.rpartition(".") for file in self._folder.names())
        return [self._read(name) for name in sorted({name for name, _, kind in files if kind in ("json", "rows")})]

    def reset_failed(self) -> None:
        """Prepare a new scan: slices that were given up are tried again; slices that killed workers start isolated."""
        for attempt in self.all():
            if attempt.failure is not None:
                self.end(attempt.name)
            elif attempt.deaths > ISOLATE_AFTER_DEATHS:
                self._write(attempt.model_copy(update={"deaths": ISOLATE_AFTER_DEATHS}))

    def discount_interrupted(self) -> None:
        """Take one death back from each slice under way after the user interrupted the scan."""
        for attempt in self.all():
            if attempt.deaths > 1:
                self._write(attempt.model_copy(update={"deaths": attempt.deaths - 1}))
            elif attempt.failure is None:
                self.end(attempt.name)

    def _rows(self, name: str) -> Place:
        return self._folder.at(f"{name}.rows")

    def _marker(self, name: str) -> Place:
        return self._folder.at(f"{name}.json")

    def _read(self, name: str) -> Attempt:
        try:
            return parsed(Attempt, self._marker(name).content()).model_copy(update={"name": name})
        except FileNotFoundError:
            return Attempt(name=name, deaths=0)
        except ValueError:  # cut off while it was written
            return Attempt(name=name, deaths=1)

    def _write(self, attempt: Attempt) -> None:
        self._marker(attempt.name).write(attempt.model_dump_json().encode())


Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class EngineTime(BaseModel):
    """Working time of one engine, or of several together."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seconds: Seconds = 0.0
    """Time in which there was something to scan."""

    short_s: dict[str, Seconds] = Field(default_factory=dict)
    """Cause -> seconds in which the engine had fewer requests than one step takes."""

    most_bytes_ahead: Annotated[int, Field(ge=0)] = 0
    """Peak of files and pixels that one engine's process had read but the engine had not answered."""

    num_restarts: Annotated[int, Field(ge=0)] = 0
    """How often an engine was loaded again, because its memory had grown."""

    def __add__(self, other: "EngineTime") -> "EngineTime":
        short_s = Counter(self.short_s)
        short_s.update(other.short_s)
        return EngineTime(
            seconds=self.seconds + other.seconds,
            short_s=dict(short_s),
            most_bytes_ahead=max(self.most_bytes_ahead, other.most_bytes_ahead),
            num_restarts=self.num_restarts + other.num_restarts,
        )

    @property
    def share_short(self) -> float | None:
        """Share of the time with too few requests; None if no time was measured."""
        return sum(self.short_s.values()) / self.seconds if self.seconds else None


def engine_time(run: Place) -> EngineTime | None:
    """Read the time of a run; None if no engine measured it. RunError if the file is damaged."""
    file = run.at(ENGINE_TIME)
    if not file.exists():
        return None
    try:
        return parsed(EngineTime, file.read())
    except ValueError:
        raise RunError(f"{file.path} is damaged; remove it, only status reads it") from None


def add_engine_time(run: Place, more: EngineTime) -> None:
    """Add time to the file of the run. The caller must hold the lease."""
    before = engine_time(run) or EngineTime()
    run.at(ENGINE_TIME).write((before + more).model_dump_json().encode())


class EngineTimeFile:
    """Adds up time and writes it every `WRITE_EVERY_S` seconds. The caller must hold the lease."""

    def __init__(self, run: Place):
        self._run = run
        self._not_written = EngineTime()
        self._written_s = time.monotonic()

    def add(self, more: EngineTime) -> None:
        self._not_written += more
        if time.monotonic() - self._written_s > WRITE_EVERY_S:
            self.write()

    def write(self) -> None:
        """Write what was added since the last time; to be called at the end."""
        if self._not_written.seconds or self._not_written.num_restarts:
            add_engine_time(self._run, self._not_written)
        self._not_written, self._written_s = EngineTime(), time.monotonic()
