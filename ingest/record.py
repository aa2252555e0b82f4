"""`run.json`: what a run is of, and with which settings."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from ingest.errors import RunError
from ingest.storage import Place, place

RECORD = "run.json"
WHOLE = "all images of the source"


class RunRecord(BaseModel):
    """What makes a run's rows comparable. Two scans into one run must agree in all of it but `code`.

    code: hash of the source files that began the run (`jobs.run.code_hash`), None in older runs.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    privsieve: str
    code: str | None = None
    source: str
    format: str
    category: str | None
    sample: int | None
    seed: int | None
    limit: int | None
    max_pixels: int
    max_frames: int
    taxonomy: str
    engine: dict[str, Any]

    @property
    def is_whole(self) -> bool:
        """Whether the run is to have all images of its source, and not a part chosen by --sample or --limit."""
        return self.sample is None and self.limit is None

    @property
    def scope(self) -> str:
        """Which images of its source the run is of, in words."""
        if self.sample is not None:
            return f"random sample of {self.sample:,} images (seed {self.seed})"
        if self.limit is not None:
            return f"first {self.limit:,} images only (--limit): not representative"
        return WHOLE


def open_run(url: str) -> tuple[Place, RunRecord]:
    """An existing run. RunError in one line where there is none."""
    root = place(url)
    if not root.at(RECORD).exists():
        raise RunError(f"{url} is no run: it has no {RECORD}; make one with: privsieve scan SOURCE --run {url}")
    try:
        return root, RunRecord.model_validate_json(root.at(RECORD).read())
    except ValueError:
        raise RunError(f"{url}/{RECORD} is damaged or of another version; scan into a new run") from None
