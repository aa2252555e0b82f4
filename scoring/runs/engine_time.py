"""`RUN/engine-time.json`: how long the engines of a run were at work, and how long of that with too few requests."""

from collections import Counter
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ingest.errors import RunError
from ingest.storage.place import Place
from scoring.runs.layout import ENGINE_TIME
from scoring.runs.record import parsed

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class EngineTime(BaseModel):
    """Of one engine, or of several together."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seconds: Seconds = 0.0
    """In which there was something to scan."""

    short_s: dict[str, Seconds] = Field(default_factory=dict)
    """Cause -> seconds of these in which the engine had fewer requests than one step takes."""

    most_bytes_ahead: Annotated[int, Field(ge=0)] = 0
    """Files and pixels that one engine's process had read and the engine had not answered, at most."""

    def __add__(self, other: "EngineTime") -> "EngineTime":
        short_s = Counter(self.short_s)
        short_s.update(other.short_s)
        most = max(self.most_bytes_ahead, other.most_bytes_ahead)
        return EngineTime(seconds=self.seconds + other.seconds, short_s=dict(short_s), most_bytes_ahead=most)

    @property
    def share_short(self) -> float | None:
        """None where no time was measured."""
        return sum(self.short_s.values()) / self.seconds if self.seconds else None


def engine_time(run: Place) -> EngineTime | None:
    """None where no engine of the run measured it. RunError where the file is damaged."""
    file = run.at(ENGINE_TIME)
    if not file.exists():
        return None
    try:
        return parsed(EngineTime, file.read())
    except ValueError:
        raise RunError(f"{file.path} is damaged; remove it, only status reads it") from None


def add_engine_time(run: Place, more: EngineTime) -> None:
    """For who holds the lease."""
    before = engine_time(run) or EngineTime()
    run.at(ENGINE_TIME).write((before + more).model_dump_json().encode())
