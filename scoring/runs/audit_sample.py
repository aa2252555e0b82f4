"""`RUN/audit/sample.parquet`: pictures drawn at random for people to label, each with its inclusion probability.

From the labels of these pictures `audit apply` estimates how often the answers of the whole run are wrong. The order of
the rows is random too, so that the first rows alone are a random part of the sample.
"""

import hashlib
from dataclasses import dataclass
from itertools import count
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from ingest.errors import RunError
from ingest.storage.parquet_tables import read_table, refuse_damage, write_table
from ingest.storage.place import Place
from scoring.runs.layout import AUDIT
from scoring.runs.record import parsed
from scoring.taxonomy import ATTRIBUTES, KEYS

SAMPLE = "sample.parquet"
FOOTER_KEY = b"privsieve.audit_sample"

PRIVATE = "private"
SUBJECTS = (PRIVATE, *KEYS)
"""Subjects that an audit estimates: pictures that are private, and that show each attribute."""

NUM_CELLS = 17
NOT_JUDGED_CELL = 14
"""Cells are numbered from 0. reports/audit/cells.py defines them."""

MIN_PROBABILITY = 1e-12
"""Smallest valid inclusion probability; smaller ones would give absurd weights."""

Purpose = Literal["both", "private", "attributes"]

SAMPLE_SCHEMA = pa.schema(
    [
        pa.field("shard", pa.string(), nullable=False),
        pa.field("index", pa.int64(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        # The name that labels may give instead of a hash: the key, or shard/key if several images of the run have that
        # key; null if not even that names one image.
        pa.field("name", pa.string()),
        pa.field("sha256", pa.string()),
        pa.field("category", pa.string()),
        pa.field("inclusion_probability", pa.float64(), nullable=False),
        # What the run answers: 1, 0, or null if it does not know, by the condition in the footer.
        pa.field("private", pa.int8()),
        pa.field("prob_private", pa.float32()),
        pa.field("level", pa.int8()),
        *(pa.field(key, pa.float32()) for key in KEYS),
        # The cell of the estimator (reports/audit/cells.py) of the row, for each subject.
        *(pa.field(f"cell_{subject}", pa.int8(), nullable=False) for subject in SUBJECTS),
    ]
)
"""One row per drawn picture."""


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
    """Hash of the rows (`scoring.runs.footers`); None in files of older versions, which compared only the above."""

    def are(self, settings: str, num_rows: int, rows_sha256: str) -> bool:
        """Return whether the run still has these rows. rows_sha256: of the run now."""
        return (self.settings, self.num_rows) == (settings, num_rows) and self.rows_sha256 in (None, rows_sha256)


class AuditDesign(AuditedRows):
    """The footer: how the sample was drawn, and from which rows of the run."""

    design: Literal["poisson"] = "poisson"
    """Each image is drawn or not, independently of the others."""

    num_wanted: Annotated[int, Field(ge=1, lt=2**63)]
    """Number of pictures asked for: the sum of all inclusion probabilities, unless the run has fewer."""

    seed: Count
    purpose: Purpose
    """Purpose for which the probabilities were chosen."""

    private: str
    """SQL condition over the rows: the run's answer "private"."""

    num_scored: Count
    """Number of images with a score; the others cannot be drawn."""

    least_probability: Annotated[float, Field(ge=MIN_PROBABILITY, le=1)] | None = None
    """The smallest inclusion probability of a scored image, drawn or not; None in samples of older versions."""

    privsieve: str
    """Version that drew the sample."""


SECOND_LOOK_SHARE = 0.1
"""Share of the drawn pictures that a second person is asked to label, to measure errors in labels."""


@dataclass(frozen=True)
class AuditSample:
    """The drawn pictures of a run."""

    table: pa.Table
    """Rows of `SAMPLE_SCHEMA`."""

    design: AuditDesign
    """How the pictures were drawn."""

    def probabilities(self) -> dict[tuple[str, int], float]:
        """Return (shard, index) -> inclusion probability of each drawn row."""
        columns = (self.table[name].to_pylist() for name in ("shard", "index", "inclusion_probability"))
        return {(shard, index): probability for shard, index, probability in zip(*columns, strict=True)}

    @property
    def is_for_second_look(self) -> list[bool]:
        """Rows that a second person is asked to label. Like the draw, it follows from seed, shard and index alone."""
        rows = zip(self.table["shard"].to_pylist(), self.table["index"].to_pylist(), strict=True)
        return [_lot(f"{self.design.seed}/second look/{index}/{shard}") < SECOND_LOOK_SHARE for shard, index in rows]


def _lot(name: str) -> float:
    """Return a number derived from the name, uniform in [0, 1)."""
    return int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:6], "big") / 2**48


def write_sample(root: Place, sample: AuditSample) -> None:
    """Replace the sample of the run. StorageError if it cannot be written. root: the run."""
    footer = {FOOTER_KEY: sample.design.model_dump_json()}
    write_table(root.at(AUDIT, SAMPLE), sample.table.cast(SAMPLE_SCHEMA), footer)


def keep_as_earlier(root: Place) -> Place:
    """Copy the sample of the run to a name of its own, even if damaged: labels are worthless without the
    probabilities of their pictures. Returns the copy. root: the run.
    """
    names = set(root.at(AUDIT).names())
    number = next(number for number in count(1) if f"sample-{number}.parquet" not in names)
    kept = root.at(AUDIT, f"sample-{number}.parquet")
    kept.write(root.at(AUDIT, SAMPLE).read())
    return kept


def has_sample(root: Place) -> bool:
    return root.at(AUDIT, SAMPLE).exists()


def read_sample(root: Place) -> AuditSample:
    """Read the sample of a run. RunError in one line if there is none or it is damaged. root: the run."""
    file = root.at(AUDIT, SAMPLE)
    if not file.exists():
        raise RunError(f"{root.path} has no audit sample; draw one with: privsieve audit sample {root.path}")
    with refuse_damage(file.path, "is damaged or of another version; draw a new sample with audit sample --replace"):
        table, footer = read_table(file, FOOTER_KEY)
        design = parsed(AuditDesign, footer)
        table = _with_later_attributes(table).select(SAMPLE_SCHEMA.names).cast(SAMPLE_SCHEMA)
        table.validate(full=True)
        _check(table, design)
    return AuditSample(table, design)


def _with_later_attributes(table: pa.Table) -> pa.Table:
    """Add the columns of attributes that the taxonomy got after the sample was drawn: the run did not judge them."""
    for attribute in ATTRIBUTES:
        if attribute.is_later and attribute.key not in table.column_names:
            table = table.append_column(attribute.key, pa.nulls(table.num_rows, pa.float32()))
            cells = pa.repeat(pa.scalar(NOT_JUDGED_CELL, pa.int8()), table.num_rows)
            table = table.append_column(f"cell_{attribute.key}", cells)
    return table


def _check(table: pa.Table, design: AuditDesign) -> None:
    """Raise ValueError for invalid values. NaN is within no bounds."""
    _within(table["inclusion_probability"], design.least_probability or MIN_PROBABILITY, 1)
    for subject in SUBJECTS:
        _within(table[f"cell_{subject}"], 0, NUM_CELLS - 1)
    if table.group_by(["shard", "index"]).aggregate([]).num_rows != table.num_rows:
        raise ValueError("a picture is drawn twice")


def _within(column: pa.ChunkedArray, least: float, most: float) -> None:
    import pyarrow.compute as pc

    is_within = pc.and_(pc.greater_equal(column, least), pc.less_equal(column, most))
    if column.null_count or not pc.all(is_within, min_count=0).as_py():
        raise ValueError("a value out of bounds")
