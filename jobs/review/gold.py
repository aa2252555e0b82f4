"""Pictures whose answer is known, mixed in without a mark: how often a person is right there says how far to trust the
rest."""

from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import LabelsError
from jobs.review.queue import Queue, distinct, rows_of
from jobs.review.request import Judged
from jobs.runtime.feedback import SILENT, Feedback
from reports.evaluation.answers import truth_of
from reports.labels.joining import join
from reports.report.opened import OpenRun
from scoring.labels.attention import CHECKS
from scoring.labels.contradictions import contradictions
from scoring.labels.table import LABELS_SCHEMA, read_labels, to_labels
from scoring.table import Col
from scoring.taxonomy import KEYS


def known_answers(run: OpenRun, url: str, judged: Judged, feedback: Feedback = SILENT) -> tuple[pa.Table, pa.Table]:
    """Rows of the run with a known answer, and these answers as labels of the annotator `CHECKS`, in the same order.

    LabelsError if none is of a picture of the run, or none answers what people are asked.
    """
    labels = read_labels(url)
    if caution := contradictions(labels):
        feedback.notice(f"caution: {url}: {caution}")
    names = pc.unique(pc.drop_null(labels["key"].combine_chunks()))
    hashes = pc.unique(pc.drop_null(labels["sha256"].combine_chunks()))
    statement = (
        'SELECT shard, "index", key, sha256 FROM images WHERE sha256 IS NOT NULL AND (sha256 IN (FROM known_hashes) '
        "OR key IN (FROM known_names) OR concat(shard, '/', key) IN (FROM known_names))"
    )
    with (
        run.joined_with("known_hashes", pa.table({"name": hashes})),
        run.joined_with("known_names", pa.table({"name": names})),
    ):
        rows = run.connection.sql(statement).to_arrow_table()
    if not rows.num_rows:
        raise LabelsError(f"{url}: no label is of a picture of {run.url}; gold pictures must be in the run")
    joined = join(distinct(rows), labels)
    checks = _checks(joined.rows, joined.labels, judged)
    if not checks.num_rows:
        wanted = "says whether a picture is private" if judged == "private" else "has values of attributes"
        raise LabelsError(f"{url}: no label {wanted}, which is what the reviewers are asked")
    known = joined.rows.filter(pc.is_in(joined.rows[Col.SHA256], checks["sha256"].combine_chunks()))
    return rows_of(run, known), checks


def mixed(queue: Queue, gold: pa.Table, share: float, seed: int) -> pa.Table:
    """The rows of the queue and as many gold rows as make this share of all. Sorted by sha256."""
    others = gold.filter(pc.invert(pc.is_in(gold[Col.SHA256], queue.rows[Col.SHA256].combine_chunks())))
    wanted = round(share / (1 - share) * queue.rows.num_rows)
    marks = [sha256(f"{seed}/{hash_}".encode()).digest() for hash_ in others[Col.SHA256].to_pylist()]
    drawn = sorted(range(len(marks)), key=lambda index: marks[index])[:wanted]
    rows = pa.concat_tables([queue.rows, others.take(pa.array(drawn, pa.int64()))])
    return rows.take(pc.sort_indices(rows[Col.SHA256]))


def _checks(rows: pa.Table, labels: pa.Table, judged: Judged) -> pa.Table:
    """With the same kind of answers as people give: all other columns are null."""
    truth = truth_of(labels)
    columns: dict[str, list[object]] = {"sha256": rows[Col.SHA256].to_pylist(), "annotator": [CHECKS] * rows.num_rows}
    if judged == "private":
        answers, is_known = {"private": truth.private}, np.asarray(~np.isnan(truth.private))
    else:
        answers = {key: truth.values[:, index] for index, key in enumerate(KEYS)}
        is_known = np.asarray(~np.isnan(truth.values).all(axis=1))
    for name, values in answers.items():
        columns[name] = [None if np.isnan(value) else float(value) for value in values]
    table = to_labels(columns, rows.num_rows).filter(pa.array(is_known))
    return table.select(LABELS_SCHEMA.names)
