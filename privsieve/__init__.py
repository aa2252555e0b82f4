"""privsieve from Python: scan a corpus, ask a run, check it by labels, write a release.

    import privsieve

    privsieve.scan("shards/", "my-run")
    with privsieve.open_run("my-run") as run:
        for rate in run.rates(by="category"):
            print(rate.group, rate.privacy_rate, rate.num_scored)
    privsieve.filter("my-run", "strict", "release/")

These functions do what the commands of the same names do, print nothing and return what they found; notebooks show
results as pages. Errors are those of `ingest.errors`, all of them `PrivsieveError`; their text is the line that a
command would print. May import: all rooms. Imported by: no room. Start at: `commands.py`.
"""

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
from jobs.planning.planning import PlanResult
from jobs.releases.filtering import FilterResult
from jobs.runtime.weights import CachedWeights, FetchedWeights, cached_weights
from jobs.runtime.weights import fetch_weights as run_fetch_weights
from jobs.scanning.request import IncompleteScanError, ScanResult
from privsieve.asking import Url, text
from privsieve.commands import (
    agreement,
    apply_removals,
    audit_apply,
    audit_sample,
    consensus,
    diff,
    evaluate,
    explain,
    export_labels,
    filter,
    import_labels,
    lookup,
    plan,
    purge,
    report,
    review,
    scan,
    screen_fit,
    similarity,
    takedown,
    tune,
    tune_set,
    verify,
)
from privsieve.notebook import show_results_as_pages
from privsieve.reviewing import Review
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

__all__ = [
    "Audit",
    "CachedWeights",
    "EngineError",
    "EngineOptions",
    "Evaluation",
    "Explanation",
    "FetchedWeights",
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


def open_run(run: Url) -> OpenRun:
    """Open a run to ask it for rows, rates and SQL; use it in a `with` block. RunError if there is none."""
    return opened.open_run(text("run", run))


def fetch_weights(weights: Url) -> FetchedWeights:
    """Fetch a model or an adapter to this machine, whole and checked, where a scan finds it.

    weights: a name of the hub (`owner/name@revision`), an fsspec URL, or a folder. EngineError, StorageError.
    """
    return run_fetch_weights(text("weights", weights))
