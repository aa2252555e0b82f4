"""What the commands of `labels` do, and what they read: a labels file, the answers of a review, or rows of a run."""

import posixpath
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field
from simplejpeg import encode_jpeg

from ingest.errors import LabelsError
from ingest.storage.place import Place, place
from jobs.console.requests import HashListUrl, Option, Url, Urls, checked_request, refuse_existing
from jobs.runtime.hash_list import NOTHING, Clearance, HashList, hash_list_of
from jobs.runtime.pictures import COLUMNS as COMPARED
from jobs.runtime.pictures import READS_AGAIN, PictureRef, clearances, first_frames, left_out_note, reads_pictures
from jobs.runtime.progress import SILENT, Feedback
from reports.labels.agreement import AgreementTable, agreement_table
from reports.labels.describing import LabelDescription, description
from reports.report.opened import open_run
from scoring.labels.consensus import Consensus, Method, consensus
from scoring.labels.importers import importer_of
from scoring.labels.importing import Imported, import_labels, load_mapping
from scoring.labels.judgements import judgements
from scoring.labels.label_files import as_csv
from scoring.labels.label_studio import LOCAL_FILES, Asked, interface, tasks
from scoring.labels.reviews import caution_of_chosen, is_reviews
from scoring.labels.table import read_labels, to_labels, write_labels
from scoring.privacy import ROW_COLUMNS, private_of_rows
from scoring.runs.record import RunRecord
from scoring.table import LISTED, Col
from scoring.taxonomy import KEYS

COLUMNS = tuple(dict.fromkeys([*ROW_COLUMNS, Col.SHARD, Col.KEY, Col.SHA256, Col.SCORE, Col.NUM_ASSESSED, Col.REASON]))


def labels_of(url: str) -> pa.Table:
    """Return rows of `LABELS_SCHEMA`; the annotator of a run is the name of its folder.

    A run has one row per picture here, also if the corpus holds a picture several times. Quarantined images are rows of
    null; those on the hash list of the scan have no row. RunError or LabelsError in one line.
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
    # The formula takes what was not assessed as absent, which a label must not do.
    columns["score"] = [
        holistic if holistic is not None or num.as_py() != len(KEYS) else formula for holistic, formula, num in whole
    ]
    columns["annotator"] = [where.name] * rows.num_rows
    return to_labels(columns, rows.num_rows)


def tables_of(urls: Sequence[str]) -> list[tuple[str, pa.Table]]:
    """Return each URL with its `labels_of`. LabelsError if one is given twice: it would agree with itself."""
    num_given = Counter(str(place(url).path) for url in urls)
    for url in urls:
        if num_given[place(url).path] > 1:
            raise LabelsError(f"{url} is given twice; give each input once")
    return [(url, labels_of(url)) for url in urls]


def _one_per_picture(rows: pa.Table) -> pa.Table:
    """Return the first row of each sha256. An image without bytes gets SHARD/KEY as key if others have its key."""
    shards, keys, hashes = (rows[name].to_pylist() for name in (Col.SHARD, Col.KEY, Col.SHA256))
    seen: set[object] = set()
    kept, names = [], []
    holders = Counter(keys)
    for number, (shard, key, sha256) in enumerate(zip(shards, keys, hashes, strict=True)):
        if (picture := sha256 or (shard, key)) in seen:
            continue
        seen.add(picture)
        kept.append(number)
        names.append(f"{shard}/{key}" if not sha256 and holders[key] > 1 else key)
    place_of_key = rows.column_names.index("key")
    return rows.take(pa.array(kept, pa.int64())).set_column(place_of_key, "key", pa.array(names, pa.string()))


Split = Literal["train", "validation", "test"]
Inputs = Annotated[Urls, Option(argument="LABELS_OR_RUN...")]


@checked_request
class ImportRequest:
    name: Annotated[str, Option(argument="NAME")]
    """Name of the importer, such as vispr or csv."""

    root: Annotated[Url, Option(argument="ROOT")]
    """Folder of the data set, or its one file."""

    out: Url
    """Labels file to write: .parquet, or .csv."""

    split: Split | None = None
    """Only this split; data sets without splits get it as their split."""

    annotator: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Who gave the labels; default the name of the data set."""

    mapping: Annotated[Url | None, Option(metavar="FILE")] = None
    """Mapping onto attributes instead of the importer's own: a shipped name or a YAML file."""


def run_import(request: ImportRequest, feedback: Feedback = SILENT) -> Imported:
    """Import labels; nothing is written if anything is wrong. LabelsError in one line; StorageError if `out` fails."""
    refuse_existing(request.out)
    importer = importer_of(request.name)
    name = request.mapping or importer.mapping
    mapping = load_mapping(name) if name else None
    root = place(request.root)
    if not root.exists():
        raise LabelsError(f"{request.root} does not exist; give the folder of the data set, or its file")
    with feedback.meter("labels", None) as meter:

        def advance(_: int, num_all: int) -> None:
            meter.expect(num_all)
            meter.advance(1)

        return import_labels(
            request.name,
            importer,
            root,
            mapping,
            request.out,
            split=request.split,
            annotator=request.annotator,
            advance=advance,
        )


@checked_request
class ConsensusRequest:
    inputs: Inputs
    """Labels files and runs."""

    out: Url
    """Labels file to write: .parquet, or .csv."""

    method: Method | None = None
    """Default two-annotator if there are two, else majority."""

    paper_rule: bool = False
    """An attribute without a majority, as where two annotators differ, is 0."""


def run_consensus(request: ConsensusRequest) -> Consensus:
    """Write the consensus of several annotators. Nothing is written if anything is wrong."""
    refuse_as_output(request.out, request.inputs)
    refuse_existing(request.out)
    joined = consensus(judgements(tables_of(request.inputs)), request.method, paper_rule=request.paper_rule)
    cautions = tuple(filter(None, (caution_of_chosen(place(url)) for url in request.inputs)))
    origin = replace(joined.origin, notes=(*joined.origin.notes, *cautions))  # evaluate shows them
    write_labels(joined.labels, request.out, origin)
    return replace(joined, origin=origin)


def refuse_as_output(out: str, inputs: tuple[str, ...]) -> None:
    """Raise LabelsError if the output is one of the inputs, or inside a run."""
    for url in inputs:
        if place(out).is_within(place(url)):
            raise LabelsError(f"--out {out} is an input, or inside one; write to another file")


@checked_request
class AgreementRequest:
    inputs: Inputs
    """Labels files and runs."""

    paper_rule: bool = False
    """An unclear attribute (0.5) is absent, as in the agreement of CPRT."""


def run_agreement(request: AgreementRequest) -> AgreementTable:
    """Return how far annotators agree. LabelsError or RunError in one line."""
    judged = judgements(tables_of(request.inputs))
    if request.paper_rule:
        judged = replace(judged, values=np.where(judged.values == 0.5, 0, judged.values))
    return agreement_table(judged)


@checked_request
class DescribeRequest:
    file: Annotated[Url, Option(argument="FILE")]
    """A labels file, RUN/reviews, or a run."""


def run_describe(request: DescribeRequest) -> LabelDescription:
    """Return what labels say, in counts. LabelsError or RunError in one line."""
    return description(judgements(tables_of((request.file,))))


@checked_request
class ExportRequest:
    source: Annotated[Url, Option(argument="LABELS_OR_RUN")]
    """A labels file or a run."""

    out: Url
    """File to write; .json for label-studio."""

    format: Literal["label-studio", "csv"]
    """A run for Label Studio, or a table."""

    judged: Annotated[Asked | None, Option("--for")] = None
    """label-studio: what people are asked, each with its own definition: private by the levels of the taxonomy, the
    classes of PrivBench, the votes of PrivacyAlert, or attributes. [default: private and attributes]"""

    image_prefix: str | None = None
    """label-studio: before the name of a picture in a task. [default: the folder of the copies, in Label Studio's local
    storage]"""

    hash_list: HashListUrl = None
    """File of hashes (sha256 or PDQ, one a line); a picture on it is left out."""

    def __post_init__(self) -> None:
        for name, given in (("--image-prefix", self.image_prefix), ("--for", self.judged)):
            if given is not None and self.format != "label-studio":
                raise LabelsError(f"{name} is for --format label-studio; leave it out")


@dataclass(frozen=True)
class ExportResult:
    labels: pa.Table
    interface: str | None
    """The file with the labelling interface; None for CSV."""

    left_out: str | None = None
    """How many pictures the hash list left out, in words; None if none."""


MAX_SIDE_PX, QUALITY = 1600, 85
"""Of copies for Label Studio."""


def run_export(request: ExportRequest, feedback: Feedback = SILENT) -> ExportResult:
    """Write labels for people to correct. LabelsError or RunError in one line; nothing is written then."""
    refuse_as_output(request.out, (request.source,))
    stem, extension = posixpath.splitext(request.out)
    if request.format == "label-studio" and extension != ".json":
        raise LabelsError(f"--out {request.out}: Label Studio takes tasks from a file that ends in .json")
    is_run = place(request.source).is_dir() and not is_reviews(place(request.source))
    if request.format == "label-studio" and not is_run:
        raise LabelsError(
            f"{request.source}: Label Studio's tasks are made of a run, whose pictures are copied; give one"
        )
    refuse_existing(request.out, *([f"{stem}.xml"] if request.format == "label-studio" else []))
    hash_list = hash_list_of(request.hash_list)
    labels = labels_of(request.source)
    clearances_ = _clearances(request.source, labels, hash_list, feedback)
    labels = labels.filter(pa.array([item == "clear" for item in clearances_], pa.bool_()))
    left_out = left_out_note(clearances_, "picture")
    if request.format == "csv":
        place(request.out).write(as_csv(labels))
        return ExportResult(labels, None, left_out)
    with open_run(request.source) as run:
        folder = place(f"{stem}-pictures")
        rows = run.rows((Col.SHARD, Col.INDEX, Col.SHA256, Col.KEY))
        rows = rows.filter(pc.is_in(rows[Col.SHA256], labels["sha256"].combine_chunks()))
        names = neutral_names(run.record, rows, folder, feedback)
    prefix = f"{LOCAL_FILES}{quote(folder.name)}/" if request.image_prefix is None else request.image_prefix
    labels = labels.filter(pc.is_in(labels["sha256"], pa.array(names, pa.string())))
    place(f"{stem}.xml").write(interface(request.judged))
    place(request.out).write(tasks(labels, names, prefix))
    return ExportResult(labels, f"{stem}.xml", left_out)


def _clearances(source: str, labels: pa.Table, hash_list: HashList, feedback: Feedback) -> list[Clearance]:
    hashes = labels["sha256"].to_pylist()
    if hash_list is NOTHING:
        return ["clear"] * len(hashes)
    if place(source).is_dir() and not is_reviews(place(source)):
        with open_run(source) as run:
            if reads_pictures(run.record, hash_list):
                feedback.notice(READS_AGAIN)
            rows = run.rows((*COMPARED, Col.PDQ))
            by_hash = dict(zip(rows[Col.SHA256].to_pylist(), clearances(run, rows, hash_list), strict=True))
        return [by_hash[sha256] for sha256 in hashes]
    if hash_list.needs_pdq:
        raise LabelsError(
            f"{source} holds no pictures, with which the PDQ hashes of --hash-list could be compared; export from the "
            "run, or write sha256 before each hash that is not one of PDQ"
        )
    return ["gone" if hash_ is None else "listed" if hash_ in hash_list.sha256 else "clear" for hash_ in hashes]


def neutral_names(record: RunRecord, rows: pa.Table, folder: Place, feedback: Feedback) -> dict[str, str]:
    """Copy the pictures of rows of a run into a folder, and return sha256 -> name there.

    The name of a picture can be its label, or lie in a tar; a copy is named by its hash. Pictures that the source does
    not hold any more have none, and a notice counts them. SourceError, StorageError.
    """
    columns = (rows[name].to_pylist() for name in (Col.SHARD, Col.INDEX, Col.SHA256, Col.KEY))
    refs = {ref.sha256: ref for row in zip(*columns, strict=True) if (ref := PictureRef(*row)).sha256 is not None}
    names = dict[str, str]()
    for sha256, pixels in zip(refs, first_frames(record, [*refs.values()], MAX_SIDE_PX, feedback), strict=True):
        if pixels is not None:
            names[sha256] = f"{sha256}.jpg"
            folder.at(names[sha256]).write(encode_jpeg(pixels, quality=QUALITY, colorspace="RGB"))
    return names
