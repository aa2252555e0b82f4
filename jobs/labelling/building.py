"""`labels build` and `labels clean`: lists of pictures to annotate, and benchmarks like those of the papers.

No picture is copied. A benchmark is given away as URLs, labels and batches. Source of its numbers and of the datasheet:
Samson et al., "Privacy-Aware Visual Language Models".
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import chain
from string import Template
from typing import Annotated

import duckdb
import numpy as np
import pyarrow as pa
from pydantic import Field

from ingest import __version__
from ingest.errors import LabelsError, SourceError
from ingest.images.phash import near_duplicate_groups
from ingest.sample import url_sha256_of
from ingest.storage.parquet_tables import write_table
from ingest.storage.place import place
from jobs.console.requests import Count, Option, Seed, Url, checked_request, refuse_existing
from jobs.fetching.url_tables import keywords, open_metadata, words_pattern
from jobs.labelling.labels import labels_of
from jobs.runtime.progress import SILENT, Feedback
from jobs.screening.fitting import cache_of, encoders_of, labelled_pictures, modalities_of
from jobs.screening.request import LookRequest, SeenRequest
from reports.labels.agreed import agreed
from reports.labels.joining import NEEDED, join
from reports.report.opened import open_run
from reports.screening.margins import SuspiciousLabels, suspicious_labels
from reports.statistics.binary import BATCH
from scoring.labels.candidates import Candidates, candidates
from scoring.labels.importers import importer_of
from scoring.labels.importing import import_labels, load_mapping
from scoring.labels.label_files import as_csv
from scoring.labels.table import LabelsOrigin, attribute_values, read_judged, to_labels, write_labels
from scoring.privacy import PRIVATE_CLASSES, private_of_labels
from scoring.screen.model import loaded_modalities
from scoring.sql.names import literal
from scoring.table import Col, numbers_of


@dataclass(frozen=True)
class KeywordHits:
    num_rows: int
    """Rows of the metadata."""

    hits: dict[str, dict[str, int]]
    """Class -> keyword -> captions with it."""

    num_chosen: dict[str, int]
    """Class -> URLs in the list."""


@checked_request
class VisprRequest:
    root: Annotated[Url, Option(argument="ROOT")]
    """Folder of VISPR, in either layout."""

    out: Url
    """Labels file to write, with a class and split per candidate."""

    like_paper: bool = False
    """Draw as many evaluation pictures of each level as the paper has."""

    labels: Annotated[Url | None, Option(metavar="LABELS")] = None
    """Labels of a consensus, which give the levels."""

    num_tuning: Annotated[Count | None, Option("--tuning", metavar="N")] = None
    """Draw this many tuning pictures at random: the paper has 3,630, of which its 80 steps see 2,048. [default: all]"""

    seed: Seed | None = None
    """Seed of the draws. [default: 0]"""


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


@checked_request
class KeywordsRequest:
    metadata: Annotated[Url, Option(argument="METADATA")]
    """Parquet, CSV or TSV with URLs and captions, as fetch takes it."""

    out: Url
    """Parquet file to write: url and class, for privsieve fetch."""

    per_class: Count | None = None
    """Draw this many candidates per class."""

    seed: Seed | None = None
    """Seed of the draw of --per-class. [default: 0]"""


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


@checked_request
class BenchmarkRequest:
    candidates: Annotated[Url, Option(argument="CANDIDATES")]
    """List of URLs with their class that build privbench wrote."""

    run: Annotated[Url, Option("--run", metavar="RUN")]
    """Run over the pictures that fetch got of it."""

    accepted: Annotated[Url, Option(metavar="LABELS")]
    """What people say of them, such as RUN/reviews: private or not."""

    out: Url
    """Folder of the benchmark; a new one."""

    hard: bool = False
    """Also as many hard public pictures."""

    per_class: Count = 20
    """Pictures of each of the eight private classes; as many public ones as these together."""

    seed: Seed = 0
    """Seed of the draw."""


PUBLIC, HARD = "public", "hard-public"

NAMES = {"card": "debit_card", "plate": "license_plate", "chat": "private_chat", HARD: "hard_public"}
"""Class of keywords.yaml -> its name in PrivBench; the other names are the same."""

LABELS, HARD_LABELS, PICTURES, SHEET = "labels.parquet", "labels-hard.parquet", "pictures.csv", "datasheet.md"


@dataclass(frozen=True)
class _Candidate:
    """A picture that people accepted."""

    sha256: str
    url: str
    class_: str
    phash: str | None


@dataclass(frozen=True)
class BenchmarkResult:
    num_accepted: dict[str, int]
    """Class -> accepted candidates, near duplicates counted once."""

    num_drawn: dict[str, int]
    """Class -> pictures of the benchmark."""

    files: tuple[str, ...]
    """Labels first."""


def run_build_benchmark(request: BenchmarkRequest) -> BenchmarkResult:
    """Draw and write the benchmark. LabelsError in one line with every class that has too few accepted pictures;
    nothing is written then."""
    refuse_existing(request.out)
    accepted = _accepted(request)
    num_public = request.per_class * len(PRIVATE_CLASSES)
    wanted = dict.fromkeys(PRIVATE_CLASSES, request.per_class) | {PUBLIC: num_public}
    if request.hard:
        wanted[HARD] = num_public
    counts = Counter(candidate.class_ for candidate in accepted)
    num_accepted = {name: counts[name] for name in (*PRIVATE_CLASSES, PUBLIC, HARD)}
    if too_few := [f"{name} {counts[name]} of {num}" for name, num in wanted.items() if counts[name] < num]:
        raise LabelsError(f"too few accepted pictures: {', '.join(too_few)}; let people judge more candidates")
    drawn = {name: _draw(accepted, name, num, request) for name, num in wanted.items()}
    files = [LABELS, HARD_LABELS] if request.hard else [LABELS]
    out = place(request.out)
    for file in files:
        other = PUBLIC if file == HARD_LABELS else HARD
        chosen = [row for name, rows in drawn.items() for row in rows if name != other]
        origin = LabelsOrigin("build benchmark", None, len(chosen), {}, ("Public: none of the eight private classes.",))
        write_labels(_labels(chosen), f"{request.out.rstrip('/')}/{file}", origin)
    out.at(PICTURES).write(as_csv(pa.Table.from_pylist(list(chain(*drawn.values())))))
    out.at(SHEET).write(_datasheet(wanted, num_accepted, request).encode())
    return BenchmarkResult(num_accepted, wanted, (*files, PICTURES, SHEET))


def _accepted(request: BenchmarkRequest) -> list[_Candidate]:
    """Return the pictures that people call private, if their class is a private one, and public, if it is not."""
    url_and_class = _candidates(request.candidates)
    with open_run(request.run) as run:
        rows = run.rows(tuple(dict.fromkeys([*NEEDED, Col.URL_SHA256, Col.PHASH])))
    joined = join(rows, agreed(read_judged(request.accepted, is_drawn=False)).labels)
    private = private_of_labels(numbers_of(joined.labels, "private"), attribute_values(joined.labels))
    columns = (joined.rows[name].to_pylist() for name in (Col.SHA256, Col.URL_SHA256, Col.PHASH))
    accepted: dict[str, _Candidate] = {}
    num_known = 0
    for sha256, url_sha256, phash, is_private in zip(*columns, private.tolist(), strict=True):
        if sha256 is None or url_sha256 not in url_and_class:
            continue
        num_known += 1
        url, class_ = url_and_class[url_sha256]
        if is_private == float(class_ in PRIVATE_CLASSES):  # never for a picture that people left open
            accepted.setdefault(sha256, _Candidate(sha256, url, class_, phash))
    if not num_known:
        raise LabelsError(
            f"no labelled picture of {request.run} is from a URL of {request.candidates}; the run must be over what "
            "fetch made of this list"
        )
    lots = {sha256: hashlib.sha256(f"{request.seed}/{sha256}".encode()).digest() for sha256 in accepted}
    candidates = sorted(accepted.values(), key=lambda candidate: lots[candidate.sha256])
    groups = near_duplicate_groups([candidate.phash for candidate in candidates])
    return [candidates[index] for index in np.sort(np.unique(groups, return_index=True)[1]).tolist()]


def _candidates(url: str) -> dict[str, tuple[str, str]]:
    """Return hash of the URL -> URL and class."""
    metadata = open_metadata(url)
    try:
        rows = metadata.connection.execute(f'SELECT url, CAST("class" AS VARCHAR) FROM {metadata.rows}').fetchall()
    except (duckdb.Error, OSError) as error:
        raise SourceError(
            f"{url} is no list of candidates with the columns url and class ({type(error).__name__}); make one with "
            "labels build privbench"
        ) from None
    finally:
        metadata.connection.close()
    known = (*PRIVATE_CLASSES, PUBLIC, HARD)
    hashed = ((url_sha256_of(address), address, class_) for address, class_ in rows if address is not None)
    return {digest: (address, class_) for digest, address, class_ in hashed if digest is not None and class_ in known}


def _draw(accepted: Sequence[_Candidate], class_: str, num: int, request: BenchmarkRequest) -> list[dict[str, object]]:
    """Return a row of the table that is given away for each of the first pictures of the class, as many as `num`."""
    chosen = [candidate for candidate in accepted if candidate.class_ == class_][:num]
    is_private, name = class_ in PRIVATE_CLASSES, NAMES.get(class_, class_)
    return [
        {
            "name": f"{name}_{place_}",
            "url": candidate.url,
            "class": name,
            "private": int(is_private),
            "batch": None if is_private else f"{BATCH}{(place_ - 1) // request.per_class + 1}",
            "sha256": candidate.sha256,
        }
        for place_, candidate in enumerate(chosen, 1)
    ]


def _labels(drawn: Sequence[Mapping[str, object]]) -> pa.Table:
    named = {"sha256": "sha256", "split": "batch", "class": "class", "private": "private"}
    columns: dict[str, Sequence[object]] = {label: [row[name] for row in drawn] for label, name in named.items()}
    return to_labels(columns | {"annotator": ["benchmark"] * len(drawn)}, len(drawn))


def _datasheet(wanted: Mapping[str, int], num_accepted: Mapping[str, int], request: BenchmarkRequest) -> str:
    num_private = sum(num for name, num in wanted.items() if name in PRIVATE_CLASSES)
    composition = f"{num_private} private pictures of {len(PRIVATE_CLASSES)} classes and {wanted[PUBLIC]} public ones."
    if request.hard:
        composition += f" {wanted[HARD]} more public ones are hard: they resemble a private class."
    sheet = Template(resources.files("jobs.labelling").joinpath("datasheet.md").read_text(encoding="utf-8"))
    return sheet.substitute(
        version=__version__,
        composition=composition,
        per_class=request.per_class,
        counts="\n".join(f"| {NAMES.get(n, n)} | {num_accepted[n]} | {num} |" for n, num in wanted.items()),
        rules="\n".join(f"| {NAMES.get(n, n)} | {rule} | {law} |" for n, (rule, law) in PRIVATE_CLASSES.items()),
    )


TO_CHECK = "to check"
"""Annotator of the list: it withholds the labels, so that people judge on their own."""

NOTE = (
    "Pictures whose labels may be wrong, by the area under the margin, the most suspicious first; without these labels."
)


@checked_request
class CleanRequest:
    look: LookRequest

    out: Url
    """Labels file to write: the suspicious pictures, without their labels."""

    sees: SeenRequest = SeenRequest()

    max_share: Annotated[float, Field(gt=0, le=0.5)] = 0.1
    """Largest share of the labels that may be suspicious."""

    percentile: Annotated[float, Field(gt=0, lt=100)] | None = None
    """Labels are suspicious below this percentile of the areas of pictures with a class that means nothing;
    PrivacyAlert's is 99. [default: chosen by the self-test]"""

    seed: Seed = 0
    """Seed of the self-test and of the fits."""


def run_clean(request: CleanRequest, feedback: Feedback = SILENT) -> SuspiciousLabels:
    """List suspicious labels. Errors in one line; nothing is written then. LabelsError as in `suspicious_labels`."""
    refuse_existing(request.out)
    names = modalities_of(request.sees)
    encoders = encoders_of(request.sees)
    modalities = loaded_modalities(names, encoders, cache_of(request.look, names))
    labelled = labelled_pictures(request.look, modalities, feedback)
    lengths = {name: modality.length for name, modality in modalities.items()}
    result = suspicious_labels(labelled.pictures, lengths, request.max_share, request.percentile, request.seed)
    hashes = [label.sha256 for label in result.suspicious]
    table = to_labels({"sha256": hashes, "annotator": [TO_CHECK] * len(hashes)}, len(hashes))
    write_labels(table, request.out, LabelsOrigin("labels clean", None, len(hashes), {}, (NOTE,)))
    return result
