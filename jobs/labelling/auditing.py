"""`audit sample` draws pictures into an empty labels file; `audit apply` corrects the rates of a run by labels."""

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ingest.errors import LabelsError, PrivsieveError, RunError
from ingest.storage.place import Place, place
from jobs.console.requests import HashListUrl, Option, RunUrl, Seed, Url, Urls, checked_request, refuse_existing
from jobs.labelling.labels import neutral_names, refuse_as_output
from jobs.reporting.reporting import category_sizes
from jobs.runtime.hash_list import HashList, hash_list_of
from jobs.runtime.pictures import clear_of
from jobs.runtime.progress import SILENT, Feedback
from reports.audit.compute import audit_of_sample
from reports.audit.drawing import Expected, draw, drawn_alike
from reports.audit.results import Audit, as_table
from reports.report.opened import OpenRun
from reports.run.design import SourceSizes, design_of
from reports.run.warehouse import Run, open_warehouse
from scoring.labels.label_files import LABELS_SCHEMA, as_csv
from scoring.labels.label_studio import LOCAL_FILES, Asked, interface, tasks
from scoring.labels.reviews import is_reviews
from scoring.labels.table import JudgedLabels, checked, read_judged, to_labels
from scoring.runs import AUDIT_LEASE, REVIEWS
from scoring.runs.audit_files import (
    AuditSample,
    LabelGaps,
    Purpose,
    State,
    has_sample,
    keep_as_earlier,
    read_sample,
    write_corrected_rates,
    write_sample,
)
from scoring.runs.lease import Lease, lease
from scoring.runs.rows import num_of_images
from scoring.taxonomy import KEYS


@checked_request
class AuditSampleRequest:
    run: RunUrl
    """Folder or fsspec URL of the run."""

    out: Url
    """Labels file to fill in: .csv, or .json for Label Studio."""

    n: Annotated[int, Field(ge=1, le=100_000)] = 400
    """Pictures to draw; how many are drawn varies around this number by chance."""

    purpose: Annotated[Purpose, Option("--for")] = "both"
    """Which rates are to have the shortest intervals. All of them can be estimated in any case."""

    seed: Seed = 0
    """Draws the same pictures again; a larger number of them holds a smaller one."""

    private: Annotated[str | None, Option(metavar="CONDITION")] = None
    """SQL condition: what counts as private; default what the protocol of RUN asks."""

    category_sizes: Annotated[Url | None, Option(metavar="FILE")] = None
    """CSV with the columns category and images, of the source of a run of --sample --per-category: more labels where
    the source is large. `audit apply` uses it, too."""

    also: Annotated[Urls, Option(metavar="RUN")] = ()
    """Another run of the same corpus, repeatable: the labels correct its rates, too."""

    replace: bool = False
    """Draw anew although RUN has another sample, which is kept aside."""

    hash_list: HashListUrl = None
    """File of hashes (sha256 or PDQ, one a line); a picture on it is counted and not in the labels file."""


@checked_request
class AuditApplyRequest:
    run: RunUrl
    """Folder or fsspec URL of the run."""

    labels: Annotated[Urls, Option(argument="LABELS")]
    """Files that were filled in, or RUN/reviews; each can be of other people."""

    category_sizes: Annotated[Url | None, Option(metavar="FILE")] = None
    """CSV with the columns category and images: for the rates of the source of a run of --sample --per-category."""

    def __post_init__(self) -> None:
        if not self.labels:
            raise PrivsieveError("name at least one file of labels")


@dataclass(frozen=True)
class AuditSampleResult:
    sample: AuditSample
    num_pictures: int
    """Rows of the labels file; copies of a picture are one."""

    interface: str | None
    """The file with the labelling interface of Label Studio."""

    cautions: tuple[str, ...]
    """Why figures of the run are not those of the whole source."""

    num_quarantined: int
    """Images of the run without a score, which cannot be drawn."""

    num_screened: int
    """Images that a screen left out, which cannot be drawn either."""

    expected: Expected
    kept_as: str | None
    """Path of a copy of another sample that the run had; None if it had none."""

    left_out: str | None = None
    """How many drawn pictures the hash list keeps out of the labels file, in words; None if none."""

    num_for_second_look: int = 0
    """Rows of the labels file that a second person is asked for, too: its first ones."""

    second_list: str | None = None
    """The labels file of the second person; None for tasks of Label Studio, of which several people have the same."""

    num_in_others: Mapping[str, int] = field(default_factory=dict)
    """Run of `also` -> drawn pictures that it has scored, too."""


def run_audit_sample(request: AuditSampleRequest, feedback: Feedback = SILENT) -> AuditSampleResult:
    """Draw the sample and write the labels file. Raise errors in one line, before anything is written."""
    stem, extension = posixpath.splitext(request.out)
    if extension not in (".csv", ".json"):
        raise LabelsError(f"--out {request.out}: give a name that ends in .csv, or in .json for Label Studio")
    refuse_as_output(request.out, (request.run, *request.also))
    hash_list = hash_list_of(request.hash_list)
    run = open_warehouse(request.run)
    refuse_existing(request.out, f"{stem}.second.csv" if extension == ".csv" else f"{stem}.xml")
    with OpenRun(run) as opened, lease(run.root.at(AUDIT_LEASE), request.run, takeover=None) as own_lease:
        return _sampled(request, run, opened, hash_list, own_lease, feedback)


def _sampled(
    request: AuditSampleRequest, run: Run, opened: OpenRun, hash_list: HashList, own_lease: Lease, feedback: Feedback
) -> AuditSampleResult:
    """Draw the sample, as `run_audit_sample` does, in the one process that samples this run now."""
    earlier = _earlier(run.root, request.replace)
    sizes = _sizes(request.category_sizes, run, opened)
    sample, expected = draw(run, request.n, request.purpose, request.seed, request.private, sizes)
    is_same = earlier is not None and _is_same(earlier, sample)
    if earlier is not None and not is_same and not request.replace:
        raise RunError(
            f"{request.run} has an audit sample already ({earlier.table.num_rows} pictures, seed "
            f"{earlier.design.seed}), drawn in another way or of other rows; --replace draws a new one"
        )
    if not sample.table.num_rows:
        raise RunError(f"no picture was drawn, since so few were asked for; raise --n {request.n}")
    of_others = [(other, _alike(request, sample, run, other)) for other in map(open_warehouse, request.also)]
    pictures = _pictures(sample.table)
    is_clear, left_out = clear_of(opened, pictures, hash_list, "drawn picture", feedback)
    shown = pictures.filter(pa.array(is_clear, pa.bool_()))
    labels = _template(shown)
    for_second = labels.filter(pa.array(AuditSample(shown, sample.design).is_for_second_look, pa.bool_()))
    num_quarantined = sum(num_of_images(run.checked.reasons).values())
    stem, extension = posixpath.splitext(request.out)
    second_list = f"{stem}.second.csv" if extension == ".csv" else None
    interface_url = None if extension == ".csv" else f"{stem}.xml"
    if interface_url is None:
        columns = ["key", "sha256", "private", *KEYS]
        files = {request.out: as_csv(labels.select(columns))}
        if second_list is not None and for_second.num_rows:
            files[second_list] = as_csv(for_second.select(columns))
    else:
        folder = place(f"{stem}-pictures")
        names = neutral_names(run.record, shown, folder, feedback)
        asked: Asked | None = None if request.purpose == "both" else request.purpose
        prefix = f"{LOCAL_FILES}{quote(folder.name)}/"
        files = {interface_url: interface(asked), request.out: tasks(labels, names, prefix)}
    own_lease.confirm()
    # First, since its path can be wrong: the run keeps its sample until then.
    for url, content in files.items():
        place(url).write(content)
    kept_as = keep_as_earlier(run.root).path if has_sample(run.root) and not is_same else None
    if earlier is None or earlier.design != sample.design:
        write_sample(run.root, sample)
    for other, alike in of_others:
        with lease(other.root.at(AUDIT_LEASE), other.url, takeover=None):
            before = _earlier(other.root, is_replaced=True)
            if has_sample(other.root) and (before is None or not _is_same(before, alike)):
                keep_as_earlier(other.root)
            write_sample(other.root, alike)
    return AuditSampleResult(
        sample,
        labels.num_rows,
        interface_url,
        opened.cautions,
        num_quarantined,
        run.num_images() - sample.design.num_scored - num_quarantined,
        expected,
        kept_as,
        left_out,
        for_second.num_rows,
        second_list if for_second.num_rows else None,
        {other.url: alike.table.num_rows for other, alike in of_others},
    )


def _sizes(url: str | None, run: Run, opened: OpenRun) -> Mapping[str, int] | None:
    """Read the sizes of categories, if there are any. Raise errors if they say nothing of the source of this run."""
    if url is None:
        return None
    if not run.record.per_category:
        raise PrivsieveError("--category-sizes is for a run of scan --sample N --per-category; leave it out")
    if not opened.coverage.is_complete:
        raise PrivsieveError("--category-sizes: the run is not finished, or its source cannot be listed; scan on")
    return category_sizes(url)


def _alike(request: AuditSampleRequest, sample: AuditSample, run: Run, other: Run) -> AuditSample:
    """Return the sample as one of another run. RunError if that has another sample, or other images."""
    alike, earlier = drawn_alike(sample, run, other, request.private), _earlier(other.root, request.replace)
    if earlier is not None and not _is_same(earlier, alike) and not request.replace:
        raise RunError(f"{other.url} has another audit sample already; --replace keeps that aside")
    return alike


def _is_same(earlier: AuditSample, sample: AuditSample) -> bool:
    before, now = (item.design.model_dump(exclude={"privsieve"}) for item in (earlier, sample))
    return before == now and earlier.table.equals(sample.table)


def _earlier(root: Place, is_replaced: bool) -> AuditSample | None:
    """Read the sample of the run; None if there is none. RunError if it is damaged and not to be replaced."""
    try:
        return read_sample(root) if has_sample(root) else None
    except RunError:
        if not is_replaced:
            raise
        return None


def _pictures(drawn: pa.Table) -> pa.Table:
    """Return the first row of each picture, in the order of the sample."""
    hashes = drawn["sha256"].to_pylist()
    first = sorted({sha256: place for place, sha256 in reversed(list(enumerate(hashes)))}.values())
    return drawn.take(pa.array(np.array(first, dtype=np.int64)))


def _template(rows: pa.Table) -> pa.Table:
    """Return a labels table of these rows without any answer, not even the run's: people are to decide alone."""
    keys, names = rows["key"].to_pylist(), rows["name"].to_pylist()
    columns = {
        "sha256": rows["sha256"].to_pylist(),
        "key": [key if name is None else name for key, name in zip(keys, names, strict=True)],
        "annotator": ["labels"] * rows.num_rows,
    }
    return to_labels(columns, rows.num_rows)


def run_audit_apply(request: AuditApplyRequest) -> Audit:
    """Correct the rates of the images that the run is a sample of, and store them in the run.

    Raise errors in one line; the run then keeps the rates of an earlier audit.
    """
    run = open_warehouse(request.run)
    for url in request.labels:
        if place(url).is_same(run.root.at(REVIEWS)) and not is_reviews(place(url)):
            raise LabelsError(
                f"{url}: there are no answers yet; give some with privsieve review {request.run} --queue audit"
            )
    labels = _read(request.labels)
    with OpenRun(run) as opened:
        sizes = _sizes(request.category_sizes, run, opened)
        sample = read_sample(run.root)
        sizes = sizes or sample.design.category_sizes or None
        kind = design_of(run.record, opened.coverage, SourceSizes()).kind
        audit = audit_of_sample(run, sample, labels, kind, sizes, opened.cautions)
    counts, looks = audit.labels, audit.subjects[0].second_looks
    state = State(
        settings=run.record.settings_hash(),
        num_rows=run.checked.num_rows,
        rows_sha256=run.checked.rows_sha256,
        private=audit.private,
        date=datetime.now(UTC).date().isoformat(),
        gaps=LabelGaps(
            num_drawn=counts.num_drawn,
            num_without_label=counts.num_empty + counts.num_without_row,
            num_undecided={rates.subject: rates.num_undecided for rates in audit.subjects if rates.num_undecided},
            num_judged_twice=looks.num_pictures,
            share_differing=looks.share_differing,
            kappa=looks.kappa,
            allows_for_errors=bool(looks.reach_high),
        ),
        category_sizes=sizes or {},
    )
    write_corrected_rates(run.root, as_table(audit), state)
    return audit


def _read(urls: Sequence[str]) -> JudgedLabels:
    """Read the labels of all files together. LabelsError if a person is in two of them with the same picture."""
    every = [read_judged(url) for url in urls]
    if len(every) == 1:
        return every[0]
    tables = [_with_annotator(judged.labels, url) for judged, url in zip(every, urls, strict=True)]
    parts = zip(*((judged.is_unclear, judged.is_complete, judged.is_skipped) for judged in every), strict=True)
    return JudgedLabels(checked(pa.concat_tables(tables), "the labels together"), *map(np.concatenate, parts))


def _with_annotator(labels: pa.Table, url: str) -> pa.Table:
    """Name the annotator after the file if it names none: such a file is taken for one person."""
    stem = pa.scalar(posixpath.splitext(posixpath.basename(url.rstrip("/")))[0])
    names = labels["annotator"]
    index = LABELS_SCHEMA.names.index("annotator")
    named = pc.if_else(pc.equal(names, "labels"), stem, names)
    return labels.set_column(index, LABELS_SCHEMA.field(index), named)
