"""What `audit sample` and `audit apply` are asked for."""

from typing import Annotated

from pydantic import Field

from ingest.errors import PrivsieveError
from ingest.storage.place import place
from jobs.console.requests import HashListUrl, Option, RunUrl, Seed, Url, Urls, checked_request
from scoring.runs.audit_files import Purpose

MAX_LABELS = 100_000


@checked_request
class AuditSampleRequest:
    run: RunUrl
    """Folder or fsspec URL of the run."""

    out: Url
    """Labels file to fill in: .csv, or .json for Label Studio."""

    n: Annotated[int, Field(ge=1, le=MAX_LABELS)] = 400
    """Pictures to draw; how many are drawn varies around this number by chance."""

    purpose: Annotated[Purpose, Option("--for")] = "both"
    """Which rates are to have the shortest intervals. All of them can be estimated in any case."""

    seed: Seed = 0
    """Draws the same pictures again; a larger number of them holds a smaller one."""

    private: Annotated[str | None, Option(metavar="CONDITION")] = None
    """SQL condition: what counts as private; default what the protocol of RUN asks."""

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

    sensitivity_from: Annotated[Url | None, Option(metavar="RUN2")] = None
    """LABELS are of RUN2, another corpus scanned with the same engine (Rogan-Gladen)."""

    private: Annotated[str | None, Option(metavar="CONDITION")] = None
    """With --sensitivity-from: what counts as private."""

    category_sizes: Annotated[Url | None, Option(metavar="FILE")] = None
    """CSV with the columns category and images: for the rates of the source of a run of --sample --per-category."""

    def __post_init__(self) -> None:
        if not self.labels:
            raise PrivsieveError("name at least one file of labels")
        if self.category_sizes is not None and self.sensitivity_from is not None:
            raise PrivsieveError("--category-sizes weights labels of the run itself; leave out --sensitivity-from")
        if self.private is not None and self.sensitivity_from is None:
            raise PrivsieveError("--private is chosen with audit sample; here it goes with --sensitivity-from only")
        if self.sensitivity_from is not None and place(self.sensitivity_from).is_same(place(self.run)):
            raise PrivsieveError(f"--sensitivity-from {self.sensitivity_from} is the audited run; give another one")
