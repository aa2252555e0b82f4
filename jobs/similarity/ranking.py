"""`similarity rank`: the figures of `compare` against what people recognised, or what detectors still find."""

from collections import defaultdict

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.errors import LabelsError
from ingest.storage.given_files import given_content
from ingest.storage.parquet_tables import refuse_damage
from ingest.storage.place import place
from jobs.similarity.request import RankRequest
from reports.similarity.ranks import Ranking, Votes, ranks_of
from reports.similarity.results import PAIRS_SCHEMA
from scoring.labels.csv_cells import text_columns, unescaped
from scoring.labels.parquet_file import MAX_ROWS

MAX_BYTES = 2**30

NEEDED = ("set", "key", "recognised")
COLUMNS = (*NEEDED, "annotator")

ANSWERS = {"1": 1.0, "0": 0.0, "true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}


def run_rank(request: RankRequest) -> Ranking:
    """Rank the metrics. RunError or StorageError of a file of pairs. LabelsError of the labels, or if they belong to
    fewer than three sets."""
    votes = None if request.labels is None else _votes(request.labels)
    collections = []
    for url in request.pairs:
        pairs = _pairs(url)
        collections.append(ranks_of(url, pairs, _detected(url, pairs) if votes is None else votes))
    judge = "as the labels say, by majority"
    if votes is None:
        judge = "by detectors, as a share of what they find in the original"
    return Ranking(judge, tuple(collections))


def _pairs(url: str) -> pa.Table:
    content = given_content(place(url), url, MAX_BYTES)
    with refuse_damage(f"{url}:", "is no file of similarity compare --out"):
        file = pq.ParquetFile(pa.BufferReader(content))
        if file.schema_arrow.names != PAIRS_SCHEMA.names or file.metadata.num_rows > MAX_ROWS:
            raise ValueError("other columns")
        return file.read().cast(PAIRS_SCHEMA)


def _detected(url: str, pairs: pa.Table) -> Votes:
    known = pairs.filter(pc.is_valid(pairs["still_detected"]))
    if not known.num_rows:
        raise LabelsError(f"{url}: give --labels, or compare with --look-again, since nothing says what is recognised")
    columns = (known[name].to_pylist() for name in ("set", "key", "still_detected"))
    return {(set_name, key): (share,) for set_name, key, share in zip(*columns, strict=True)}


def _votes(url: str) -> Votes:
    content = given_content(place(url), url, MAX_BYTES)
    table = _text_table(content, url)
    missing = [name for name in NEEDED if name not in table.column_names]
    if missing:
        raise LabelsError(
            f'{url}: has no column "{missing[0]}"; it needs set, key and recognised, and may have annotator'
        )
    votes, seen = defaultdict[tuple[str, str], list[float]](list), set[tuple[str, str, str]]()
    names = [name for name in COLUMNS if name in table.column_names]
    for line, cells in enumerate(zip(*(table[name].to_pylist() for name in names), strict=True), 2):
        row = dict(zip(names, cells, strict=True))
        if row["recognised"] is None:
            continue  # not judged
        answer = ANSWERS.get(row["recognised"].strip().lower())
        if answer is None or row["set"] is None or row["key"] is None:
            raise LabelsError(f"{url}, line {line}: needs set and key, and recognised as 1 or 0, or empty")
        who = (row["set"], row["key"], row.get("annotator") or "")
        if who in seen:
            raise LabelsError(f"{url}, line {line}: this annotator judges the pair a second time; keep one row")
        seen.add(who)
        votes[unescaped(row["set"]), unescaped(row["key"])].append(answer)
    return votes


def _text_table(content: bytes, url: str) -> pa.Table:
    if not content.startswith(b"PAR1"):
        return text_columns(content, url, COLUMNS)
    with refuse_damage(f"{url}:", "cannot be read as labels of pairs", LabelsError):
        file = pq.ParquetFile(pa.BufferReader(content))
        if file.metadata.num_rows > MAX_ROWS:
            raise ValueError("too many rows")
        table = file.read(columns=[name for name in COLUMNS if name in file.schema_arrow.names])
        columns = [
            pc.cast(column, pa.int64()) if pa.types.is_boolean(column.type) else column for column in table.columns
        ]
        return pa.table([pc.cast(column, pa.string()) for column in columns], names=table.column_names)
