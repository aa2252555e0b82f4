"""The row per image as a Parquet schema, derived from the sample's columns and the taxonomy.

Declared once, here: the Parquet files, the DuckDB views and docs/columns.md follow from `COLUMNS`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.fault import SHARD_REASONS, Fault
from ingest.images.files.unseen_kinds import UNSEEN_KINDS
from ingest.sample import SAMPLE_COLUMNS, Column
from scoring import severity
from scoring.assessment import Assessment
from scoring.gaps import UNKNOWN_LEVEL
from scoring.taxonomy import ATTRIBUTES, KEYS, LEVELS, TAXONOMY

LISTED = "listed"
"""The reason of a row whose picture is on the hash list that the scan had. Nothing is known of it but where it is."""

FULL = "full"
"""The stage of every row: the engine was asked about all of the picture. There is no other stage yet."""

BOX_TYPE = pa.struct(
    [
        ("attribute", pa.string()),
        ("kind", pa.string()),
        ("view", pa.int16()),
        ("x_min", pa.float32()),
        ("y_min", pa.float32()),
        ("x_max", pa.float32()),
        ("y_max", pa.float32()),
        ("confidence", pa.float32()),
    ]
)
"""One piece of evidence; coordinates are fractions (0–1) of the displayed picture."""

ATTRIBUTE_COLUMNS = tuple(
    Column(
        a.key,
        pa.float32(),
        "0 | 0.5 | 1",
        f"level {a.level}: {a.shows}; null = not assessed",
        is_later=a.is_later,
    )
    for a in ATTRIBUTES
)

SCORE_COLUMNS: tuple[Column, ...] = (
    Column(
        "level",
        pa.int8(),
        "",
        "most severe level that has an attribute at 1: " + ", ".join(f"{n} {w}" for n, w in LEVELS.items()),
    ),
    *(Column(f"c{n}", pa.int8(), "", f"number of level {n} attributes at 1") for n in (1, 2, 3, 4)),
    Column("s_lex", pa.int16(), f"0–{TAXONOMY.num_combinations - 1}", "severity order without ties; sort by this"),
    Column("score", pa.float32(), "0–1", "severity score; only values of 1 count"),
    Column("score_high", pa.float32(), "0–1", "severity score with each 0.5 counted as 1"),
    Column("level_high", pa.int8(), "", "level with each 0.5 counted as 1"),
    Column(
        "num_assessed",
        pa.int8(),
        f"0–{len(KEYS)}",
        "number of attributes that the engine judged; if few were judged, a low score says little",
    ),
)

WHOLE_IMAGE_COLUMNS: tuple[Column, ...] = (
    Column(
        "holistic_score", pa.float32(), "0–1", "severity given by the severity protocol, null for all other protocols"
    ),
    Column("private", pa.int8(), "0 | 1", "answer of the binary protocol, null for all other protocols"),
    Column("prob_private", pa.float32(), "0–1", "P(yes) of the binary protocol, null if the engine gives none"),
)

PROBABILITY_COLUMNS = tuple(
    Column(
        f"{prefix}_{a.key}",
        pa.float32(),
        "0–1",
        f"the engine's P({word}) for {a.key}, null if it gives none",
        is_later=a.is_later,
    )
    for prefix, word in (("prob", "present"), ("prob_ambiguous", "ambiguous"))
    for a in ATTRIBUTES
)

OUTCOME_COLUMNS: tuple[Column, ...] = (
    Column("boxes", pa.list_(BOX_TYPE), "fractions", "where evidence was found"),
    Column("rationale", pa.string(), "", "kinds of evidence, never the found text or content"),
    Column("status", pa.string(), "", "scored or quarantined", False),
    Column(
        "reason",
        pa.string(),
        "",
        "short code that says why the image is quarantined, null if scored; some say that the row is no image",
    ),
    Column("error_message", pa.string(), "", "one line about the reason, null if scored"),
    Column(
        "stage",
        pa.string(),
        "",
        f"which stage of the scan decided about the image: {FULL}; null in rows of older versions",
        is_later=True,
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

IMAGE_SCHEMA = SCHEMA.append(pa.field(UNKNOWN_LEVEL.name, UNKNOWN_LEVEL.type))
"""What conditions of policies and reports may use: a row, and what follows from it and the engine."""

LATER = frozenset(column.name for column in COLUMNS if column.is_later)
"""Columns that rows of older versions lack."""


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


Verdict = Assessment | Fault
"""The scores of a sample, or why it is quarantined."""


def to_table(facts: Sequence[Facts], verdicts: Sequence[Verdict]) -> pa.Table:
    """Rows of `SCHEMA`, one per sample, in order. `verdicts` must be as long as `facts`."""
    assessments = [v if isinstance(v, Assessment) else None for v in verdicts]
    faults = [v if isinstance(v, Fault) else None for v in verdicts]
    columns: dict[str, object] = {c.name: [getattr(f, c.name) for f in facts] for c in SAMPLE_COLUMNS}
    columns |= _scores(assessments)
    columns |= _probabilities(assessments)
    for column in WHOLE_IMAGE_COLUMNS:
        judged = [None if a is None else getattr(a, column.name) for a in assessments]
        columns[column.name] = [None if label is None else float(label) for label in judged]
    columns["boxes"] = [None if a is None else [_box(b) for b in a.boxes] for a in assessments]
    columns["rationale"] = [None if a is None else "; ".join(a.evidence) for a in assessments]
    columns["status"] = ["quarantined" if f else "scored" for f in faults]
    columns["reason"] = [f.reason if f else None for f in faults]
    columns["error_message"] = [f.message if f else None for f in faults]
    columns["stage"] = [FULL] * len(facts)
    arrays = [pa.array(columns[field.name], type=field.type, from_pandas=True) for field in SCHEMA]
    table = pa.Table.from_arrays(arrays, schema=SCHEMA)
    assert table.num_rows == len(facts) == len(verdicts)
    return table


def as_schema(rows: pa.Table, schema: pa.Schema = SCHEMA) -> pa.Table:
    """Rows of any version as those of `schema`, null in the columns that were added later.

    pyarrow.ArrowInvalid or ValueError where they have other columns.
    """
    for name in schema.names:
        if name in LATER and name not in rows.column_names:
            rows = rows.append_column(schema.field(name), pa.nulls(rows.num_rows, schema.field(name).type))
    is_same = set(rows.column_names) == set(schema.names)
    return (rows.select(schema.names) if is_same else rows).cast(schema)


def _scores(assessments: Sequence[Assessment | None]) -> dict[str, object]:
    """The attribute and score columns; every one of them is null where the sample was not assessed.

    Where no attribute was, level and score are null too, not 0; num_assessed is 0.
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
        "level": severity.level_of(s_lex),
        **{f"c{n}": counts[:, n - 1] for n in (1, 2, 3, 4)},
        "s_lex": s_lex,
        "score": severity.score_of(s_lex),
        "score_high": severity.score_of(s_lex_high),
        "level_high": severity.level_of(s_lex_high),
    }
    masked: dict[str, object] = {
        name: pa.array(column, mask=missing).cast(SCHEMA.field(name).type, safe=False)
        for name, column in columns.items()
    }
    masked["num_assessed"] = [None if a is None else int(n) for a, n in zip(assessments, num_assessed, strict=True)]
    return masked | {key: values[:, i] for i, key in enumerate(KEYS)}


def _probabilities(assessments: Sequence[Assessment | None]) -> dict[str, object]:
    unknown = np.full((len(KEYS), 3), np.nan, dtype=np.float32)
    stacked = np.array(
        [unknown if a is None or a.probabilities is None else a.probabilities for a in assessments],
        dtype=np.float32,
    ).reshape(len(assessments), len(KEYS), 3)
    columns: dict[str, object] = {}
    for i, key in enumerate(KEYS):
        columns[f"prob_{key}"] = stacked[:, i, 2]
        columns[f"prob_ambiguous_{key}"] = stacked[:, i, 1]
    return columns


def _box(box: object) -> dict[str, object]:
    return {field.name: getattr(box, field.name) for field in BOX_TYPE}


def columns_document() -> str:
    """The Markdown page docs/columns.md; a test compares them. Write it with
    `python -c "from scoring.table import columns_document; print(columns_document(), end='')" > docs/columns.md`.
    """
    from scoring.captions import CAPTION_KINDS

    lines = ["# The row per image", "", "| column | type | unit | meaning |", "|---|---|---|---|"]
    for column in COLUMNS:
        kind = "list<box>" if column.name == "boxes" else str(column.type).replace("<item: ", "<")
        unit = column.unit.replace("|", "\\|")
        lines.append(f"| `{column.name}` | {kind} | {unit} | {column.meaning} |")
    lines += [
        "",
        "## boxes",
        "",
        "A list of structs with these fields. Coordinates are fractions (0–1) of the picture.",
        "",
    ]
    lines += [", ".join(f"`{field.name}`" for field in BOX_TYPE) + "."]
    lines += ["", "## Rows that are no image", ""]
    lines += [f"Reasons: {', '.join(f'`{reason}`' for reason in sorted(SHARD_REASONS))}."]
    lines += [
        "",
        "Such a row is about a part of a damaged shard, or all of it: an unknown number of images that were not seen. "
        "The views of `sql`, the functions of the Python package and all counts of images leave it out; the view "
        "`damaged` and the score files hold it.",
    ]
    lines += ["", "## Kinds of unseen content", "", "| `unseen` | meaning |", "|---|---|"]
    lines += [f"| `{kind}` | {meaning} |" for kind, meaning in UNSEEN_KINDS.items()]
    lines += ["", "Rows of versions that did not record it have null in `unseen` and `unseen_bytes`."]
    lines += ["", "## Kinds of evidence in captions", ""]
    lines += [", ".join(f"`{kind}`" for kind in CAPTION_KINDS) + "."]
    lines += [
        "",
        "Captions are read of WebDataset samples (member `.txt`, else the JSON field `caption`) and of Parquet rows "
        "(column `caption`, `text`, `TEXT` or `alt`), the first 4 KB. The rules are those that the engine `detectors` "
        "applies to text in pictures; "
        "what they find in captions was not measured, and a name can be that of a place or of somebody famous.",
    ]
    lines += ["", f"## {UNKNOWN_LEVEL.name}", ""]
    lines += [
        f"Policies, `report` and the view `images` of `sql` have one more column, `{UNKNOWN_LEVEL.name}`: "
        f"{UNKNOWN_LEVEL.meaning}. `level` and the scores count such an attribute as absent."
    ]
    return "\n".join(lines) + "\n"
