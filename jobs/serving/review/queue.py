"""Which rows of a run people are asked about.

Pictures with a known answer are mixed in without a mark. How often a person is right on them says how far to trust
their other answers.

If several people share the work, the pictures of each are drawn once for all of them. Every person gets the same
number of pictures. Every picture goes to nearly as many people: numbers differ by one at most. Both hold within each
level too.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import LabelsError, QueryError, RunError, number_of
from ingest.storage.place import Place, place
from reports.evaluation.answers import ROW_COLUMNS, truth_of
from reports.labels.joining import join
from reports.report.opened import OpenRun
from scoring.labels.judgements import CHECKS, checked_name
from scoring.labels.label_files import LABELS_SCHEMA
from scoring.labels.source_files import csv_rows
from scoring.labels.table import read_labels, to_labels
from scoring.privacy import DECISIVE_KEYS, MIN_PRIVATE_SCORE, PRIVATE_LEVELS, PROBABILITY_SQL
from scoring.runs.audit_files import AuditSample, has_sample, read_sample
from scoring.sql.expressions import boolean_expression
from scoring.table import GUARD, IMAGE_SCHEMA, UNKNOWN_LEVEL, Col
from scoring.taxonomy import KEYS

Kind = Literal["audit", "borderline", "guard", "sql", "list"]

Judged = Literal["private", "classes", "votes", "attributes", "question"]
"""What people say of a picture."""

LISTS = (".parquet", ".csv")
"""Endings of a queue that is a file of labels."""

DEFAULT_PICTURES = 400
"""Number of pictures of a borderline, guard or SQL queue."""

GUARDED = f"{Col.STAGE} = '{GUARD}' AND private"
"""SQL over `images`: what a screen would have left out, and the engine calls private."""

NEAR = 0.2
"""Distance from 0.5 up to which a probability is borderline."""

COLUMNS = tuple(dict.fromkeys([*ROW_COLUMNS, Col.NUM_FRAMES, Col.BOXES, Col.RATIONALE]))
"""Columns that are read of the rows that people are asked about."""


@dataclass(frozen=True)
class Queue:
    kind: Kind
    rows: pa.Table
    """With `COLUMNS`; every sha256 once, sorted by it."""

    sample: AuditSample | None
    """The drawn sample, if the queue is of an audit."""

    num_without_bytes: int = 0
    """Drawn pictures that the scan could not read, so that there is nothing to show."""

    @property
    def for_second_look(self) -> frozenset[str]:
        """Return sha256 of the pictures that a second person is asked about; none without an audit sample."""
        if self.sample is None:
            return frozenset()
        hashes = zip(self.sample.table["sha256"].to_pylist(), self.sample.is_for_second_look, strict=True)
        return frozenset(sha256 for sha256, is_second in hashes if is_second and sha256 is not None)


def queue_of(run: OpenRun, root: Place, queue: str | None, judged: str, count: int | None, seed: int) -> Queue:
    """Return the queue. RunError if there is no such sample or picture; QueryError if the condition is wrong."""
    if queue == "audit" or (queue is None and has_sample(root)):
        return _of_audit(run, root, count)
    if queue is not None and queue.lower().endswith(LISTS):
        named = _named(run, read_labels(queue))
        if not named.num_rows:
            raise RunError(f"{run.url}: holds no picture that {queue} names")
        return Queue("list", rows_of(run, distinct(named).slice(0, count)), None)
    kind: Kind = "sql"
    order: str | None = None
    if queue in (None, "borderline"):
        kind, (condition, order) = "borderline", borderline(judged)
    elif queue == "guard":
        kind, condition = "guard", GUARDED
    else:
        assert queue is not None
        condition = _condition(queue)
    wanted = _chosen(run, condition, order, count or DEFAULT_PICTURES, seed)
    if not wanted.num_rows:
        whys = {"borderline": "is near the decision", "guard": "of the guard of a screen is called private"}
        why = whys.get(kind, "fits the condition")
        raise RunError(f'{run.url}: no picture {why}; give another --queue, such as "level IN (1, 2)"')
    return Queue(kind, rows_of(run, wanted), None)


def _named(run: OpenRun, labels: pa.Table) -> pa.Table:
    """Return the rows that labels name, in the order of the labels: shard, index, key and sha256."""
    names = labels.select(["sha256", "key"]).append_column("place", pa.array(range(labels.num_rows), pa.int64()))
    columns = (
        'SELECT place, shard, "index", images.key, images.sha256 FROM images JOIN names ON images.sha256 IS NOT NULL'
    )
    by_name = f"{columns} AND names.sha256 IS NULL AND names.key ="
    statement = (
        f"{columns} AND names.sha256 = images.sha256 UNION ALL {by_name} images.key UNION ALL "
        f"{by_name} concat(images.shard, '/', images.key) ORDER BY place, shard, \"index\""
    )
    with run.joined_with("names", names):
        return run.connection.sql(statement).to_arrow_table().drop_columns("place")


def borderline(judged: str) -> tuple[str, str]:
    """Return SQL over `images`: which rows are near the decision, and how near, 0 the nearest.

    A row is near if a deciding probability is within `NEAR` of 0.5, its severity is as near to the lowest private one,
    an attribute is 0.5, or one was not judged.
    """
    keys = KEYS if judged == "attributes" else DECISIVE_KEYS
    ambiguous = " OR ".join(f"{key} = 0.5" for key in keys)
    if judged != "attributes":
        distances = [f"abs({PROBABILITY_SQL} - 0.5)", f"abs({Col.HOLISTIC_SCORE} - {MIN_PRIVATE_SCORE})"]
        unknown = f"level NOT IN {PRIVATE_LEVELS} AND ({ambiguous} OR {UNKNOWN_LEVEL.name} IN {PRIVATE_LEVELS})"
    else:
        distances = [f"abs({Col.prob(key)} - 0.5)" for key in keys]
        unknown = f"{ambiguous} OR {UNKNOWN_LEVEL.name} IS NOT NULL"
    distance = f"least({', '.join(distances)}, CASE WHEN {unknown} THEN 0 END)"
    return f"status = 'scored' AND {distance} <= {NEAR}", distance


def rows_of(run: OpenRun, wanted: pa.Table) -> pa.Table:
    """Return the rows with the shard and index of `wanted`, with `COLUMNS`. RunError if they cannot be read."""
    columns = ", ".join(f'"{name}"' for name in COLUMNS)
    statement = f'SELECT {columns} FROM images SEMI JOIN wanted USING (shard, "index")'
    with run.joined_with("wanted", wanted.select([Col.SHARD, Col.INDEX])):
        rows = run.connection.sql(statement).to_arrow_table()
    return rows.take(pc.sort_indices(rows[Col.SHA256]))


def distinct(rows: pa.Table) -> pa.Table:
    """Return the first row of each picture that has bytes."""
    seen: dict[str, int] = {}
    for index, sha256 in enumerate(rows[Col.SHA256].to_pylist()):
        if sha256 is not None:
            seen.setdefault(sha256, index)
    return rows.take(pa.array(seen.values(), pa.int64()))


def _condition(text: str) -> str:
    try:
        return boolean_expression(text, IMAGE_SCHEMA)
    except QueryError as error:
        raise QueryError(f"--queue is audit, borderline, guard, a file of labels or a SQL condition; {error}") from None


def _chosen(run: OpenRun, condition: str, order: str | None, count: int, seed: int) -> pa.Table:
    """Return the nearest of the rows that fit; equally near ones in a random order that does not depend on files."""
    drawn = f"md5(sha256 || '{seed}')"
    statement = (
        f'SELECT shard, "index", sha256 FROM images WHERE sha256 IS NOT NULL AND ({condition}) '
        f'ORDER BY {f"{order}, " if order else ""}{drawn}, shard, "index" '
        f"LIMIT {2 * count + 1000}"  # copies of a picture are adjacent
    )
    return distinct(run.sql(statement)).slice(0, count)


def _of_audit(run: OpenRun, root: Place, count: int | None) -> Queue:
    """Return the queue of the audit sample. The first rows of a sample are a random part of it."""
    sample = read_sample(root)
    pictures = distinct(sample.table).slice(0, count)
    rows = rows_of(run, pictures)
    if rows[Col.SHA256].to_pylist() != sorted(pictures["sha256"].to_pylist()):
        raise RunError(f"{run.url}: the audit sample is of another state of the run; draw it again with audit sample")
    return Queue("audit", rows, sample, num_without_bytes=sample.table["sha256"].null_count)


def known_answers(run: OpenRun, url: str, judged: Judged) -> tuple[pa.Table, pa.Table]:
    """Return rows of the run with a known answer, and in the same order these answers as labels of `CHECKS`.
    LabelsError if none is of a picture of the run, or none answers what people are asked."""
    labels = read_labels(url)
    rows = _named(run, labels)
    if not rows.num_rows:
        raise LabelsError(f"{url}: no label is of a picture of {run.url}; gold pictures must be in the run")
    joined = join(distinct(rows), labels)
    checks = _checks(joined.rows, joined.labels, judged)
    if not checks.num_rows:
        wanted = "has values of attributes" if judged == "attributes" else "says whether a picture is private"
        raise LabelsError(f"{url}: no label {wanted}, which is what the reviewers are asked")
    known = joined.rows.filter(pc.is_in(joined.rows[Col.SHA256], checks[Col.SHA256].combine_chunks()))
    return rows_of(run, known), checks


def mixed(queue: Queue, gold: pa.Table, checks: pa.Table, share: float, seed: int) -> pa.Table:
    """Return the rows of the queue, and gold rows up to this share of all: as many private as public ones, as far as
    there are. Who always says the same is then seldom right. Sorted by sha256. checks: of `known_answers`."""
    others = gold.filter(pc.invert(pc.is_in(gold[Col.SHA256], queue.rows[Col.SHA256].combine_chunks())))
    wanted = round(share / (1 - share) * queue.rows.num_rows)
    hashes: list[str] = others[Col.SHA256].to_pylist()
    side_of = dict(zip(checks["sha256"].to_pylist(), (truth_of(checks).private == 1).tolist(), strict=True))
    by_lot = sorted(hashes, key=lambda sha256: hashlib.sha256(f"{seed}/{sha256}".encode()).digest())
    num_before, places = Counter[bool](), dict[str, tuple[int, int]]()
    for lot, sha256 in enumerate(by_lot):
        places[sha256] = (num_before[side_of[sha256]], lot)
        num_before[side_of[sha256]] += 1
    drawn = sorted(places, key=lambda sha256: places[sha256])[:wanted]
    rows = pa.concat_tables([queue.rows, others.filter(pc.is_in(others[Col.SHA256], pa.array(drawn, pa.string())))])
    return rows.take(pc.sort_indices(rows[Col.SHA256]))


def _checks(rows: pa.Table, labels: pa.Table, judged: Judged) -> pa.Table:
    """Return known answers of the kind that people give; all other columns are null."""
    truth = truth_of(labels)
    columns: dict[str, list[object]] = {"sha256": rows["sha256"].to_pylist(), "annotator": [CHECKS] * rows.num_rows}
    if judged != "attributes":
        answers, is_known = {"private": truth.private}, np.asarray(~np.isnan(truth.private))
    else:
        answers = {key: truth.values[:, index] for index, key in enumerate(KEYS)}
        is_known = np.asarray(~np.isnan(truth.values).all(axis=1))
    for name, values in answers.items():
        columns[name] = [None if np.isnan(value) else float(value) for value in values]
    table = to_labels(columns, rows.num_rows).filter(pa.array(is_known))
    return table.select(LABELS_SCHEMA.names)


def people_of(url: str) -> tuple[str, ...]:
    """Read the column `name` of a CSV file. LabelsError in one line that names no person."""
    rows = csv_rows(place(url), url)
    where, head = next(rows, (url, []))
    if [cell.strip().lower() for cell in head] != ["name"]:
        raise LabelsError(f"{where}: the first line must be the one column name; a person a line follows")
    people: list[str] = []
    for where, row in rows:
        if len(row) != 1 or (name := checked_name(row[0])) in people:
            raise LabelsError(f"{where}: gives more than a name, or a name that an earlier line has; keep one a line")
        people.append(name)
    if not people:
        raise LabelsError(f"{url}: names no person")
    return tuple(people)


def assignment(
    people: Sequence[str], hashes: Sequence[str], levels: Sequence[int | None], per_person: int, seed: int
) -> dict[str, frozenset[str]]:
    """Return the sha256 of each person's pictures. hashes, levels: of the pictures, the same number of each.

    LabelsError if a person would get a picture twice, or a picture would have no person. The same arguments give the
    same result, whatever the order of the pictures.
    """
    num_answers, num_pictures = len(people) * per_person, len(hashes)
    if per_person > num_pictures:
        raise LabelsError(
            f"--per-person {per_person} is more than the {number_of(num_pictures, 'picture')} of the queue"
        )
    if num_answers < num_pictures:
        raise LabelsError(
            f"--per-person {per_person} times {len(people):,} of --assign makes {number_of(num_answers, 'answer')}, "
            f"fewer than the {num_pictures:,} pictures of the queue; give a smaller --n, or a larger --per-person"
        )
    mark = {sha256: hashlib.sha256(f"{seed}/{sha256}".encode()).digest() for sha256 in hashes}
    level_of = dict(zip(hashes, levels, strict=True))
    by_level = sorted(hashes, key=lambda sha256: (str(level_of[sha256]), mark[sha256]))
    # Dealt in the order of levels: a round gives one picture to each person, so each gets every level evenly.
    ends = [(number + 1) * num_answers // num_pictures for number in range(num_pictures)]
    random = np.random.default_rng(seed)
    given: dict[str, set[str]] = {name: set() for name in people}
    waiting: list[str] = []
    dealt = 0
    for sha256, end in zip(by_level, ends, strict=True):
        for _ in range(dealt, end):
            waiting = waiting or [people[index] for index in random.permutation(len(people))]
            # A picture of two rounds has at most as many turns as there are people, so another person is always left.
            name = next(name for name in waiting if sha256 not in given[name])
            waiting.remove(name)
            given[name].add(sha256)
        dealt = end
    return {name: frozenset(pictures) for name, pictures in given.items()}
