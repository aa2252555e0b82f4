"""`labels build`: lists of pictures to annotate, for benchmarks like those of the papers. No picture is copied."""

from collections import Counter
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from ingest.errors import LabelsError, SourceError
from ingest.storage.parquet_tables import write_table
from ingest.storage.place import place
from jobs.console.requests import refuse_existing
from jobs.fetch.selection import keywords, open_metadata, words_pattern
from jobs.labels.request import CleanRequest, KeywordsRequest, VisprRequest
from jobs.labels.run import labels_of
from jobs.runtime.progress import SILENT, Feedback
from jobs.screen.looking import labelled_pictures
from jobs.screen.run import cache_of, encoder_of, modalities_of
from reports.screening.margins import SuspiciousLabels, suspicious_labels
from scoring.labels.candidates import Candidates, candidates
from scoring.labels.importers import importer_of
from scoring.labels.importing import import_labels, load_mapping
from scoring.labels.table import LabelsOrigin, to_labels, write_labels
from scoring.screen.model import loaded_modalities
from scoring.sql.names import literal

TO_CHECK = "to check"
"""Annotator of the list: it withholds the labels, so that people judge on their own."""

NOTE = (
    "Pictures whose labels may be wrong, by the area under the margin, the most suspicious first; without these labels."
)


@dataclass(frozen=True)
class KeywordHits:
    num_rows: int
    """Rows of the metadata."""

    hits: dict[str, dict[str, int]]
    """Class -> keyword -> captions with it."""

    num_chosen: dict[str, int]
    """Class -> URLs in the list."""


def run_build_vispr(request: VisprRequest, feedback: Feedback = SILENT) -> Candidates:
    """Write the candidates. LabelsError in one line; nothing is written then."""
    if request.labels is not None and not request.like_paper:
        raise LabelsError("--labels is for --like-paper; leave it out, or give both")
    if request.seed is not None and not request.like_paper and request.num_tuning is None:
        raise LabelsError("--seed is for the draw of --like-paper or --tuning; leave it out, or give both")
    refuse_existing(request.out)
    importer = importer_of("vispr")
    with feedback.meter("labels", None) as meter:
        mapping = load_mapping(importer.mapping or "")
        imported = import_labels(
            "vispr", importer, place(request.root), mapping, advance=lambda _, num_all: meter.advance(1)
        )
    annotated = None if request.labels is None else labels_of(request.labels)
    chosen = candidates(imported.labels, request.like_paper, annotated, request.seed or 0, request.num_tuning)
    note = "A list of candidates: labels come from annotation, not from VISPR."
    origin = LabelsOrigin("build vispr", imported.origin.mapping, chosen.labels.num_rows, {}, (note, *chosen.too_few))
    write_labels(chosen.labels, request.out, origin)
    return chosen


KEYWORDS = {"privbench": "keywords.yaml", "privacyalert": "privacyalert-keywords.yaml"}
"""Data set -> file of its keywords in `jobs/fetch`."""


def run_build_by_keywords(request: KeywordsRequest, data_set: str) -> KeywordHits:
    """Write the candidates. SourceError in one line if the metadata has no captions; nothing is written then.

    A URL is a candidate of the first class, in the order of the data set's file, with a keyword in one of its captions.
    The list has the columns `url` and `class`, no captions; `fetch` takes it.
    """
    if request.seed is not None and request.per_class is None:
        raise LabelsError("--seed is for the draw of --per-class; leave it out, or give both")
    refuse_existing(request.out)
    metadata = open_metadata(request.metadata)
    if not metadata.has_caption:
        raise SourceError(f"{request.metadata} has no column of captions (caption, text, …)")
    known = keywords(KEYWORDS[data_set])
    rows = f"(SELECT url, CAST(caption AS VARCHAR) AS caption FROM {metadata.rows})"
    words = [(class_, word) for class_, class_words in known.items() for word in class_words]
    counts = ", ".join(
        f"count(*) FILTER (regexp_matches(caption, {literal(words_pattern([word]))}))" for _, word in words
    )
    cases = " ".join(
        f"WHEN regexp_matches(caption, {literal(words_pattern(class_words))}) THEN {rank}"
        for rank, class_words in enumerate(known.values(), 1)
    )
    names = f"[{', '.join(map(literal, known))}]"  # counted from 1
    order = f"md5(url || {literal(str(request.seed or 0))}), url"
    limit = "" if request.per_class is None else f"WHERE place <= {request.per_class}"
    chosen = f"""
        WITH classed AS (SELECT url, CASE {cases} END AS rank FROM {rows}),
        distinct_urls AS (
            SELECT url, {names}[min(rank)] AS class FROM classed
            WHERE rank IS NOT NULL AND url IS NOT NULL GROUP BY url
        ),
        drawn AS (SELECT *, row_number() OVER (PARTITION BY class ORDER BY {order}) AS place FROM distinct_urls)
        SELECT url, class FROM drawn {limit} ORDER BY class, url
    """
    try:
        num_rows, *word_counts = metadata.connection.execute(f"SELECT count(*), {counts} FROM {rows}").fetchall()[0]
        table: pa.Table = metadata.connection.sql(chosen).to_arrow_table().rename_columns(["url", "class"])
    except (duckdb.Error, OSError) as error:
        raise SourceError(f"{request.metadata} cannot be read ({type(error).__name__})") from None
    finally:
        metadata.connection.close()
    hits: dict[str, dict[str, int]] = {class_: {} for class_ in known}
    for (class_, word), count in zip(words, word_counts, strict=True):
        hits[class_][word] = count
    write_table(place(request.out), table)
    num_chosen: Counter[str] = Counter(table["class"].to_pylist())
    return KeywordHits(num_rows, hits, {class_: num_chosen[class_] for class_ in known})


def run_clean(request: CleanRequest, feedback: Feedback = SILENT) -> SuspiciousLabels:
    """List suspicious labels. Errors in one line; nothing is written then. LabelsError as of `suspicious_labels`."""
    refuse_existing(request.out)
    encoder = encoder_of(request.sees)
    modalities = loaded_modalities(modalities_of(request.sees), encoder, cache_of(request.look, encoder))
    labelled = labelled_pictures(request.look, modalities, feedback)
    lengths = {name: modality.length for name, modality in modalities.items()}
    result = suspicious_labels(labelled.pictures, lengths, request.max_share, request.percentile, request.seed)
    hashes = [label.sha256 for label in result.suspicious]
    table = to_labels({"sha256": hashes, "annotator": [TO_CHECK] * len(hashes)}, len(hashes))
    write_labels(table, request.out, LabelsOrigin("labels clean", None, len(hashes), {}, (NOTE,)))
    return result
