"""Identity of the rows that an audit describes, in the footers of its files, so that stale figures are noticed."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0, lt=2**63)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class AuditedRows(BaseModel):
    """The state of a run when it was audited."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    settings: str
    """Hash of the run's settings (`RunRecord.settings_hash`)."""

    num_rows: Count
    """Number of rows of the run: images and damaged parts of shards."""

    rows_sha256: Sha256 | None = None
    """Hash of the rows (`scoring.runs.rows_hash`); None in files of older versions, which compared only the above."""

    def are(self, settings: str, num_rows: int, rows_sha256: str) -> bool:
        """Return whether the run still has these rows. rows_sha256: of the run now."""
        return (self.settings, self.num_rows) == (settings, num_rows) and self.rows_sha256 in (None, rows_sha256)
