"""What people check: labels, audits, comparisons, single images, the review. `privsieve` offers these functions."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from jobs.audit.applying import AuditApplyRequest, run_audit_apply
from jobs.audit.sampling import AuditSampleRequest, AuditSampleResult, run_audit_sample
from jobs.diff.run import DiffRequest, run_diff
from jobs.evaluate.errors import pictures_of
from jobs.evaluate.run import EvaluateRequest, run_evaluate
from jobs.labels.comparing import AgreementRequest, run_agreement
from jobs.labels.exporting import ExportRequest, ExportResult, run_export
from jobs.labels.importing import ImportRequest, run_import
from jobs.labels.joining import ConsensusRequest, run_consensus
from jobs.report.explaining import ExplainRequest, run_explain
from jobs.review.request import ReviewRequest
from jobs.review.run import ReviewResult, Serving, in_background, result_of
from jobs.runtime.feedback import SILENT
from jobs.runtime.requests import refused_in_one_line
from privsieve.urls import Url, text, text_or_none
from reports.agreement import AgreementTable
from reports.audit.results import Audit
from reports.comparing_runs.page import render as comparison_page
from reports.comparing_runs.results import RunDifference
from reports.evaluation.page import render as evaluation_page
from reports.evaluation.results import Evaluation
from reports.explaining import Explanation
from scoring.labels.consensus import Consensus
from scoring.labels.importing import Imported
from scoring.policies.shipped import SHIPPED
from scoring.runs.audit_sample import Purpose


def evaluate(
    run: Url,
    labels: Url,
    *,
    split: str | None = None,
    compare: Url | None = None,
    runs: Sequence[Url] = (),
    by: Literal["class", "category"] | None = None,
    threshold: float | None = None,
    ambiguous: Literal["absent", "present"] = "absent",
    num_draws: int = 1000,
    errors: int = 0,
    hash_list: Url | None = None,
    html: Url | None = None,
    seed: int = 0,
) -> Evaluation:
    """How good the answers of a run are, judged by labels; everything that `privsieve evaluate` says.

    labels: Parquet or CSV file, one row per picture. split: only labels of this split. compare: a second run on the
    same pictures. runs: further ones, for mean and deviation. by: also per class of the labels, or category. threshold:
    a picture is private from this prob_private on, 0–1. ambiguous: what an attribute's 0.5 counts as. num_draws: of
    the bootstrap, 0 for no intervals. errors: wrong answers to name, the surest first; html, a file of this machine,
    shows their pictures. hash_list: file of hashes of pictures that are not among them.

    LabelsError if the labels are wrong or of no picture of the run; RunError, StorageError, SourceError.
    """
    with refused_in_one_line():
        request = EvaluateRequest(
            run_url=text("run", run),
            labels_url=text("labels", labels),
            split=split,
            compare_url=text_or_none("compare", compare),
            further_urls=tuple(text("runs", one) for one in runs),
            by=by,
            threshold=threshold,
            ambiguous=ambiguous,
            num_draws=num_draws,
            num_errors=errors,
            hash_list_url=text_or_none("hash_list", hash_list),
            seed=seed,
        )
    found = run_evaluate(request)
    if html is not None:
        pictures = pictures_of(request.run_url, found.errors, SILENT)
        evaluation_page.write_page(found, Path(text("html", html)).expanduser(), pictures)
    return found


def diff(
    run_a: Url, run_b: Url, *, by: str = "category", hash_list: Url | None = None, html: Url | None = None
) -> RunDifference:
    """Two runs compared on the pictures that both hold; everything that `privsieve diff` says.

    by: column or SQL expression that groups the pictures. hash_list: file of hashes of pictures that are not named.
    html: file of this machine to write the page to. RunError, StorageError, QueryError.
    """
    with refused_in_one_line():
        request = DiffRequest(text("run_a", run_a), text("run_b", run_b), by, text_or_none("hash_list", hash_list))
    found = run_diff(request)
    if html is not None:
        comparison_page.write_page(found, Path(text("html", html)).expanduser())
    return found


def explain(
    run: Url, key: str, *, shard: str | None = None, policies: Sequence[Url] = SHIPPED, hash_list: Url | None = None
) -> Explanation:
    """What a run knows of one image, and what policies do with it and why.

    key: of the image, or SHARD/KEY, SHARD#INDEX, or its sha256. policies: files, or names of shipped ones. hash_list:
    file of hashes of pictures that are not explained. QueryError where no image, or several, have that key.
    """
    with refused_in_one_line():
        request = ExplainRequest(
            text("run", run),
            key,
            shard,
            tuple(text("policies", one) for one in policies),
            text_or_none("hash_list", hash_list),
        )
    return run_explain(request)[0]


def audit_sample(
    run: Url,
    out: Url,
    *,
    n: int = 400,
    purpose: Purpose = "both",
    seed: int = 0,
    private: str | None = None,
    replace: bool = False,
    hash_list: Url | None = None,
) -> AuditSampleResult:
    """Draw pictures of a run for people to label, into a labels file to fill in (.csv, or .json for Label Studio).

    n: expected number of pictures. purpose: which rates are to have the shortest intervals. private: SQL condition of
    what counts as private. replace: draw anew although the run has a sample. hash_list: file of hashes of pictures that
    nobody may see. LabelsError, RunError, StorageError.
    """
    with refused_in_one_line():
        request = AuditSampleRequest(
            text("run", run), text("out", out), n, purpose, seed, private, replace, text_or_none("hash_list", hash_list)
        )
    return run_audit_sample(request)


def audit_apply(
    run: Url,
    *labels: Url,
    sensitivity_from: Url | None = None,
    private: str | None = None,
    category_sizes: Url | None = None,
) -> Audit:
    """The rates of a run corrected by labels of the pictures that `audit_sample` drew; they are stored in the run.

    labels: files that were filled in, or RUN/reviews. sensitivity_from: another run of the same engine, of whose
    pictures the labels are. category_sizes: CSV file with the images of each category in the source. LabelsError,
    RunError, StorageError.
    """
    with refused_in_one_line():
        request = AuditApplyRequest(
            text("run", run),
            tuple(text("labels", one) for one in labels),
            text_or_none("sensitivity_from", sensitivity_from),
            private,
            text_or_none("category_sizes", category_sizes),
        )
    return run_audit_apply(request)


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
    """A labels file of a data set, as `privsieve labels import`. name: of the importer, such as "vispr" or "csv".

    LabelsError in one line; nothing is written then.
    """
    with refused_in_one_line():
        mapped = text_or_none("mapping", mapping)
        request = ImportRequest(name, text("root", root), text("out", out), split, annotator, mapped, ignore_columns)
    return run_import(request)


def consensus(
    *inputs: Url,
    out: Url,
    method: Literal["two-annotator", "dawid-skene"] | None = None,
    paper_rule: bool = False,
    min_posterior: float | None = None,
) -> Consensus:
    """One label per picture of what several annotators say, as `privsieve labels consensus`.

    inputs: labels files and runs. LabelsError, RunError; nothing is written then.
    """
    with refused_in_one_line():
        urls = tuple(text("inputs", one) for one in inputs)
        request = ConsensusRequest(urls, text("out", out), method, paper_rule, min_posterior)
    return run_consensus(request)


def agreement(*inputs: Url, attention_checks: Url | None = None, min_attention: float | None = None) -> AgreementTable:
    """How far annotators agree, as `privsieve labels agreement`. inputs: labels files and runs.

    LabelsError, RunError.
    """
    with refused_in_one_line():
        urls = tuple(text("inputs", one) for one in inputs)
        request = AgreementRequest(urls, text_or_none("attention_checks", attention_checks), min_attention)
    return run_agreement(request)


def export_labels(
    source: Url,
    out: Url,
    *,
    format: Literal["label-studio", "csv"],
    image_prefix: str | None = None,
    hash_list: Url | None = None,
) -> ExportResult:
    """Labels or a run for people to work on, as `privsieve labels export`. LabelsError, RunError."""
    with refused_in_one_line():
        listed = text_or_none("hash_list", hash_list)
        request = ExportRequest(text("source", source), text("out", out), format, image_prefix, listed)
    return run_export(request)


class Review:
    """A page that people answer, while its `with` block lasts."""

    def __init__(self, serving: Serving):
        self._serving = serving

    @property
    def address(self) -> str:
        """To open in a browser of this machine. It holds a token: whoever has it can answer."""
        return self._serving.address

    def result(self) -> ReviewResult:
        """What everybody answered until now."""
        return result_of(self._serving.review)


@contextmanager
def review(
    run: Url,
    *,
    queue: str | None = None,
    judged: Literal["private", "attributes"] = "private",
    reviewer: str | None = None,
    num_pictures: int | None = None,
    gold: Url | None = None,
    hash_list: Url | None = None,
    again: bool = False,
    seed: int = 0,
    port: int = 0,
) -> Iterator[Review]:
    """Serve the review page of a run for the length of a `with` block.

    queue: "audit", "borderline", or a SQL condition. judged: what people say of a picture. reviewer: who looks; None:
    the page asks. gold: labels that are known to be right. again: ask what was answered before, too. PrivsieveError.

        with privsieve.review("my-run", reviewer="ana") as page:
            print(page.address)
            input("Enter ends the review")
        privsieve.audit_apply("my-run", "my-run/reviews")
    """
    with refused_in_one_line():
        request = ReviewRequest(
            run_url=text("run", run),
            queue=queue,
            judged=judged,
            reviewer=reviewer,
            num_pictures=num_pictures,
            gold_url=text_or_none("gold", gold),
            hash_list_url=text_or_none("hash_list", hash_list),
            again=again,
            seed=seed,
            port=port,
        )
    with in_background(request) as serving:
        yield Review(serving)
