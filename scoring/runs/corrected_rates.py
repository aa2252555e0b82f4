"""`RUN/audit/corrected_rates.parquet`: rates of a run corrected for the errors of its engine, next to the raw ones.

Written by `audit apply`. The footer identifies the state of the run that the figures describe.
"""

from collections.abc import Mapping
from typing import Annotated

import pyarrow as pa
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ingest.storage.parquet_tables import read_table, refuse_damage, write_table
from ingest.storage.place import Place
from scoring.runs.audit_sample import SUBJECTS, AuditedRows, Count
from scoring.runs.layout import AUDIT
from scoring.runs.record import parsed

CORRECTED_RATES = "corrected_rates.parquet"
FOOTER_KEY = b"privsieve.corrected_rates"

_RATES = ("raw_rate", "raw_low", "raw_high", "corrected_rate", "low", "high")
_QUALITY = tuple(f"{what}{end}" for what in ("sensitivity", "specificity") for end in ("", "_low", "_high"))
_OF_SOURCE = ("source_low", "source_high")
"""Columns that files of older versions lack."""

CORRECTED_SCHEMA = pa.schema(
    [
        # "private", or the key of an attribute
        pa.field("subject", pa.string(), nullable=False),
        # Null for the whole run; "(none)" for images without a category, as in reports.
        pa.field("category", pa.string()),
        # Shares of the scored images, 0–1; with category sizes (`State`) of those in the source. Raw: as the run
        # answers; its interval is null, since it is a count of all of them. Corrected: with its 95 % interval.
        *(pa.field(name, pa.float64()) for name in _RATES),
        # One of METHODS.
        pa.field("method", pa.string(), nullable=False),
        # Labelled pictures of the subject, in the whole run or in the category.
        pa.field("num_labels", pa.int64(), nullable=False),
        # Why there is no corrected rate, or what to know of it; one of a few fixed texts.
        pa.field("note", pa.string()),
        # Of the run's answers, weighted to all scored images; only in rows of the whole run. 0–1.
        *(pa.field(name, pa.float64()) for name in _QUALITY),
        # 95 % interval of the corrected rate of the scored images in the source; null if the run is no sample of it.
        *(pa.field(name, pa.float64()) for name in _OF_SOURCE),
    ]
)
"""One row per subject, and per subject and category. What is not known is null."""

_OLDER_SCHEMA = pa.schema([field for field in CORRECTED_SCHEMA if field.name not in _OF_SOURCE])

MIN_LABELS = 30
"""With fewer labels a rate is marked."""

METHODS = ("difference", "composite", "prior shift", "rogan-gladen")


def _subject(name: str) -> str:
    if name not in SUBJECTS:
        raise ValueError("no subject of an audit")
    return name


Subject = Annotated[str, AfterValidator(_subject)]

ROUNDING = 1e-9
"""A computed share may exceed 0–1 by this much."""


class LabelGaps(BaseModel):
    """Questions that the labels of an audit leave open."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    num_drawn: Count | None = None
    """Number of pictures in the sample; None if the labels are from another run."""

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

    gaps: LabelGaps = LabelGaps()
    """Empty in files of older versions."""

    category_sizes: Mapping[str, Annotated[int, Field(ge=1, lt=2**53)]] = {}
    """Number of images of each category in the source, if the rates are weighted with them."""

    has_source_intervals: bool = False
    """Whether the file has intervals for the source; files of older versions have none."""


def write_corrected_rates(root: Place, table: pa.Table, state: State) -> None:
    """Replace the corrected rates of a run. StorageError if they cannot be written. root: the run."""
    footer = {FOOTER_KEY: state.model_dump_json()}
    write_table(root.at(AUDIT, CORRECTED_RATES), table.cast(CORRECTED_SCHEMA), footer)


def remove_corrected_rates(root: Place) -> None:
    """Remove corrected rates that describe other rows than the run has now."""
    root.at(AUDIT, CORRECTED_RATES).remove()


def read_stored(root: Place) -> tuple[pa.Table, State] | None:
    """Read rows of `CORRECTED_SCHEMA` and their state; None if there are none. RunError in one line if damaged."""
    path = root.at(AUDIT, CORRECTED_RATES)
    if not path.exists():
        return None
    with refuse_damage(path.path, "is damaged or of another version; remove it, or run audit apply again"):
        table, footer = read_table(path, FOOTER_KEY)
        state = parsed(State, footer)
        if table.schema != (CORRECTED_SCHEMA if state.has_source_intervals else _OLDER_SCHEMA):
            raise ValueError("other columns")
        if not state.has_source_intervals:
            for name in _OF_SOURCE:
                table = table.append_column(name, pa.nulls(table.num_rows, pa.float64()))
        table.validate(full=True)
        _check(table)
    return table, state


def _check(table: pa.Table) -> None:
    """Raise ValueError for invalid values. NaN is within no bounds; null, which is unknown, is allowed."""
    import pyarrow.compute as pc

    for name in (*_RATES, *_QUALITY, *_OF_SOURCE):
        rates = table[name]
        _all(pc.and_(pc.greater_equal(rates, -ROUNDING), pc.less_equal(rates, 1 + ROUNDING)))
    for name in ("raw_", "", "sensitivity_", "specificity_", "source_"):
        _all(pc.less_equal(table[f"{name}low"], table[f"{name}high"]))
    _all(pc.is_in(table["subject"], pa.array(SUBJECTS)))
    _all(pc.is_in(table["method"], pa.array(METHODS)))
    _all(pc.greater_equal(table["num_labels"], 0))


def _all(is_right: pa.ChunkedArray) -> None:
    import pyarrow.compute as pc

    if not pc.all(is_right, min_count=0).as_py():
        raise ValueError("a value that no audit has")
