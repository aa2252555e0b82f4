"""The functions of `privsieve` that do what commands do; their parameters are the fields of the commands' requests."""

from jobs.labelling.auditing import AuditApplyRequest, AuditSampleRequest, run_audit_apply, run_audit_sample
from jobs.labelling.labels import (
    AgreementRequest,
    ConsensusRequest,
    ExportRequest,
    ImportRequest,
    run_agreement,
    run_consensus,
    run_export,
    run_import,
)
from jobs.planning.planning import PlanRequest, run_plan
from jobs.releases.applying_removals import ApplyRemovalsRequest, run_apply_removals
from jobs.releases.checking import VerifyRequest, run_verify
from jobs.releases.filtering import FilterRequest, FilterResources, run_filter
from jobs.releases.looking_up import LookupRequest, run_lookup
from jobs.releases.taking_down import TakedownRequest, run_takedown
from jobs.reporting.comparing import DiffRequest, run_diff
from jobs.reporting.evaluating import EvaluateRequest, run_evaluate
from jobs.reporting.explaining import ExplainRequest, run_explain
from jobs.reporting.reporting import run_report
from jobs.reporting.request import ReportRequest
from jobs.scanning.purging import PurgeRequest, run_purge
from jobs.scanning.request import ScanRequest, ScanResources, Supervision
from jobs.scanning.run import run_scan
from jobs.screening.fitting import run_screen_fit
from jobs.screening.request import FitRequest
from jobs.serving.review.reviewing import ReviewRequest
from jobs.similarity.request import CompareRequest
from jobs.similarity.run import run_compare
from jobs.tuning.training_set import TuneSetRequest, run_tune_set
from jobs.tuning.tuning import TuneRequest, run_tune
from privsieve.asking import command
from privsieve.reviewing import reviewing

agreement = command("agreement", run_agreement, AgreementRequest)
apply_removals = command("apply_removals", run_apply_removals, ApplyRemovalsRequest)
audit_apply = command("audit_apply", run_audit_apply, AuditApplyRequest)
audit_sample = command("audit_sample", run_audit_sample, AuditSampleRequest)
consensus = command("consensus", run_consensus, ConsensusRequest)
diff = command("diff", run_diff, DiffRequest)
evaluate = command("evaluate", run_evaluate, EvaluateRequest)
explain = command("explain", run_explain, ExplainRequest)
export_labels = command("export_labels", run_export, ExportRequest)
filter = command("filter", run_filter, FilterRequest, FilterResources)
import_labels = command("import_labels", run_import, ImportRequest)
lookup = command("lookup", run_lookup, LookupRequest)
plan = command("plan", run_plan, ScanRequest, ScanResources, PlanRequest)
purge = command("purge", run_purge, PurgeRequest)
report = command("report", run_report, ReportRequest)
review = command("review", reviewing, ReviewRequest)
scan = command("scan", run_scan, ScanRequest, ScanResources, Supervision)
screen_fit = command("screen_fit", run_screen_fit, FitRequest)
similarity = command("similarity", run_compare, CompareRequest)
takedown = command("takedown", run_takedown, TakedownRequest)
tune = command("tune", run_tune, TuneRequest)
tune_set = command("tune_set", run_tune_set, TuneSetRequest)
verify = command("verify", run_verify, VerifyRequest)
