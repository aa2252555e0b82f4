"""What `filter` is asked to do."""

from dataclasses import field
from typing import Annotated

from ingest.errors import PrivsieveError
from jobs.console.engine_options import HEADING, ChosenOptions
from jobs.console.request_options import Recall
from jobs.console.requests import HashListUrl, Option, RunUrl, Url, checked_request
from jobs.releases.guaranteeing import BY, GuaranteeRequest, Share
from jobs.releases.record import GroupsBy
from jobs.runtime.cluster import Executor, refuse_address
from reports.labels.joining import Drawn
from scoring.assessment import EngineOptions
from scoring.engines import ENGINES
from scoring.policies.policy_file import SHIPPED

INLINE_BYTES = 10**9
INLINE_IMAGES = 20_000
"""A release of at most this many bytes and images is copied in this process: Ray alone would take longer to start."""


@checked_request
class FilterRequest:
    run: RunUrl
    """Folder or fsspec URL of a finished run."""

    out: Url
    """Folder or fsspec URL of the release; a new one, unless --resume or --overwrite is given."""

    policy: Annotated[Url | None, Option(offers=SHIPPED)] = None
    """YAML file of rules, or one that is shipped: strict, identity-documents-only, research, redacted. Not needed with
    --guarantee."""

    resume: bool = False
    """Continue an interrupted filter into the same --out."""

    overwrite: bool = False
    """Replace an earlier release."""

    guarantee: Annotated[Share | None, Option(metavar="recall=SHARE", kind=Recall())] = None
    """Drop at least this share of the private pictures, too, such as recall=0.95; the labels prove it."""

    confidence: Share | None = None
    """Probability with which the guarantee holds. [default: 0.9]"""

    labels: Annotated[Url | None, Option(metavar="FILE")] = None
    """For --guarantee: labels of a random sample, or of the audit sample."""

    guarantee_by: Annotated[str | None, Option(metavar="COLUMN", fill=", else ".join(BY))] = None
    """Number that the guarantee has its threshold on: column or SQL expression. [default: {}]"""

    drawn: Drawn | None = None
    """How the labelled images were drawn. [default: audit if all are of the audit sample]"""

    accept_all: bool = False
    """With --guarantee: go on although every scored image is dropped."""

    groups: GroupsBy | None = None
    """Near duplicates by this hash get the strictest decision of their group."""

    urls: Annotated[Url | None, Option(metavar="METADATA")] = None
    """Release a list of URLs instead of pictures: the rows of this table (Parquet, CSV or TSV: a file, folder, glob or
    fsspec URL) whose picture the policy keeps or flags."""

    hash_list: HashListUrl = None
    """File of hashes (sha256 or PDQ, one a line); a picture on it is in no release, whatever the policy says."""

    previous: Annotated[Url | None, Option(metavar="RELEASE")] = None
    """The release before this one: what was taken down from it stays away, and changes.parquet lists what was added,
    removed and changed since."""

    boxes: Annotated[Url | None, Option(metavar="RUN/reviews")] = None
    """Answers of a review: where people have changed, removed or added boxes, these win over those of the engine and
    the detectors in what a policy covers."""

    verify_engine: Annotated[str | None, Option(offers=tuple(ENGINES), fill=", ".join(ENGINES)), HEADING] = None
    """Another engine that must find nothing in a covered picture, once the detectors find nothing: {}."""

    options: ChosenOptions = field(default_factory=EngineOptions)
    """Options of --verify-engine."""

    sign_key: Annotated[Url | None, Option(metavar="FILE")] = None
    """SSH key that signs SHA256SUMS, as ssh-keygen -Y sign does: a private key, or the public one of a key in
    ssh-agent."""

    def __post_init__(self) -> None:
        if (self.guarantee is None) != (self.labels is None):
            raise PrivsieveError("--guarantee and --labels go together: the labels prove the guarantee")
        if self.guarantee is None and (self.confidence or self.guarantee_by or self.drawn or self.accept_all):
            raise PrivsieveError(
                "--confidence, --guarantee-by, --drawn and --accept-all are of --guarantee; give it, or leave them out"
            )
        if self.policy is None and self.guarantee is None:
            raise PrivsieveError("give --policy, or --guarantee with --labels, or both")
        if self.resume and self.overwrite:
            raise PrivsieveError("--resume and --overwrite exclude each other: give one of them")

    @property
    def promise(self) -> GuaranteeRequest | None:
        """Return what the labels are to prove; None without a guarantee."""
        if self.guarantee is None or self.labels is None:
            return None
        confidence = self.confidence or GuaranteeRequest.confidence
        return GuaranteeRequest(self.labels, self.guarantee, confidence, self.guarantee_by, self.drawn)


@checked_request
class FilterResources:
    executor: Annotated[Executor | None, Option(fill=f"{INLINE_BYTES / 1e9:g} GB or {INLINE_IMAGES:,} images")] = None
    """Where the work runs; default ray where a cluster is named or the release is above {}, else inline."""

    ray_address: str | None = None
    """Ray cluster to use; default RAY_ADDRESS, else one of its own."""

    def __post_init__(self) -> None:
        refuse_address(self.executor, self.ray_address)
