"""`RUN/engine-time.json`: how long the engines of a run worked, and for how long they had too few requests."""

from collections import Counter
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ingest.errors import RunError
from ingest.storage.place import Place
from scoring.runs.layout import ENGINE_TIME
from scoring.runs.record import parsed

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

    def __add__(self, other: "EngineTime") -> "EngineTime":
        short_s = Counter(self.short_s)
        short_s.update(other.short_s)
        most = max(self.most_bytes_ahead, other.most_bytes_ahead)
        return EngineTime(seconds=self.seconds + other.seconds, short_s=dict(short_s), most_bytes_ahead=most)

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
