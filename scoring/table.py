"""The row per image as a Parquet schema, derived from the sample's columns and the taxonomy.

Declared once, here: the Parquet files, the DuckDB views and docs/columns.md follow from `COLUMNS`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.errors import Fault
from ingest.sample import SAMPLE_COLUMNS, Column, SampleCol
from scoring import severity
from scoring.assessment import Assessment
from scoring.taxonomy import ATTRIBUTES, KEYS, LEVELS, TAXONOMY


class Col(SampleCol):
    """Names of all columns of the row, except the attributes' own, which are their keys in the taxonomy."""

    LEVEL: Final = "level"
    S_LEX: Final = "s_lex"
    SCORE: Final = "score"
    SCORE_HIGH: Final = "score_high"
    LEVEL_HIGH: Final = "level_high"
    NUM_ASSESSED: Final = "num_assessed"
    HOLISTIC_SCORE: Final = "holistic_score"
    PRIVATE_ANSWER: Final = "private_answer"
    PROB_PRIVATE: Final = "prob_private"
    BOXES: Final = "boxes"
    RATIONALE: Final = "rationale"
    STATUS: Final = "status"
    REASON: Final = "reason"
    ERROR_MESSAGE: Final = "error_message"
    STAGE: Final = "stage"
    PROB_SCREEN: Final = "prob_screen"

    @staticmethod
    def prob(key: str) -> str:
        """Return the name of the column with P(present) of an attribute."""
        return f"prob_{key}"

    @staticmethod
    def prob_ambiguous(key: str) -> str:
        """Return the name of the column with P(ambiguous) of an attribute."""
        return f"prob_ambiguous_{key}"


LISTED = "listed"
"""The reason of a row whose picture is on the hash list that the scan had. Nothing is known of it but where it is."""

FULL = "full"
"""The stage of a row whose picture the engine was asked about, or would have been if it had not been quarantined."""

SCREEN = "screen"
"""The stage of a row whose picture the screen left out: nothing of it was assessed, and its status is `SCREENED`."""

GUARD = "guard"
"""The stage of a row whose picture the screen would have left out, but its guard gave it to the engine."""

SCREENED = "screened"
"""The status of a picture that a screen left out."""

BOX_TYPE = pa.struct(
    [
        ("attribute", pa.string()),
        ("kind", pa.string()),
        ("view", pa.int16()),
        *((name, pa.float32()) for name in ("x_min", "y_min", "x_max", "y_max", "confidence")),
    ]
)
"""One piece of evidence; coordinates are fractions (0–1) of the displayed picture."""

ATTRIBUTE_COLUMNS = tuple(
    Column(a.key, pa.float32(), "0 | 0.5 | 1", f"level {a.level}: {a.shows}; null = not assessed") for a in ATTRIBUTES
)

SCORE_COLUMNS: tuple[Column, ...] = (
    Column(
        Col.LEVEL,
        pa.int8(),
        "",
        "most severe level that has an attribute at 1: " + ", ".join(f"{n} {w}" for n, w in LEVELS.items()),
    ),
    *(Column(f"c{n}", pa.int8(), "", f"number of level {n} attributes at 1") for n in (1, 2, 3, 4)),
    Column(Col.S_LEX, pa.int16(), f"0–{TAXONOMY.num_combinations - 1}", "severity order without ties; sort by this"),
    Column(Col.SCORE, pa.float32(), "0–1", "severity score; only values of 1 count"),
    Column(Col.SCORE_HIGH, pa.float32(), "0–1", "severity score with each 0.5 counted as 1"),
    Column(Col.LEVEL_HIGH, pa.int8(), "", "level with each 0.5 counted as 1"),
    Column(
        Col.NUM_ASSESSED,
        pa.int8(),
        f"0–{len(KEYS)}",
        "number of attributes that the engine judged; if few were judged, a low score says little",
    ),
)

WHOLE_IMAGE_COLUMNS: tuple[Column, ...] = (
    Column(
        Col.HOLISTIC_SCORE, pa.float32(), "0–1", "severity given by the severity protocol, null for all other protocols"
    ),
    Column(Col.PRIVATE_ANSWER, pa.int8(), "0 | 1", "answer of the binary protocol, null for all other protocols"),
    Column(Col.PROB_PRIVATE, pa.float32(), "0–1", "P(yes) of the binary protocol, null if the engine gives none"),
)

PROBABILITY_COLUMNS = tuple(
    Column(name_of(a.key), pa.float32(), "0–1", f"the engine's P({word}) for {a.key}, null if it gives none")
    for name_of, word in ((Col.prob, "present"), (Col.prob_ambiguous, "ambiguous"))
    for a in ATTRIBUTES
)

OUTCOME_COLUMNS: tuple[Column, ...] = (
    Column(Col.BOXES, pa.list_(BOX_TYPE), "fractions", "where evidence was found"),
    Column(Col.RATIONALE, pa.string(), "", "kinds of evidence, never the found text or content"),
    Column(Col.STATUS, pa.string(), "", f"scored, quarantined or {SCREENED}", False),
    Column(
        Col.REASON,
        pa.string(),
        "",
        "short code that says why the image is quarantined, null if scored; some say that the row is no image",
    ),
    Column(Col.ERROR_MESSAGE, pa.string(), "", "one line about the reason, null if scored"),
    Column(
        Col.STAGE,
        pa.string(),
        "",
        f"the stage of the scan that decided about the image: {FULL}, the engine; {SCREEN}, the screen, which left it "
        f"out; {GUARD}, the engine, although the screen would have left it out",
    ),
    Column(
        Col.PROB_SCREEN,
        pa.float32(),
        "0–1",
        "the screen's probability that the image is private; null without a screen, or if the screen could not look",
    ),
)

COLUMNS: tuple[Column, ...] = (
    *SAMPLE_COLUMNS,
    *ATTRIBUTE_COLUMNS,
    *SCORE_COLUMNS,
    *WHOLE_IMAGE_COLUMNS,
    *OUTCOME_COLUMNS,
    *PROBABILITY_COLUMNS,
)
"""Every column of the row per image, in order."""

SCHEMA = pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in COLUMNS])

UNKNOWN_LEVEL = Column(
    "unknown_level",
    pa.int8(),
    "",
    "most severe level that has an attribute which was not judged in this image although the engine judges it in "
    "others, null if there is none",
)
"""Level and score count an attribute as absent if the engine judges it in general but not in this image, such as text
in a script that it cannot read. This column shows images for which that may be wrong."""

PRIVATE = Column(
    "private",
    pa.bool_(),
    "",
    "whether the image is private, as every report counts it for the protocol of the run; null if that is unknown, or "
    "if the image was not scored",
)

SEVERITY_LEVEL = Column(
    "severity_level",
    pa.int8(),
    "",
    f"`{Col.LEVEL}`; in runs of the severity protocol the level whose band has `{Col.HOLISTIC_SCORE}`, 0 if that is 0; "
    "null in runs of the binary protocol",
)

COMPUTED: tuple[Column, ...] = (UNKNOWN_LEVEL, PRIVATE, SEVERITY_LEVEL)
"""Columns that are not stored: `scoring.privacy` computes them from the row and `run.json` for policies, reports and
the view `images`."""

NEVER = "false"

IMAGE_SCHEMA = pa.schema([*SCHEMA, *(pa.field(column.name, column.type) for column in COMPUTED)])
"""What conditions of policies and reports may use: a row, and what follows from it and the engine."""


@dataclass(frozen=True)
class Facts:
    """What decoding found out about one sample; the fields are columns of `SAMPLE_COLUMNS`."""

    shard: str
    index: int
    key: str
    category: str | None
    num_bytes: int | None
    sha256: str | None
    width: int | None = None
    height: int | None = None
    format: str | None = None
    num_frames: int | None = None
    num_frames_scanned: int | None = None
    unseen: tuple[str, ...] | None = None
    unseen_bytes: int | None = None
    phash: str | None = None
    pdq: tuple[str | None, ...] | None = None
    url_sha256: str | None = None
    domain: str | None = None
    caption_kinds: tuple[str, ...] | None = None

    @staticmethod
    def of_listed(shard: str, index: int) -> "Facts":
        """Return the facts of a picture on the hash list of the scan: not even its name."""
        return Facts(shard, index, key="", category=None, num_bytes=None, sha256=None)


@dataclass(frozen=True)
class ScreenedOut:
    """The screen left the picture out: nothing of it was assessed."""


Verdict = Assessment | Fault | ScreenedOut
"""The scores of a sample, why it is quarantined, or that the engine was not asked."""


@dataclass(frozen=True)
class FirstLook:
    """What a screen says of a picture; of a scan without a screen, nothing."""

    stage: str = FULL
    prob_screen: float | None = None


NO_LOOK = FirstLook()


def to_table(facts: Sequence[Facts], verdicts: Sequence[Verdict], looks: Sequence[FirstLook] | None = None) -> pa.Table:
    """Build the rows, one of `SCHEMA` per sample, in order.

    `verdicts` must be as long as `facts`, and so must `looks`, unless there was no screen."""
    looks = [NO_LOOK] * len(facts) if looks is None else looks
    assessments = [v if isinstance(v, Assessment) else None for v in verdicts]
    faults = [v if isinstance(v, Fault) else None for v in verdicts]
    columns: dict[str, object] = {c.name: [getattr(f, c.name) for f in facts] for c in SAMPLE_COLUMNS}
    columns |= _scores(assessments)
    columns |= _probabilities(assessments)
    columns[Col.HOLISTIC_SCORE] = [None if a is None else a.holistic_score for a in assessments]
    columns[Col.PRIVATE_ANSWER] = [None if a is None or a.private is None else int(a.private) for a in assessments]
    columns[Col.PROB_PRIVATE] = [None if a is None else a.prob_private for a in assessments]
    columns[Col.BOXES] = [None if a is None else [vars(box) for box in a.boxes] for a in assessments]
    columns[Col.RATIONALE] = [None if a is None else "; ".join(a.evidence) for a in assessments]
    columns[Col.STATUS] = [
        SCREENED if isinstance(v, ScreenedOut) else "quarantined" if isinstance(v, Fault) else "scored"
        for v in verdicts
    ]
    columns[Col.REASON] = [f.reason if f else None for f in faults]
    columns[Col.ERROR_MESSAGE] = [f.message if f else None for f in faults]
    columns[Col.STAGE] = [look.stage for look in looks]
    columns[Col.PROB_SCREEN] = [look.prob_screen for look in looks]
    arrays = [pa.array(columns[field.name], type=field.type, from_pandas=True) for field in SCHEMA]
    table = pa.Table.from_arrays(arrays, schema=SCHEMA)
    assert table.num_rows == len(facts) == len(verdicts)
    return table


def numbers_of(rows: pa.Table, column: str) -> npt.NDArray[np.float64]:
    """Return a column of numbers, NaN for null. Shape (rows,)."""
    return np.asarray(rows[column].cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)


def _scores(assessments: Sequence[Assessment | None]) -> dict[str, object]:
    """Build the columns of attributes and scores, all null if the sample was not assessed.

    If none of its attributes was, level and score are null too, not 0, and num_assessed is 0.
    """
    unknown = np.full(len(KEYS), np.nan, dtype=np.float32)
    values = np.array([unknown if a is None else a.values for a in assessments], dtype=np.float32)
    values = values.reshape(len(assessments), len(KEYS))
    num_assessed = (~np.isnan(values)).sum(axis=1)
    missing = num_assessed == 0
    counts = severity.level_counts(values == 1)
    s_lex = severity.lexicographic(counts)
    s_lex_high = severity.lexicographic(severity.level_counts(values >= 0.5))
    columns: dict[str, npt.NDArray[np.generic]] = {
        Col.LEVEL: severity.level_of(s_lex),
        **{f"c{n}": counts[:, n - 1] for n in (1, 2, 3, 4)},
        Col.S_LEX: s_lex,
        Col.SCORE: severity.score_of(s_lex),
        Col.SCORE_HIGH: severity.score_of(s_lex_high),
        Col.LEVEL_HIGH: severity.level_of(s_lex_high),
    }
    masked: dict[str, object] = {
        name: pa.array(column, mask=missing).cast(SCHEMA.field(name).type, safe=False)
        for name, column in columns.items()
    }
    masked[Col.NUM_ASSESSED] = [None if a is None else int(n) for a, n in zip(assessments, num_assessed, strict=True)]
    return masked | {key: values[:, i] for i, key in enumerate(KEYS)}


def _probabilities(assessments: Sequence[Assessment | None]) -> dict[str, object]:
    unknown = np.full((len(KEYS), 3), np.nan, dtype=np.float32)
    stacked = np.array(
        [unknown if a is None or a.probabilities is None else a.probabilities for a in assessments], dtype=np.float32
    ).reshape(len(assessments), len(KEYS), 3)
    columns: dict[str, object] = {Col.prob(key): stacked[:, i, 2] for i, key in enumerate(KEYS)}
    return columns | {Col.prob_ambiguous(key): stacked[:, i, 1] for i, key in enumerate(KEYS)}


def presence_only(engine: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the attributes that the engine of a run.json confirms but never answers with 0. A null in one of them says
    nothing of the image."""
    return tuple(key for key in KEYS if key in (engine["only_affirmed"]))


def not_presence_only(engine: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the attributes that the engine answers with 0 if it finds nothing; a null in one of them is a gap."""
    judged, confirmed = engine["assessed"], presence_only(engine)
    return tuple(key for key in KEYS if key in judged and key not in confirmed)


def unknown_level_sql(answered_both_ways: Collection[str]) -> str:
    """Return SQL for the value of `UNKNOWN_LEVEL`. answered_both_ways: from `not_presence_only`."""
    unknown = {level: unknown_at_sql((level,), answered_both_ways) for level in sorted(set(LEVELS) - {0})}
    whens = [f"WHEN {condition} THEN {level}" for level, condition in unknown.items() if condition != NEVER]
    return f"CAST(CASE {' '.join(whens)} END AS TINYINT)" if whens else "CAST(NULL AS TINYINT)"


def unknown_at_sql(levels: Collection[int], answered_both_ways: Collection[str]) -> str:
    """Return SQL for whether an attribute of these levels was not judged; reads no other attributes."""
    null = " OR ".join(f"{a.key} IS NULL" for a in ATTRIBUTES if a.level in levels and a.key in answered_both_ways)
    return f"status = 'scored' AND ({null})" if null else NEVER
