"""What `report` is asked for."""

from typing import Annotated

from ingest.errors import PrivsieveError
from jobs.console.requests import Count, HashListUrl, Option, PagePath, RunUrl, Url, checked_request


@checked_request
class ReportRequest:
    run: RunUrl
    """Folder or fsspec URL of the run."""

    by: Annotated[str, Option(if_blank="leave it out for category")] = "category"
    """Column or SQL expression that groups the images."""

    private: Annotated[str | None, Option(metavar="CONDITION", if_blank="leave it out for the usual meaning")] = None
    """SQL condition: what counts as private. By default "level IN (1, 2)"; for runs of the protocol binary
    "private_answer = 1", of severity "holistic_score >= 0.514"."""

    top: Count = 15
    """How many of the highest and of the lowest groups to show."""

    source_size: Count | None = None
    """Images of the whole source, for a run of --sample."""

    category_sizes: Annotated[Url | None, Option(metavar="FILE")] = None
    """CSV with the columns category and images: for the overall rate of a run of --sample --per-category."""

    html: PagePath | None = None
    """Write one self-contained page as well, to this file."""

    hash_list: HashListUrl = None
    """File of hashes (sha256 or PDQ, one a line); a picture on it is not named."""

    digest_endpoint: Annotated[Url | None, Option(metavar="URL")] = None
    """With --html: an OpenAI-compatible server that puts the counts of evidence into words."""

    digest_model: Annotated[str | None, Option(metavar="NAME")] = None
    """The model to ask there."""

    digest_sample: Annotated[Count | None, Option(metavar="K")] = None
    """Give it the kinds of evidence of K random private images of each group, together, in place of counts of kinds."""

    timeout: Annotated[Count, Option(metavar="SECONDS")] = 3600
    """Stop the report after this many seconds; it is also stopped at 60 % of the free memory."""

    def __post_init__(self) -> None:
        if self.digest_endpoint and self.html is None:
            raise PrivsieveError("--digest-endpoint is for a page; give --html FILE as well")
        if bool(self.digest_endpoint) != bool(self.digest_model):
            raise PrivsieveError("--digest-endpoint and --digest-model go together")
        if self.digest_sample and not self.digest_endpoint:
            raise PrivsieveError("--digest-sample is for --digest-endpoint; give both, or leave it out")
