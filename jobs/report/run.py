"""`report`: a run in figures and, if wanted, as a page."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import dataclasses

from ingest.errors import QueryError
from jobs.report.sizes import category_sizes
from jobs.runtime.feedback import SILENT, Feedback
from jobs.runtime.hash_list import NOTHING, hash_list_of
from jobs.runtime.requests import STRICT, Count, Name
from reports.opened import OpenRun, open_run
from reports.report.design import SourceSizes
from reports.report.results import Report
from reports.summary import Details
from scoring.sql.limits import NO_LIMITS, Limits
from scoring.taxonomy import KEYS

if TYPE_CHECKING:
    from reports.page.render import Extras


@dataclasses.dataclass(frozen=True, config=STRICT)
class PageRequest:
    """A page beside the figures. Its fields but the first are options of the same name."""

    path: Path
    num_pictures: int = 0
    is_clear: bool = False
    digest_endpoint: str | None = None
    digest_model: str | None = None

    title: str | None = None
    """Of the page; None for the name of the source."""


@dataclasses.dataclass(frozen=True, config=STRICT)
class ReportRequest:
    """What is asked of a run; fields without a docstring as of `OpenRun.summary`."""

    run: Name
    by: str = "category"
    private: str | None = None
    min_count: int = 1
    top: Count = 15

    by_label: str | None = None
    """What a group is called in headings."""

    names_images: bool = True
    finds_copies: bool = False
    num_in_source: Count | None = None

    category_sizes: Name | None = None
    """A CSV file."""

    hash_list: Name | None = None
    """File of hashes of pictures that are neither named nor shown."""

    page: PageRequest | None = None
    limits: Limits = field(default=NO_LIMITS)


@dataclass(frozen=True)
class ReportResult:
    report: Report
    pages: tuple[Path, ...]
    """Written ones."""


def run_report(request: ReportRequest, feedback: Feedback = SILENT) -> ReportResult:
    """Errors as of `OpenRun.summary`; StorageError or SourceError of the page. Nothing is written after an error."""
    if request.page is not None:
        from reports.page.render import check_path

        check_path(request.page.path)
    hash_list = hash_list_of(request.hash_list)
    sizes: Mapping[str, int] = category_sizes(request.category_sizes) if request.category_sizes else {}
    details = Details(
        request.by_label,
        names_images=request.names_images,
        finds_copies=request.finds_copies,
        sizes=SourceSizes(request.num_in_source, sizes),
    )
    with open_run(request.run, request.limits) as opened:
        found = opened.summary(request.by, request.private, request.min_count, request.top, details)
        _refuse_sizes(found, request)
        if hash_list is not NOTHING:
            from jobs.report.gallery import without_listed

            screened = without_listed(opened, found.severest, hash_list, feedback)
            found = replace(found, severest=screened.images, severest_note=screened.note)
        if request.page is None:
            return ReportResult(found, ())
        extras = _extras(opened, found, request.page, feedback)
    from reports.page.render import write_page

    write_page(found, request.page.path, extras)
    return ReportResult(found, (request.page.path,))


def _refuse_sizes(found: Report, request: ReportRequest) -> None:
    """A source smaller than what was scanned of it."""
    if request.num_in_source is not None and request.num_in_source < found.num_images:
        raise QueryError(
            f"--source-size {request.num_in_source:,}: the run has {found.num_images:,} images, and a source has no "
            "fewer; give the number of images of the whole source"
        )
    if not request.category_sizes:
        return
    if found.by != "category":
        raise QueryError("--category-sizes are of categories; leave out --by")
    audited = found.audited.category_sizes
    if audited and dict(audited) != dict(category_sizes(request.category_sizes)):
        raise QueryError(
            f"--category-sizes {request.category_sizes}: corrected rates of this run are weighted with other sizes; "
            "run audit apply --category-sizes with these first"
        )


def _extras(opened: OpenRun, found: Report, page: PageRequest, feedback: Feedback) -> "Extras":
    from jobs.report.digest import digest_of
    from jobs.report.gallery import pictures
    from reports.page.render import Extras

    shown = found.severest[: page.num_pictures]
    if page.num_pictures and not found.severest:
        feedback.notice("no image shows anything, so there is no picture for --gallery")
    digest = None
    if page.digest_endpoint is not None:
        known = {key: key.replace("_", " ") for key in KEYS}
        digest = digest_of(found.evidence, page.digest_endpoint, page.digest_model or "", known)
    return Extras(
        title=page.title,
        made_on=date.today(),
        pictures=pictures(opened, shown, page.is_clear, feedback) if shown else (),
        is_blurred=not page.is_clear,
        digest=digest,
    )
