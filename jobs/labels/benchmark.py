"""`labels build benchmark`: draws PrivBench's numbers of pictures from candidates that people accepted.

A benchmark is given away as URLs, labels and batches, without pictures. Source of the numbers and of the datasheet:
Samson et al., "Privacy-Aware Visual Language Models".
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Template

import duckdb
import numpy as np
import pyarrow as pa

from ingest import __version__
from ingest.errors import LabelsError, SourceError
from ingest.images.phash import near_duplicate_groups
from ingest.sample import url_sha256_of
from ingest.storage.place import place
from jobs.console.requests import refuse_existing
from jobs.fetch.selection import open_metadata
from jobs.labels.request import BalancedRequest, BenchmarkRequest
from reports.labels.agreed import agreed
from reports.labels.joining import NEEDED, join
from reports.report.opened import open_run
from reports.statistics.binary import BATCH
from scoring.labels.label_files import as_csv
from scoring.labels.picture_index import PictureIndex
from scoring.labels.table import LabelsOrigin, attribute_values, read_judged, read_labels, to_labels, write_labels
from scoring.privacy import PRIVATE_CLASSES, private_of_labels
from scoring.table import Col

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
class _Drawn:
    """A picture of the benchmark."""

    name: str
    candidate: _Candidate
    batch: str | None
    """The batch of a public picture."""


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
    drawn = [each for name, num in wanted.items() for each in _draw(accepted, name, num, request)]
    files = [LABELS, HARD_LABELS] if request.hard else [LABELS]
    out = place(request.out)
    for file in files:
        other = PUBLIC if file == HARD_LABELS else HARD
        chosen = [each for each in drawn if each.candidate.class_ != other]
        origin = LabelsOrigin("build benchmark", None, len(chosen), {}, ("Public: none of the eight private classes.",))
        write_labels(_labels(chosen), f"{request.out.rstrip('/')}/{file}", origin)
    out.at(PICTURES).write(as_csv(_pictures(drawn)))
    out.at(SHEET).write(_datasheet(wanted, num_accepted, request).encode())
    return BenchmarkResult(num_accepted, wanted, (*files, PICTURES, SHEET))


def _accepted(request: BenchmarkRequest) -> list[_Candidate]:
    """Return the pictures that people call private, if their class is a private one, and public, if it is not."""
    url_and_class = _candidates(request.candidates)
    with open_run(request.run) as run:
        rows = run.rows(tuple(dict.fromkeys([*NEEDED, Col.URL_SHA256, Col.PHASH])))
    joined = join(rows, agreed(read_judged(request.accepted, is_drawn=False)).labels)
    private = private_of_labels(joined.labels["private"].cast(pa.float32()).to_numpy(), attribute_values(joined.labels))
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
    candidates = sorted(accepted.values(), key=lambda candidate: _lot(candidate, request.seed))
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


def _lot(candidate: _Candidate, seed: int) -> str:
    return hashlib.sha256(f"{seed}/{candidate.sha256}".encode()).hexdigest()


def _draw(accepted: Sequence[_Candidate], class_: str, num: int, request: BenchmarkRequest) -> list[_Drawn]:
    """Return the first pictures of the class; each seed has an order of its own."""
    chosen = [candidate for candidate in accepted if candidate.class_ == class_][:num]
    is_public = class_ not in PRIVATE_CLASSES
    name = NAMES.get(class_, class_)
    return [
        _Drawn(f"{name}_{place_}", candidate, f"{BATCH}{(place_ - 1) // request.per_class + 1}" if is_public else None)
        for place_, candidate in enumerate(chosen, 1)
    ]


def _labels(drawn: Sequence[_Drawn]) -> pa.Table:
    columns: dict[str, Sequence[object]] = {
        "sha256": [each.candidate.sha256 for each in drawn],
        "annotator": ["benchmark"] * len(drawn),
        "split": [each.batch for each in drawn],
        "class": [NAMES.get(each.candidate.class_, each.candidate.class_) for each in drawn],
        "private": [int(each.candidate.class_ in PRIVATE_CLASSES) for each in drawn],
    }
    return to_labels(columns, len(drawn))


def _pictures(drawn: Sequence[_Drawn]) -> pa.Table:
    """Return the table of pictures that is given away."""
    labels = _labels(drawn)
    columns = {"name": pa.array([each.name for each in drawn]), "url": pa.array([each.candidate.url for each in drawn])}
    columns |= {"class": labels["class"], "private": labels["private"], "batch": labels["split"]}
    return pa.table(columns | {"sha256": labels["sha256"]})


_SHEET = Template("""\
# Datasheet

Made by privsieve $version. What only you know is in [square brackets]: fill it in before you give the benchmark away.

## Motivation

To measure how well a model tells private from public pictures, by class. [Who made it, and who paid for it.]

## Composition

$composition

Each picture is a URL, a name, a class, and whether it is private; no picture is part of this folder. The labels are
those of a majority of people. `batch` divides the public pictures into parts of $per_class, each as large as a private
class. The pictures show people who have not been asked. [Ages, places and groups that are missing.]

| class | accepted candidates | drawn |
|---|---|---|
$counts

## Collection

Candidates were found by words in the captions of [data set and its version], fetched on [date], and accepted or refused
by [number of people, and how they were chosen] by the rules below. Of near duplicates one picture was kept.
[Ethics board, consent, data protection impact assessment: say so if there was none.]

| class | what it must show | GDPR |
|---|---|---|
$rules

## Preprocessing

None: `sha256` is that of the file as it was fetched.

## Uses

Evaluation of models that find private content, and research on them. Not for surveillance, for identifying people, or
for training a model that does. [Other uses that you rule out.]

## Distribution

URLs, labels and batches only. [Licence: the authors of PrivBench chose CC BY-NC 4.0.] [By request or in the open, with
which duties: purpose, credit, no passing on, deletion.]

## Maintenance

URLs vanish; a picture whose `sha256` differs is another one. [Who answers requests to remove a picture, and how.]

## Other

This is no legal advice, and no promise that the set is free of bias or in line with the GDPR.
""")


def _datasheet(wanted: Mapping[str, int], num_accepted: Mapping[str, int], request: BenchmarkRequest) -> str:
    num_private = sum(num for name, num in wanted.items() if name in PRIVATE_CLASSES)
    composition = f"{num_private} private pictures of {len(PRIVATE_CLASSES)} classes and {wanted[PUBLIC]} public ones."
    if request.hard:
        composition += f" {wanted[HARD]} more public ones are hard: they resemble a private class."
    return _SHEET.substitute(
        version=__version__,
        composition=composition,
        per_class=request.per_class,
        counts="\n".join(f"| {NAMES.get(n, n)} | {num_accepted[n]} | {num} |" for n, num in wanted.items()),
        rules="\n".join(f"| {NAMES.get(n, n)} | {rule} | {law} |" for n, (rule, law) in PRIVATE_CLASSES.items()),
    )


def run_build_balanced(request: BalancedRequest) -> tuple[int, int]:
    """Return the numbers of private and of public pictures. LabelsError if there are too few public ones."""
    refuse_existing(request.out)
    labels = read_labels(request.labels)
    PictureIndex(request.labels).add_labels(labels)  # refuses several labels of a picture
    private = private_of_labels(labels["private"].cast(pa.float32()).to_numpy(), attribute_values(labels))
    is_private, public = np.flatnonzero(private == 1), np.flatnonzero(private == 0)
    if not len(is_private) or len(public) < len(is_private):
        raise LabelsError(
            f"{request.labels}: has {len(is_private):,} private and {len(public):,} public pictures; the draw takes "
            "all private ones and as many public ones"
        )
    drawn = np.random.default_rng(request.seed).choice(public, len(is_private), replace=False)
    chosen = labels.take(pa.array(np.sort(np.concatenate([is_private, drawn]))))
    write_labels(chosen, request.out, LabelsOrigin("build balanced", None, chosen.num_rows, {}, ()))
    return len(is_private), len(drawn)
