"""privsieve from Python: scan a corpus, ask a run, check it by labels, write a release.

    import privsieve

    privsieve.scan("shards/", "my-run")
    with privsieve.open_run("my-run") as run:
        for rate in run.rates(by="category"):
            print(rate.group, rate.privacy_rate, rate.num_scored)
    privsieve.filter("my-run", "strict", "release/")

These functions do what the commands of the same names do, print nothing and return what they found; notebooks show
results as pages. Errors are those of `ingest.errors`, all of them `PrivsieveError`; their text is the line that a
command would print. May import: all rooms. Imported by: no room. Start at: `scan`; `checks.py` has what people check,
`recognition.py` whether changed pictures still show what they did, `tuning.py` the tuning of a model.
"""

import os
from collections.abc import Sequence

from jobs import hidden_room

if _hidden := hidden_room():
    raise ImportError(_hidden)


from ingest import __version__
from ingest.errors import (
    EngineError,
    IncompleteError,
    LabelsError,
    PolicyError,
    PrivsieveError,
    QueryError,
    RunError,
    SourceError,
    StorageError,
)
from ingest.images.pixels import ImageLimits
from jobs.console.requests import asked
from jobs.planning.planning import Figure, PlanRequest, PlanResult, run_plan
from jobs.releases.applying_removals import ApplyRemovalsRequest, run_apply_removals
from jobs.releases.checking import Verified, VerifyRequest, run_verify
from jobs.releases.filtering import FilterRequest, FilterResources, FilterResult, run_filter
from jobs.releases.looking_up import LookupRequest, LookupResult, run_lookup
from jobs.releases.taking_down import RemovalResult, TakedownRequest, run_takedown
from jobs.reporting.reporting import run_report
from jobs.reporting.request import ReportRequest
from jobs.runtime.cluster import Executor
from jobs.runtime.weights import CachedWeights, FetchedWeights, cached_weights
from jobs.runtime.weights import fetch_weights as run_fetch_weights
from jobs.scanning.purging import PurgeRequest, PurgeResult, run_purge
from jobs.scanning.request import IncompleteScanError, ScanRequest, ScanResources, ScanResult, Supervision
from jobs.scanning.run import run_scan
from privsieve.asking import Url, takes, text
from privsieve.checks import (
    Review,
    agreement,
    audit_apply,
    audit_sample,
    consensus,
    diff,
    evaluate,
    explain,
    export_labels,
    import_labels,
    review,
    screen_evaluate,
    screen_fit,
)
from privsieve.notebook import show_results_as_pages
from privsieve.recognition import similarity
from privsieve.tuning import tune, tune_set
from reports.audit.results import Audit
from reports.diff.results import RunDifference
from reports.evaluation.results import Evaluation
from reports.report import opened
from reports.report.explaining import Explanation
from reports.report.opened import OpenRun
from reports.report.results import Report
from reports.run.figures import Rate
from reports.similarity.results import Similarity
from scoring.assessment import EngineOptions
from scoring.engines import DEFAULT

__all__ = [
    "Audit",
    "CachedWeights",
    "EngineError",
    "EngineOptions",
    "Evaluation",
    "Explanation",
    "FetchedWeights",
    "Figure",
    "FilterResult",
    "IncompleteError",
    "IncompleteScanError",
    "LabelsError",
    "OpenRun",
    "PlanResult",
    "PolicyError",
    "PrivsieveError",
    "QueryError",
    "Rate",
    "Report",
    "Review",
    "RunDifference",
    "RunError",
    "ScanResult",
    "Similarity",
    "SourceError",
    "StorageError",
    "__version__",
    "agreement",
    "apply_removals",
    "audit_apply",
    "audit_sample",
    "cached_weights",
    "consensus",
    "diff",
    "evaluate",
    "explain",
    "export_labels",
    "fetch_weights",
    "filter",
    "import_labels",
    "lookup",
    "open_run",
    "plan",
    "purge",
    "report",
    "review",
    "scan",
    "screen_evaluate",
    "screen_fit",
    "similarity",
    "takedown",
    "tune",
    "tune_set",
    "verify",
]


def __dir__() -> list[str]:
    """Return what tab completion offers."""
    return __all__


show_results_as_pages()


@takes(ScanRequest, ScanResources, Supervision)
def scan(
    source: Url,
    run: Url,
    *,
    engine: str = DEFAULT,
    options: EngineOptions | None = None,
    source_format: str | None = None,
    category: str | None = None,
    image_column: Sequence[str] = (),
    labels: Url | None = None,
    caption_words: Url | None = None,
    sample: int | None = None,
    shards: int | None = None,
    per_category: bool = False,
    seed: int | None = None,
    limit: int | None = None,
    max_pixels_in: int = ImageLimits.max_pixels,
    max_frames: int = ImageLimits.max_frames,
    hash_list: Url | None = None,
    pdq: bool = False,
    screen: Url | None = None,
    executor: Executor | None = None,
    ray_address: str | None = None,
    num_engines: int | None = None,
    max_engines: int | None = None,
    engine_cpus: float | None = None,
    engine_gpus: float | None = None,
    processes: int | None = None,
    stall_seconds: float = 600,
    image_memory_mb: int | None = None,
    takeover: bool = False,
) -> ScanResult:
    """Score every image of `source` into `run`; continue where a scan into this run was interrupted.

    IncompleteScanError, with `.result`, where images are left without a row; SourceError, EngineError, RunError,
    StorageError before a row is written.
    """
    given = locals()
    return run_scan(asked(ScanRequest, given), asked(ScanResources, given), asked(Supervision, given))


def open_run(run: Url) -> OpenRun:
    """Open a run to ask it for rows, rates and SQL; use it in a `with` block. RunError if there is none."""
    return opened.open_run(text("run", run))


@takes(ReportRequest)
def report(
    run: Url,
    *,
    html: str | os.PathLike[str] | None = None,
    by: str = "category",
    by_label: str | None = None,
    private: str | None = None,
    min_count: int = 1,
    top: int = ReportRequest.top,
    copies: bool = False,
    source_size: int | None = None,
    category_sizes: Url | None = None,
    title: str | None = None,
    no_images: bool = False,
    gallery: int | None = None,
    is_blurred: bool = True,
    hash_list: Url | None = None,
    digest_endpoint: Url | None = None,
    digest_model: str | None = None,
    digest_sample: int | None = None,
    timeout: int = ReportRequest.timeout,
) -> Report:
    """Return everything that `privsieve report` says of a run.

    RunError, StorageError, QueryError, LabelsError; with a gallery SourceError, with a digest EngineError.
    """
    return run_report(asked(ReportRequest, locals())).report


@takes(FilterRequest, FilterResources)
def filter(
    run: Url,
    policy: Url,
    out: Url,
    *,
    labels: Url | None = None,
    resume: bool = False,
    urls: Url | None = None,
    hash_list: Url | None = None,
    previous: Url | None = None,
    boxes: Url | None = None,
    processes: int | None = None,
    executor: Executor | None = None,
    ray_address: str | None = None,
) -> FilterResult:
    """Write the corpus of a run again, in its own layout, without what a policy drops.

    IncompleteError where the source changed since the scan, or a copy failed (continue with resume=True); PolicyError,
    RunError, SourceError, StorageError before anything is written.
    """
    given = locals()
    return run_filter(asked(FilterRequest, given), asked(FilterResources, given))


@takes(ScanRequest, ScanResources, PlanRequest)
def plan(
    source: Url,
    run: Url,
    *,
    engine: str = DEFAULT,
    options: EngineOptions | None = None,
    source_format: str | None = None,
    category: str | None = None,
    image_column: Sequence[str] = (),
    labels: Url | None = None,
    caption_words: Url | None = None,
    sample: int | None = None,
    shards: int | None = None,
    per_category: bool = False,
    seed: int | None = None,
    limit: int | None = None,
    max_pixels_in: int = ImageLimits.max_pixels,
    max_frames: int = ImageLimits.max_frames,
    hash_list: Url | None = None,
    pdq: bool = False,
    screen: Url | None = None,
    executor: Executor | None = None,
    ray_address: str | None = None,
    num_engines: int | None = None,
    max_engines: int | None = None,
    engine_cpus: float | None = None,
    engine_gpus: float | None = None,
    processes: int | None = None,
    price_per_hour: float | None = None,
) -> PlanResult:
    """Scan `source` into `run` for half a minute, and estimate hours, cost and storage of all of it.

    `scan` continues the run. The scan is ended as Ctrl-C does, so call this in the main thread. Errors as of `scan`.
    """
    given = locals()
    return run_plan(asked(ScanRequest, given), asked(ScanResources, given), asked(PlanRequest, given))


def fetch_weights(weights: Url) -> FetchedWeights:
    """Fetch a model or an adapter to this machine, whole and checked, where a scan finds it.

    weights: a name of the hub (`owner/name@revision`), an fsspec URL, or a folder. EngineError, StorageError.
    """
    return run_fetch_weights(text("weights", weights))


@takes(VerifyRequest)
def verify(release: Url) -> Verified:
    """Check that a release still is what `filter` wrote: what is wrong is in `faults`, a line each.

    StorageError or PrivsieveError if there is no release that could be verified.
    """
    return run_verify(asked(VerifyRequest, locals()))


@takes(LookupRequest)
def lookup(release: Url, wanted: str, *, exact: bool = False) -> LookupResult:
    """Look for a picture or a URL in a release, or in a copy of its shards: where it is, is in `matches`.

    PrivsieveError, StorageError if there is no such picture or release.
    """
    return run_lookup(asked(LookupRequest, locals()))


@takes(TakedownRequest)
def takedown(release: Url, listed: Url, *, dry_run: bool = False) -> RemovalResult:
    """Remove pictures from a release, as `privsieve release takedown`; lines that name no picture are in `unknown`.

    PrivsieveError if the list or the release does not allow it; IncompleteError if the release has changed.
    """
    return run_takedown(asked(TakedownRequest, locals()))


@takes(ApplyRemovalsRequest)
def apply_removals(copy: Url, listed: Url, *, dry_run: bool = False) -> RemovalResult:
    """Remove from an older copy of a release's shards what the release has removed, as `privsieve release apply`.

    PrivsieveError if the list or the copy does not allow it.
    """
    return run_apply_removals(asked(ApplyRemovalsRequest, locals()))


@takes(PurgeRequest)
def purge(run: Url, *, yes: bool = False) -> PurgeResult:
    """Delete what a run knows of single pictures and keep its figures; without `yes` only say what would be deleted.

    A study of people is purged in the same way. RunError if there is neither, or if a command works on the run.
    """
    return run_purge(asked(PurgeRequest, locals()))
