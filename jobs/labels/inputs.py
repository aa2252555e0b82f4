"""Labels from a labels file, from the answers of a review, or from the rows of a run."""

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import LabelsError
from ingest.storage.place import place
from jobs.runtime.feedback import Feedback
from reports.report.opened import open_run
from scoring.labels.contradictions import contradictions
from scoring.labels.reviews import is_reviews
from scoring.labels.table import read_labels, to_labels
from scoring.privacy import ROW_COLUMNS, private_of_rows
from scoring.table import LISTED, Col
from scoring.taxonomy import KEYS

COLUMNS = tuple(dict.fromkeys([*ROW_COLUMNS, Col.SHARD, Col.KEY, Col.SHA256, Col.SCORE, Col.NUM_ASSESSED, Col.REASON]))


def labels_of(url: str) -> pa.Table:
    """Rows of `LABELS_SCHEMA`; the annotator of a run is the name of its folder.

    A run has one row per picture here, also if the corpus holds a picture several times; quarantined images are rows of
    null, but those on the hash list of the scan have none. RunError or LabelsError in one line.
    """
    where = place(url)
    if not where.is_dir() or is_reviews(where):
        return read_labels(url)
    with open_run(url) as run:
        rows, engine = run.rows(COLUMNS), run.record.engine
    rows = _one_per_picture(rows.filter(pc.not_equal(rows[Col.REASON], LISTED).fill_null(True)))
    columns: dict[str, list[object]] = {name: rows[name].to_pylist() for name in ("sha256", "key", *KEYS)}
    columns["private"] = pa.array(private_of_rows(rows, engine), from_pandas=True).to_pylist()
    whole = zip(rows[Col.HOLISTIC_SCORE].to_pylist(), rows[Col.SCORE].to_pylist(), rows[Col.NUM_ASSESSED], strict=True)
    # The formula counts what was not assessed as absent, which a label must not do.
    columns["score"] = [
        holistic if holistic is not None or num.as_py() != len(KEYS) else formula for holistic, formula, num in whole
    ]
    columns["annotator"] = [where.name] * rows.num_rows
    return to_labels(columns, rows.num_rows)


def tables_of(urls: Sequence[str]) -> list[tuple[str, pa.Table]]:
    """`labels_of` each, with its URL. LabelsError if one is given twice: it would agree with itself."""
    given = Counter(str(place(url).path) for url in urls)
    for url in urls:
        if given[place(url).path] > 1:
            raise LabelsError(f"{url} is given twice; give each input once")
    return [(url, labels_of(url)) for url in urls]


def warn_of_contradictions(tables: Sequence[tuple[str, pa.Table]], feedback: Feedback) -> None:
    """One notice for each input with labels that contradict themselves. tables: as of `tables_of`."""
    for url, labels in tables:
        if caution := contradictions(labels):
            feedback.notice(f"caution: {url}: {caution}")


def _one_per_picture(rows: pa.Table) -> pa.Table:
    """The first row of each sha256. Images without bytes have the shard in their key if another image has the same."""
    shards, keys, hashes = (rows[name].to_pylist() for name in (Col.SHARD, Col.KEY, Col.SHA256))
    pictures = {(sha256 or (shard, key)) for shard, key, sha256 in zip(shards, keys, hashes, strict=True)}
    seen: set[object] = set()
    kept, names = [], []
    holders = Counter(keys)
    for number, (shard, key, sha256) in enumerate(zip(shards, keys, hashes, strict=True)):
        if (picture := sha256 or (shard, key)) in seen:
            continue
        seen.add(picture)
        kept.append(number)
        names.append(f"{shard}/{key}" if not sha256 and holders[key] > 1 else key)
    assert len(kept) == len(pictures)
    place_of_key = rows.column_names.index("key")
    return rows.take(pa.array(kept, pa.int64())).set_column(place_of_key, "key", pa.array(names, pa.string()))
