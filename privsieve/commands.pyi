"""Written by `python -m tests.privsieve.types`."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from jobs.labelling.auditing import AuditSampleResult
from jobs.labelling.labels import ExportResult
from jobs.planning.planning import PlanResult
from jobs.releases.checking import Verified
from jobs.releases.filtering import FilterResult
from jobs.releases.looking_up import LookupResult
from jobs.releases.taking_down import RemovalResult
from jobs.scanning.purging import PurgeResult
from jobs.scanning.request import ScanResult
from jobs.screening.fitting import FitResult
from privsieve.asking import Url
from privsieve.reviewing import Review
from reports.audit.results import Audit
from reports.diff.results import RunDifference
from reports.evaluation.results import Evaluation
from reports.labels.agreement import AgreementTable
from reports.report.explaining import Explanation
from reports.report.results import Report
from reports.similarity.results import Similarity
from scoring.assessment import EngineOptions
from scoring.engines.vlm.adapter import Card
from scoring.labels.consensus import Consensus
from scoring.labels.importing import Imported
from scoring.tuning.training_set import SetRecord
from typing import Literal

def agreement(
    *inputs: Url,
    paper_rule: bool = ...,
) -> AgreementTable: ...
def apply_removals(
    copy: Url,
    listed: Url,
    *,
    dry_run: bool = ...,
) -> RemovalResult: ...
def audit_apply(
    run: Url,
    *labels: Url,
    category_sizes: Url | None = ...,
) -> Audit: ...
def audit_sample(
    run: Url,
    out: Url,
    *,
    n: int = ...,
    purpose: Literal["both", "private", "attributes"] = ...,
    seed: int = ...,
    private: str | None = ...,
    category_sizes: Url | None = ...,
    also: Sequence[Url] = ...,
    replace: bool = ...,
    hash_list: Url | None = ...,
) -> AuditSampleResult: ...
def consensus(
    *inputs: Url,
    out: Url,
    method: Literal["two-annotator", "majority"] | None = ...,
    paper_rule: bool = ...,
) -> Consensus: ...
def diff(
    run_a: Url,
    run_b: Url,
    *,
    by: str = ...,
    html: Url | None = ...,
    hash_list: Url | None = ...,
) -> RunDifference: ...
def evaluate(
    run: Url,
    labels: Url,
    *,
    compare: Url | None = ...,
    groups: Url | None = ...,
    html: Url | None = ...,
) -> Evaluation: ...
def explain(
    run: Url,
    key: str,
    *,
    policies: Sequence[Url] = ...,
    hash_list: Url | None = ...,
) -> Explanation: ...
def export_labels(
    source: Url,
    out: Url,
    format: Literal["label-studio", "csv"],
    *,
    judged: Literal["private", "classes", "votes", "attributes"] | None = ...,
    image_prefix: str | None = ...,
    hash_list: Url | None = ...,
) -> ExportResult: ...
def filter(
    run: Url,
    policy: Url,
    out: Url,
    *,
    resume: bool = ...,
    labels: Url | None = ...,
    urls: Url | None = ...,
    hash_list: Url | None = ...,
    previous: Url | None = ...,
    boxes: Url | None = ...,
    processes: int | None = ...,
    executor: Literal["ray", "inline"] | None = ...,
    ray_address: str | None = ...,
) -> FilterResult: ...
def import_labels(
    name: str,
    root: Url,
    out: Url,
    *,
    split: Literal["train", "validation", "test"] | None = ...,
    annotator: str | None = ...,
    mapping: Url | None = ...,
) -> Imported: ...
def lookup(
    release: Url,
    wanted: Url,
    *,
    exact: bool = ...,
) -> LookupResult: ...
def plan(
    source: Url,
    run: Url,
    *,
    options: EngineOptions | None = ...,
    source_format: str | None = ...,
    category: str | None = ...,
    image_column: Sequence[str] = ...,
    labels: Url | None = ...,
    caption_words: Url | None = ...,
    sample: int | None = ...,
    shards: int | None = ...,
    per_category: bool = ...,
    seed: int | None = ...,
    limit: int | None = ...,
    hash_list: Url | None = ...,
    screen: Url | None = ...,
    pdq: bool = ...,
    max_pixels_in: int = ...,
    max_frames: int = ...,
    engine: str = ...,
    num_engines: int | None = ...,
    engine_cpus: float | None = ...,
    engine_gpus: float | None = ...,
    processes: int | None = ...,
    executor: Literal["ray", "inline"] | None = ...,
    ray_address: str | None = ...,
    price_per_hour: float | None = ...,
) -> PlanResult: ...
def purge(
    run: Url,
    *,
    yes: bool = ...,
) -> PurgeResult: ...
def report(
    run: Url,
    *,
    by: str = ...,
    private: str | None = ...,
    top: int = ...,
    source_size: int | None = ...,
    category_sizes: Url | None = ...,
    html: Url | None = ...,
    hash_list: Url | None = ...,
    digest_endpoint: Url | None = ...,
    digest_model: str | None = ...,
    digest_sample: int | None = ...,
    timeout: int = ...,
) -> Report: ...
def review(
    run: Url,
    *,
    queue: str | None = ...,
    judged: Literal["private", "classes", "votes", "attributes", "question"] = ...,
    question: str | None = ...,
    reviewer: str | None = ...,
    num_pictures: int | None = ...,
    gold: Url | None = ...,
    gold_share: float = ...,
    assign: Url | None = ...,
    per_person: int | None = ...,
    hash_list: Url | None = ...,
    blind: bool = ...,
    again: bool = ...,
    seed: int = ...,
    port: int = ...,
) -> AbstractContextManager[Review]: ...
def scan(
    source: Url,
    run: Url,
    *,
    options: EngineOptions | None = ...,
    source_format: str | None = ...,
    category: str | None = ...,
    image_column: Sequence[str] = ...,
    labels: Url | None = ...,
    caption_words: Url | None = ...,
    sample: int | None = ...,
    shards: int | None = ...,
    per_category: bool = ...,
    seed: int | None = ...,
    limit: int | None = ...,
    hash_list: Url | None = ...,
    screen: Url | None = ...,
    pdq: bool = ...,
    max_pixels_in: int = ...,
    max_frames: int = ...,
    engine: str = ...,
    num_engines: int | None = ...,
    engine_cpus: float | None = ...,
    engine_gpus: float | None = ...,
    processes: int | None = ...,
    executor: Literal["ray", "inline"] | None = ...,
    ray_address: str | None = ...,
    stall_seconds: float = ...,
    image_memory_mb: int | None = ...,
    takeover: bool = ...,
) -> ScanResult: ...
def screen_fit(
    source: Url,
    labels: Url,
    out: Url,
    *,
    run: Url | None = ...,
    drawn: Literal["audit", "evenly"] | None = ...,
    source_format: str | None = ...,
    hash_list: Url | None = ...,
    target_miss: float = ...,
    confidence: float = ...,
    target_miss_level_1: float | None = ...,
    modality: Sequence[Url] = ...,
    encoder: Url | None = ...,
    guard: float = ...,
    seed: int = ...,
) -> FitResult: ...
def similarity(
    originals: Url,
    *changed: Url,
    sample: int | None = ...,
    seed: int = ...,
    part: Literal["areas", "whole"] = ...,
    encoder: Url | None = ...,
    hash_list: Url | None = ...,
    out: Url | None = ...,
) -> Similarity: ...
def takedown(
    release: Url,
    listed: Url,
    *,
    dry_run: bool = ...,
) -> RemovalResult: ...
def tune(
    training_set: Url,
    model: Url,
    out: Url,
    recipe: Url,
    *,
    max_pixels: int = ...,
    seed: int = ...,
    micro_batch_size: int = ...,
) -> Card: ...
def tune_set(
    source: Url,
    labels: Url,
    out: Url,
    target: Literal["slots", "severity", "binary", "dialogue"],
    *,
    protocol: str | None = ...,
    prompt_file: bytes | None = ...,
    dialogues: Url | None = ...,
    source_format: str | None = ...,
    split: str | None = ...,
    num_pictures: int | None = ...,
    validation_share: float = ...,
    seed: int = ...,
    exclude: Sequence[Url] = ...,
    hash_list: Url | None = ...,
) -> SetRecord: ...
def verify(
    release: Url,
) -> Verified: ...
