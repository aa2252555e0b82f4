"""How often a slice was begun and not brought to an end, kept in the run so that it outlives the worker.

`RUN/attempts/<name>.json` is there while a slice is worked on; what a killed worker leaves behind is counted as a
death by the next one. Ray itself would restart a worker that an image kills for ever.
"""

import json
from dataclasses import dataclass

from ingest.slices import stem_of
from ingest.storage import Place

ISOLATE_AFTER_DEATHS = 2
"""A slice that died so often is scanned image by image in a child process."""

GIVE_UP_AFTER_DEATHS = 5
"""Then the machine is at fault rather than an image: the slice is left for the next scan, and the others go on."""


@dataclass(frozen=True)
class Attempt:
    """name: of the slice's result file. deaths: attempts that never ended. failure: why the last one gave up."""

    name: str
    deaths: int
    failure: str | None

    @property
    def stem(self) -> str:
        """See `ingest.slices.stem_of`."""
        return self.name.removesuffix(".parquet").rpartition(".")[0]


def listing_of(shard: str) -> str:
    """The name under which the listing of a shard is attempted."""
    return f"{stem_of(shard)}.listing"


class Attempts:
    """place: the folder `attempts/` of a run."""

    def __init__(self, place: Place):
        self._place = place

    def begin(self, name: str) -> int:
        """Notes that work on a slice begins; returns how many attempts died before."""
        deaths = self._read(name).deaths
        self._write(Attempt(name, deaths + 1, None))
        return deaths

    def end(self, name: str) -> None:
        """The slice has its result."""
        self._marker(name).remove()

    def fail(self, name: str, failure: str) -> None:
        """The slice was given up in good order, so this was no death."""
        self._write(Attempt(name, 0, failure))

    def all(self) -> list[Attempt]:
        return [self._read(name.removesuffix(".json")) for name in self._place.names()]

    def forgive(self) -> None:
        """A new scan tries again what was given up; what killed workers before goes straight to isolation."""
        for attempt in self.all():
            if attempt.failure is not None:
                self.end(attempt.name)
            elif attempt.deaths > ISOLATE_AFTER_DEATHS:
                self._write(Attempt(attempt.name, ISOLATE_AFTER_DEATHS, None))

    def _marker(self, name: str) -> Place:
        return self._place.at(f"{name}.json")

    def _read(self, name: str) -> Attempt:
        try:
            content = json.loads(self._marker(name).content())
            return Attempt(name, int(content["deaths"]), content["failure"])
        except FileNotFoundError:
            return Attempt(name, 0, None)
        except (ValueError, KeyError, TypeError):  # cut off while it was written
            return Attempt(name, 1, None)

    def _write(self, attempt: Attempt) -> None:
        self._marker(attempt.name).write(json.dumps({"deaths": attempt.deaths, "failure": attempt.failure}).encode())
