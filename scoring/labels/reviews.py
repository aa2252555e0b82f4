"""`RUN/reviews/`: the answers that people gave in `review`, as labels tables with further columns.

A part is a Parquet file of at most `PART_ROWS` answers. Each new answer writes the last part of its writer again, whole
or not at all, on a disk as on an object store: an answer that was acknowledged survives a kill. Every process writes
parts of its own. Of several answers of a person about a picture the last counts; taking one back is an answer too.
Parts in the folder `shown/` are the access log: which picture was sent to whom.
"""

import json
import re
import threading
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator
from pydantic_core import from_json

from ingest.errors import LabelsError, number_of
from ingest.sample import Column
from ingest.storage.file_format import FORMAT, refuse_other_format
from ingest.storage.parquet_tables import refuse_damage, write_table
from ingest.storage.place import Place, version_mark_of
from scoring.labels.label_files import LABELS_SCHEMA, bounded_table
from scoring.taxonomy import KEYS

SKIP = "skip"
UNDO = "undo"
UNCLEAR = "unclear"
OF_ATTRIBUTES = "attributes"
OF_VOTE = "vote"
OF_CLASS = "class"
YES, NO = "yes", "no"
ANSWERS = ("private", "public", OF_VOTE, OF_CLASS, OF_ATTRIBUTES, YES, NO, UNCLEAR, SKIP, UNDO)
"""private, public: of the whole picture. vote, class: the column of this name. attributes: values of all.
yes, no: to a question of the user's.
unclear: the person looked and cannot say. skip: the person did not judge. undo: the answer before is taken back."""

REVIEW_COLUMNS: tuple[Column, ...] = (
    Column("answer", pa.string(), "", ", ".join(ANSWERS), False),
    Column("seconds", pa.float32(), "s", "how long the picture was on the screen before the answer, null if unknown"),
    Column(
        "boxes",
        pa.string(),
        "",
        "JSON list of boxes as the person left them: attribute, by (model or person), x_min, y_min, x_max, y_max as "
        "fractions of the displayed picture; null if the person changed none",
    ),
    Column("queue", pa.string(), "", "why the picture was asked: audit, borderline, guard, sql or list", False),
    Column("is_gold", pa.bool_(), "", "whether a label of the picture was known, to measure the reviewer", False),
    Column("answered_at", pa.timestamp("us", "UTC"), "UTC", "when; later for each answer of a person", False),
)
"""Columns of a part in addition to those of the labels table."""

REVIEWS_SCHEMA = pa.schema([*LABELS_SCHEMA, *(pa.field(c.name, c.type, nullable=c.nullable) for c in REVIEW_COLUMNS)])

SHOWN = "shown"
SHOWN_SCHEMA = pa.schema(
    {"reviewer": pa.string(), "sha256": pa.string(), "key": pa.string(), "sent_at": pa.timestamp("us", "UTC")}
)
"""The access log: which picture was sent to the browser of which person, and when."""

PART_ROWS = 64
"""Answers per part: few enough to write a part again with each answer, many enough for few files."""

MAX_SECONDS = 3600.0
"""A picture that was on the screen for longer counts as this long: the person was away."""

MAX_BOXES_CHARS = 8_000
"""Limit of the JSON text of one answer."""

LAST_US = 7_258_118_400_000_000
"""The year 2200: no answer is later, and times can still be counted on from here."""

_CHOSEN = {"borderline": "near the decision", "guard": "of the guard of a screen", "sql": "by a SQL condition"}
"""Queues of pictures that were not drawn at random, in words."""

FOOTER_KEY = b"privsieve.reviews"
SHOWN_KEY = b"privsieve.shown"
_PART = re.compile(r"answers-[0-9a-f]{12}-[0-9]{5}\.parquet")


def is_reviews(folder: Place) -> bool:
    """Return whether the folder holds answers of a review."""
    return any(_PART.fullmatch(name) for name in folder.names())


def read_reviews(folder: Place) -> pa.Table:
    """Read every answer, in `REVIEWS_SCHEMA`, in the order in which they were given.

    LabelsError if there is none, or a part is damaged; StorageError if the storage fails.
    """
    answers = ReviewAnswers(folder)
    answers.refresh()
    if not answers.table().num_rows:
        raise LabelsError(f"{folder.path} is a folder without answers of a review; give a labels file, or RUN/reviews")
    return answers.table()


def standing(answers: pa.Table) -> pa.Table:
    """Return the last answer per picture and person, without those that were taken back, by time."""
    ordered = answers.sort_by("answered_at")
    columns = (ordered[name].to_pylist() for name in ("sha256", "annotator"))
    last_rows = {name: row for row, name in enumerate(zip(*columns, strict=True))}
    last = ordered.take(pa.array(sorted(last_rows.values()), pa.int64()))
    return last.filter(pc.not_equal(last["answer"], UNDO))


Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class ReviewedBox(BaseModel):
    """A box in an answer. Sides as fractions of the displayed picture."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    attribute: str | None
    by: Literal["model", "person"]
    x_min: Share
    y_min: Share
    x_max: Share
    y_max: Share

    @field_validator("attribute")
    @classmethod
    def _known(cls, key: str | None) -> str | None:
        if key is not None and key not in KEYS:
            raise ValueError("no attribute")
        return key


def reviewed_boxes(folder: Place) -> dict[str, list[tuple[ReviewedBox, ...]]]:
    """Return sha256 -> the boxes as each person who changed some left them, by their last answers.

    Errors as in `read_reviews`; LabelsError also if an answer has something else than boxes.
    """
    answers = standing(read_reviews(folder))
    answers = answers.filter(pc.and_(pc.is_valid(answers["boxes"]), pc.not_equal(answers["answer"], SKIP)))
    boxes = dict[str, list[tuple[ReviewedBox, ...]]]()
    for sha256, text in zip(answers["sha256"].to_pylist(), answers["boxes"].to_pylist(), strict=True):
        try:
            boxes.setdefault(sha256, []).append(_BOXES.validate_json(text))
        except ValidationError:
            raise LabelsError(f"{folder.path}: an answer has boxes that are none; remove this part") from None
    return boxes


_BOXES = TypeAdapter(tuple[ReviewedBox, ...])


def caution_of_chosen(folder: Place) -> str | None:
    """Warn that not all answered pictures were drawn at random; say how many were not, and why they were asked.

    None if all were, or the folder holds no answers of a review. Errors as in `read_reviews`.
    """
    if not folder.is_dir() or not is_reviews(folder):
        return None
    answers = standing(read_reviews(folder))
    judgements = pa.array(["private", "public", OF_VOTE, OF_CLASS, OF_ATTRIBUTES])
    answers = answers.filter(pc.is_in(answers["answer"], judgements))
    is_drawn = pc.and_(pc.equal(answers["queue"], "audit"), pc.invert(answers["is_gold"]))
    drawn = set(answers.filter(is_drawn)["sha256"].to_pylist())
    chosen = {  # for a picture that was chosen twice, the last reason
        row["sha256"]: "of known answer" if row["is_gold"] else _CHOSEN.get(row["queue"], "chosen in another way")
        for row in answers.filter(pc.invert(is_drawn)).select(["sha256", "queue", "is_gold"]).to_pylist()
        if row["sha256"] not in drawn
    }
    if not chosen:
        return None
    counts = ", ".join(f"{num:,} {why}" for why, num in sorted(Counter(chosen.values()).items()))
    judged = number_of(len(chosen) + len(drawn), "picture")
    were = "was" if len(chosen) == 1 else "were"
    return (
        f"{len(chosen):,} of the {judged} that people judged {were} chosen ({counts}), not drawn at random: recall, "
        "precision and all other figures are of the judged pictures, not of the run. For figures of the run: privsieve "
        "audit sample, then review --queue audit and audit apply"
    )


@dataclass(frozen=True)
class GuardLooks:
    """What people say of the pictures of the queue `guard`."""

    num_judged: int = 0
    num_private: int = 0
    """Pictures that more people call private than public."""


def guard_looks(answers: pa.Table) -> GuardLooks:
    """Count the pictures of the queue `guard` that people judged. answers: of `REVIEWS_SCHEMA`."""
    last = standing(answers)
    last = last.filter(pc.and_(pc.equal(last["queue"], "guard"), pc.is_valid(last["private"])))
    balance = Counter[str]()
    for sha256, private in zip(last["sha256"].to_pylist(), last["private"].to_pylist(), strict=True):
        balance[sha256] += 1 if private else -1
    return GuardLooks(len(balance), sum(more > 0 for more in balance.values()))


class _Parts:
    """Writes rows of one process into parts; each new row writes the last part again, whole or not at all."""

    def __init__(self, folder: Place, name: str, schema: pa.Schema, footer_key: bytes):
        self._folder, self._name, self._schema, self._footer_key = folder, name, schema, footer_key
        self._number = 0
        self.open_rows = list[dict[str, Any]]()
        """Rows of the last part."""

    def add(self, row: dict[str, Any]) -> pa.Table | None:
        """Write one more row. Return the part if it is full now. StorageError, and nothing written, if that fails."""
        rows = [*self.open_rows, row]
        table = pa.Table.from_pylist(rows, schema=self._schema)
        part = self._folder.at(f"{self._name}-{self._number:05d}.parquet")
        write_table(part, table, {self._footer_key: json.dumps({"format": FORMAT})})
        self.open_rows = rows
        if len(rows) < PART_ROWS:
            return None
        self._number, self.open_rows = self._number + 1, []
        return table


class ReviewAnswers:
    """All answers in the folder of a run, of this process and of others. Safe for threads."""

    def __init__(self, folder: Place):
        """Read nothing yet."""
        self._folder, self._writer = folder, uuid.uuid4().hex[:12]
        self._answers = _Parts(folder, f"answers-{self._writer}", REVIEWS_SCHEMA, FOOTER_KEY)
        self._shown = _Parts(folder.at(SHOWN), f"shown-{self._writer}", SHOWN_SCHEMA, SHOWN_KEY)
        self._own = list[pa.Table]()
        self._others = dict[str, tuple[str, pa.Table]]()
        self._last = datetime.min.replace(tzinfo=UTC)
        self._lock = threading.Lock()

    def add(self, answer: Mapping[str, Any]) -> None:
        """Save one answer: the columns of `REVIEWS_SCHEMA` but `answered_at`; missing ones are null.

        When it returns, the answer is on the disk or in the store. StorageError, and nothing saved, if that fails.
        """
        with self._lock:
            now = max(datetime.now(UTC), self._last + timedelta(microseconds=1))
            full = self._answers.add({**answer, "answered_at": now})
            self._last = now
            if full is not None:
                self._own.append(full)

    def log_shown(self, reviewer: str, sha256: str, key: str) -> None:
        """Write into the access log that a picture is sent to the browser of a person. As durable as `add`."""
        with self._lock:
            self._shown.add({"reviewer": reviewer, "sha256": sha256, "key": key, "sent_at": datetime.now(UTC)})

    def refresh(self) -> None:
        """Read what other processes have written. LabelsError names a damaged part."""
        with self._lock:
            for name, mark in _marks(self._folder).items():
                if f"-{self._writer}-" not in name and self._others.get(name, ("",))[0] != mark:
                    part = _part(self._folder.at(name))
                    self._others[name] = (mark, part)
                    self._last = max([self._last, *part["answered_at"].to_pylist()])

    def table(self) -> pa.Table:
        """Return all answers, by time."""
        with self._lock:
            open_part = pa.Table.from_pylist(self._answers.open_rows, schema=REVIEWS_SCHEMA)
            parts = [part for _, part in self._others.values()]
            return pa.concat_tables([*parts, *self._own, open_part]).sort_by("answered_at")


def _marks(folder: Place) -> dict[str, str]:
    """Return name -> version mark of each existing part."""
    if not folder.is_dir():
        return {}
    marks = {entry["name"].rpartition("/")[2]: version_mark_of(entry) for entry in folder.entries()}
    return {name: mark for name, mark in sorted(marks.items()) if _PART.fullmatch(name)}


def _part(file: Place) -> pa.Table:
    content, schema = file.read(), REVIEWS_SCHEMA
    with refuse_damage(f"{file.path}:", "is a damaged part of a review; remove it, or restore it", LabelsError):
        footer = (pq.read_metadata(pa.BufferReader(content)).metadata or {})[FOOTER_KEY]
        refuse_other_format(from_json(footer), file.path, "remove it", LabelsError)
        table = bounded_table(content, file.path, schema.names).select(schema.names).cast(schema)
    required = {c for c in schema.names if not schema.field(c).nullable} | {"sha256"}
    is_whole = not any(table[column].null_count for column in required)
    if table.num_rows and not (is_whole and _is_known(table)):
        raise LabelsError(f"{file.path}: is not a part of a review; remove it, or restore it")
    return table


def _is_known(part: pa.Table) -> bool:
    """Return whether answers and times are valid for this version."""
    are_answers = bool(pc.all(pc.is_in(part["answer"], pa.array(ANSWERS))).as_py())
    times = pc.min_max(part["answered_at"].cast(pa.int64())).as_py()
    return are_answers and 0 <= times["min"] <= times["max"] <= LAST_US
