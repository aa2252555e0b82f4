"""What people check: labels, audits, comparisons, single images, the review. `privsieve` offers these functions."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from jobs.console.requests import asked
from jobs.labelling.auditing import (
    AuditApplyRequest,
    AuditSampleRequest,
    AuditSampleResult,
    run_audit_apply,
    run_audit_sample,
)
from jobs.labelling.labels import (
    AgreementRequest,
    ConsensusRequest,
    ExportRequest,
    ExportResult,
    ImportRequest,
    run_agreement,
    run_consensus,
    run_export,
    run_import,
)
from jobs.reporting.comparing import DiffRequest, run_diff
from jobs.reporting.evaluating import EvaluateRequest, run_evaluate
from jobs.reporting.explaining import ExplainRequest, run_explain
from jobs.screening.fitting import EvaluateScreenResult, FitResult, run_screen_evaluate, run_screen_fit
from jobs.screening.request import EvaluateScreenRequest, FitRequest
from jobs.serving.local_server import LocalServer
from jobs.serving.review.progress import ReviewPage
from jobs.serving.review.reviewing import ReviewRequest, ReviewResult, result_of, serving
from privsieve.asking import Url, takes
from reports.audit.results import Audit
from reports.diff.results import RunDifference
from reports.evaluation.results import Evaluation
from reports.labels.agreement import AgreementTable
from reports.labels.joining import Drawn
from reports.report.explaining import Explanation
from scoring.labels.consensus import Consensus
from scoring.labels.importing import Imported
from scoring.policies.policy_file import SHIPPED
from scoring.runs.audit_files import Purpose


@takes(EvaluateRequest)
def evaluate(
    run: Url, labels: Url, *, compare: Url | None = None, groups: Url | None = None, html: Url | None = None
) -> Evaluation:
    """Judge the answers of a run by labels and return everything that `privsieve evaluate` says.

    LabelsError if the labels are wrong or of no picture of the run; RunError, StorageError.
    """
    return run_evaluate(asked(EvaluateRequest, locals()))


@takes(DiffRequest)
def diff(
    run_a: Url, run_b: Url, *, by: str = "category", hash_list: Url | None = None, html: Url | None = None
) -> RunDifference:
    """Compare two runs on the pictures that both hold and return everything that `privsieve diff` says.

    RunError, StorageError, QueryError.
    """
    return run_diff(asked(DiffRequest, locals()))


@takes(FitRequest)
def screen_fit(
    source: Url,
    labels: Url,
    out: Url,
    *,
    run: Url | None = None,
    drawn: Drawn | None = None,
    source_format: str | None = None,
    target_miss: float = 0.01,
    confidence: float = 0.95,
    target_miss_level_1: float | None = None,
    modality: Sequence[str] = (),
    encoder: Url | None = None,
    guard: float = 0.01,
    hash_list: Url | None = None,
    seed: int = 0,
) -> FitResult:
    """Fit a cheap first stage for `scan(screen=…)` on labelled pictures, as `privsieve screen fit`.

    LabelsError with the number of labels that is missing; SourceError, EngineError, RunError, StorageError. Nothing is
    written then.
    """
    return run_screen_fit(asked(FitRequest, locals()))


@takes(EvaluateScreenRequest)
def screen_evaluate(
    screen: Url,
    source: Url,
    labels: Url,
    *,
    run: Url | None = None,
    drawn: Drawn | None = None,
    source_format: str | None = None,
    category: str | None = None,
    hash_list: Url | None = None,
) -> EvaluateScreenResult:
    """Judge a screen by labels of pictures that it has not learnt from, as `privsieve screen evaluate`.

    LabelsError, SourceError, EngineError, RunError, StorageError.
    """
    return run_screen_evaluate(asked(EvaluateScreenRequest, locals()))


@takes(ExplainRequest)
def explain(
    run: Url, key: str, *, shard: str | None = None, policies: Sequence[Url] = SHIPPED, hash_list: Url | None = None
) -> Explanation:
    """Return what a run knows of one image, and what policies do with it and why.

    QueryError where no image, or several, have that key.
    """
    return run_explain(asked(ExplainRequest, locals()))


@takes(AuditSampleRequest)
def audit_sample(
    run: Url,
    out: Url,
    *,
    n: int = 400,
    purpose: Purpose = "both",
    seed: int = 0,
    private: str | None = None,
    category_sizes: Url | None = None,
    also: Sequence[Url] = (),
    replace: bool = False,
    hash_list: Url | None = None,
) -> AuditSampleResult:
    """Draw pictures of a run for people to label, into a labels file to fill in (.csv, or .json for Label Studio).

    LabelsError, RunError, StorageError.
    """
    return run_audit_sample(asked(AuditSampleRequest, locals()))


@takes(AuditApplyRequest)
def audit_apply(
    run: Url,
    *labels: Url,
    category_sizes: Url | None = None,
) -> Audit:
    """Correct the rates of a run by labels of the pictures that `audit_sample` drew, and store them in the run.

    LabelsError, RunError, StorageError.
    """
    return run_audit_apply(asked(AuditApplyRequest, locals()))


@takes(ImportRequest)
def import_labels(
    name: str,
    root: Url,
    out: Url,
    *,
    split: Literal["train", "validation", "test"] | None = None,
    annotator: str | None = None,
    mapping: Url | None = None,
    ignore_columns: bool = False,
) -> Imported:
    """Import the labels of a data set into a labels file, as `privsieve labels import`.

    LabelsError in one line; nothing is written then.
    """
    return run_import(asked(ImportRequest, locals()))


@takes(ConsensusRequest)
def consensus(
    *inputs: Url,
    out: Url,
    method: Literal["two-annotator", "majority", "dawid-skene"] | None = None,
    paper_rule: bool = False,
    min_posterior: float | None = None,
) -> Consensus:
    """Reduce the labels of several annotators to one per picture, as `privsieve labels consensus`.

    LabelsError, RunError; nothing is written then.
    """
    return run_consensus(asked(ConsensusRequest, locals()))


@takes(AgreementRequest)
def agreement(
    *inputs: Url,
    attention_checks: Url | None = None,
    min_attention: float | None = None,
    paper_rule: bool = False,
) -> AgreementTable:
    """Return how far annotators agree, as `privsieve labels agreement`.

    LabelsError, RunError.
    """
    return run_agreement(asked(AgreementRequest, locals()))


@takes(ExportRequest)
def export_labels(
    source: Url,
    out: Url,
    *,
    format: Literal["label-studio", "csv"],
    judged: Literal["private", "classes", "votes", "attributes"] | None = None,
    image_prefix: str | None = None,
    hash_list: Url | None = None,
) -> ExportResult:
    """Export labels or a run for people to work on, as `privsieve labels export`. LabelsError, RunError."""
    return run_export(asked(ExportRequest, locals()))


class Review:
    """The page of a review, while its `with` block lasts."""

    def __init__(self, server: LocalServer[ReviewPage]):
        self._server = server

    @property
    def address(self) -> str:
        """Return the address to open in a browser of this machine. It holds a token, with which anyone can answer."""
        return self._server.address

    def result(self) -> ReviewResult:
        """Return what everybody has answered until now."""
        return result_of(self._server.page)


@takes(ReviewRequest)
@contextmanager
def review(
    run: Url,
    *,
    queue: str | None = None,
    judged: Literal["private", "classes", "votes", "attributes", "question"] = "private",
    question: str | None = None,
    reviewer: str | None = None,
    num_pictures: int | None = None,
    gold: Url | None = None,
    gold_share: float = ReviewRequest.gold_share,
    assign: Url | None = None,
    per_person: int | None = None,
    hash_list: Url | None = None,
    blind: bool = False,
    again: bool = False,
    seed: int = 0,
    port: int = 0,
) -> Iterator[Review]:
    """Serve the review page of a run for the length of a `with` block.

    PrivsieveError.

        with privsieve.review("my-run", reviewer="ana") as page:
            print(page.address)
            input("Enter ends the review")
        privsieve.audit_apply("my-run", "my-run/reviews")
    """
    with serving(asked(ReviewRequest, locals())) as server, server.in_background():
        yield Review(server)
