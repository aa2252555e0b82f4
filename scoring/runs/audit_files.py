"""`RUN/audit/`: the sample that people label, and the rates that are corrected by their labels.

    sample.parquet           pictures drawn at random, each with its inclusion probability
    corrected_rates.parquet  rates of the run corrected for the errors of its engine, next to the raw ones

The order of the sample's rows is random too, so that the first rows alone are a random part of it. From its labels
`audit apply` estimates how often the answers of the whole run are wrong, and writes the rates; their footer identifies
the state of the run that the figures describe.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Annotated, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json

from ingest.errors import RunError
from ingest.storage.file_format import FORMAT, Format, refuse_other_format
from ingest.storage.parquet_tables import read_table, refuse_damage, write_table
from ingest.storage.place import Place
from scoring.runs import AUDIT
from scoring.runs.record import parsed
from scoring.table import Col
from scoring.taxonomy import KEYS

SAMPLE = "sample.parquet"
SAMPLE_FOOTER_KEY = b"privsieve.audit_sample"

PRIVATE = "private"
SUBJECTS = (PRIVATE, *KEYS)
"""Subjects that an audit estimates: pictures that are private, and that show each attribute."""

NUM_CELLS = 34
"""Cells are numbered from 0. reports/statistics/estimates.py defines them."""

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
        pa.field(Col.PROB_PRIVATE, pa.float32()),
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

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    format: Format = FORMAT
    settings: str
    """Hash of the run's settings (`RunRecord.settings_hash`)."""

    num_rows: Count
    """Number of rows of the run: images and damaged parts of shards."""

    rows_sha256: Sha256
    """Hash of the rows (`scoring.runs.footers`)."""

    def are(self, settings: str, num_rows: int, rows_sha256: str) -> bool:
        """Return whether the run still has these rows. rows_sha256: of the run now."""
        return (self.settings, self.num_rows, self.rows_sha256) == (settings, num_rows, rows_sha256)


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

    least_probability: Annotated[float, Field(ge=MIN_PROBABILITY, le=1)]
    """The smallest inclusion probability of a scored image, drawn or not."""

    category_sizes: Mapping[str, Annotated[int, Field(ge=1, lt=2**53)]] = {}
    """Number of images of each category in the source, by which the labels were placed; else empty."""

    guard_mass: Annotated[float, Field(ge=1)]
    """Images that a guarded image represents: itself, and those that a screen left out; 1 without a screen."""

    privsieve: str


SECOND_LOOK_SHARE, NUM_SECOND_LOOKS = 0.1, 30
"""Share of the drawn pictures that a second person is asked to label, to measure errors in labels, and about how many
there are of a small sample: fewer than 20 measure nothing (`reports.statistics.agreement`)."""


@dataclass(frozen=True)
class AuditSample:
    """The drawn pictures of a run."""

    table: pa.Table
    design: AuditDesign

    def probabilities(self) -> dict[tuple[str, int], float]:
        """Return (shard, index) -> inclusion probability of each drawn row."""
        columns = (self.table[name].to_pylist() for name in ("shard", "index", "inclusion_probability"))
        return {(shard, index): probability for shard, index, probability in zip(*columns, strict=True)}

    @property
    def is_for_second_look(self) -> list[bool]:
        """Rows that a second person is asked to label. Like the draw, it follows from seed, shard and index alone."""
        rows = zip(self.table["shard"].to_pylist(), self.table["index"].to_pylist(), strict=True)
        share = max(SECOND_LOOK_SHARE, NUM_SECOND_LOOKS / self.design.num_wanted)
        return [_lot(f"{self.design.seed}/second look/{index}/{shard}") < share for shard, index in rows]


def _lot(name: str) -> float:
    """Return a number derived from the name, uniform in [0, 1)."""
    return int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:6], "big") / 2**48


def write_sample(root: Place, sample: AuditSample) -> None:
    """Replace the sample of the run. StorageError if it cannot be written. root: the run."""
    footer = {SAMPLE_FOOTER_KEY: sample.design.model_dump_json()}
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
    remedy = "draw a new sample with audit sample --replace"
    with refuse_damage(file.path, f"is damaged; {remedy}"):
        table, footer = read_table(file, SAMPLE_FOOTER_KEY)
        refuse_other_format(from_json(footer), file.path, remedy, RunError)
        design = parsed(AuditDesign, footer)
        table = table.cast(SAMPLE_SCHEMA)
        table.validate(full=True)
        _refuse_outside(table["inclusion_probability"], design.least_probability, 1)
        for subject in SUBJECTS:
            _refuse_outside(table[f"cell_{subject}"], 0, NUM_CELLS - 1)
        if table.group_by(["shard", "index"]).aggregate([]).num_rows != table.num_rows:
            raise ValueError("a picture is drawn twice")
    return AuditSample(table, design)


def _refuse_outside(column: pa.ChunkedArray, least: float, most: float) -> None:
    """Raise ValueError for values out of bounds; NaN is within none."""
    _all(pc.and_(pc.greater_equal(column, least), pc.less_equal(column, most)).fill_null(False))


CORRECTED_RATES = "corrected_rates.parquet"
RATES_FOOTER_KEY = b"privsieve.corrected_rates"

_RATES = ("raw_rate", "corrected_rate", "low", "high")
_QUALITY = tuple(f"{what}{end}" for what in ("sensitivity", "specificity") for end in ("", "_low", "_high"))

CORRECTED_SCHEMA = pa.schema(
    [
        # "private", or the key of an attribute
        pa.field("subject", pa.string(), nullable=False),
        # Null for the whole run; "(none)" for images without a category, as in reports.
        pa.field("category", pa.string()),
        # Images that the rates are shares of, in words.
        pa.field("population", pa.string(), nullable=False),
        # Shares, 0–1. Raw: as the run answers. Corrected: with its 95 % interval.
        *(pa.field(name, pa.float64()) for name in _RATES),
        # One of METHODS.
        pa.field("method", pa.string(), nullable=False),
        # Labelled pictures of the subject, in the whole run or in the category.
        pa.field("num_labels", pa.int64(), nullable=False),
        # Why there is no corrected rate, or what to know of it; one of a few fixed texts.
        pa.field("note", pa.string()),
        # Of the run's answers, 0–1; of categories only the sensitivity, if they have labels enough.
        *(pa.field(name, pa.float64()) for name in _QUALITY),
    ]
)
"""One row per subject, and per subject and category. What is not known is null."""

METHODS = ("difference", "fay-herriot")

Subject = Annotated[str, Field(pattern=f"^({'|'.join(SUBJECTS)})$")]

ROUNDING = 1e-9
"""A computed share may exceed 0–1 by this much, and the lower end of an interval the upper one."""


class LabelGaps(BaseModel):
    """Questions that the labels of an audit leave open."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    num_drawn: Count | None = None
    """Number of pictures in the sample."""

    num_without_label: Count = 0
    """Number of these without an answer to any question, except undecided ones."""

    num_undecided: Mapping[Subject, Count] = {}
    """Subject -> number of pictures that people saw but did not answer; subjects without any are left out."""

    num_judged_twice: Count = 0
    """Number of pictures that at least two people judged as private or not."""

    share_differing: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of the pairs of answers to these that differ; None without such a picture."""

    kappa: Annotated[float, Field(ge=-1, le=1)] | None = None
    """Agreement on these beyond chance; None if undefined."""

    allows_for_errors: bool = False
    """Whether intervals are widened by the errors that these pictures show."""


class State(AuditedRows):
    """The footer: identity of the rows that the figures describe."""

    private: str
    """SQL condition over the rows: the run's answer "private"."""

    date: str
    """Date on which the labels were applied, as 2026-11-22 (UTC)."""

    gaps: LabelGaps

    category_sizes: Mapping[str, Annotated[int, Field(ge=1, lt=2**53)]]
    """Number of images of each category in the source, if the rates are weighted with them; else empty."""


def write_corrected_rates(root: Place, table: pa.Table, state: State) -> None:
    """Replace the corrected rates of a run. StorageError if they cannot be written. root: the run."""
    footer = {RATES_FOOTER_KEY: state.model_dump_json()}
    write_table(root.at(AUDIT, CORRECTED_RATES), table.cast(CORRECTED_SCHEMA), footer)


def read_stored(root: Place) -> tuple[pa.Table, State] | None:
    """Read rows of `CORRECTED_SCHEMA` and their state; None if there are none. RunError in one line if damaged."""
    path = root.at(AUDIT, CORRECTED_RATES)
    if not path.exists():
        return None
    remedy = "remove it, or run audit apply again"
    with refuse_damage(path.path, f"is damaged; {remedy}"):
        table, footer = read_table(path, RATES_FOOTER_KEY)
        refuse_other_format(from_json(footer), path.path, remedy, RunError)
        state = parsed(State, footer)
        if table.schema != CORRECTED_SCHEMA:
            raise ValueError("other columns")
        table.validate(full=True)
        for name in (*_RATES, *_QUALITY):  # NaN is within no bounds; null, which is unknown, is allowed
            _all(pc.and_(pc.greater_equal(table[name], -ROUNDING), pc.less_equal(table[name], 1 + ROUNDING)))
        for name in ("", "sensitivity_", "specificity_"):
            _all(pc.less_equal(pc.subtract(table[f"{name}low"], table[f"{name}high"]), ROUNDING))
        _all(pc.is_in(table["subject"], pa.array(SUBJECTS)))
        _all(pc.is_in(table["method"], pa.array(METHODS)))
        _all(pc.greater_equal(table["num_labels"], 0))
    return table, state


def _all(is_right: pa.ChunkedArray) -> None:
    if not pc.all(is_right, min_count=0).as_py():
        raise ValueError("a value that no audit has")
