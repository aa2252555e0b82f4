"""What `report` is asked for."""

from typing import Annotated

from pydantic import Field

from ingest.errors import PrivsieveError
from jobs.console.requests import Count, HashListUrl, Option, PagePath, RunUrl, Url, checked_request


@checked_request
class ReportRequest:
    run: RunUrl
    """Folder or fsspec URL of the run."""

    by: Annotated[str, Option(if_blank="leave it out for category")] = "category"
    """Column or SQL expression that groups the images."""

    by_label: Annotated[str | None, Option(metavar="TEXT")] = None
    """What a group is called in headings, such as scene."""

    private: Annotated[str | None, Option(metavar="CONDITION", if_blank="leave it out for the usual meaning")] = None
    """SQL condition: what counts as private. By default "level IN (1, 2)"; for runs of the protocol binary
    "private_answer = 1", of severity "holistic_score >= 0.514"."""

    min_count: Annotated[int, Field(ge=0)] = 1
    """Leave out groups with fewer scored images."""

    top: Count = 15
    """How many of the highest and of the lowest groups to show."""

    copies: bool = False
    """Also count pictures with the same perceptual hash once; takes memory."""

    source_size: Count | None = None
    """Images of the whole source, for a run of --sample."""

    category_sizes: Annotated[Url | None, Option(metavar="FILE")] = None
    """CSV with the columns category and images: for the overall rate of a run of --sample --per-category."""

    html: PagePath | None = None
    """Write one self-contained page as well, to this file."""

    title: Annotated[str | None, Option(metavar="TEXT")] = None
    """With --html: what the report is about. [default: name of the source]"""

    no_images: bool = False
    """Do not name the most severe images."""

    gallery: Annotated[Annotated[int, Field(ge=1, le=20)] | None, Option(metavar="N")] = None
    """With --html: show this many of the most severe images as small pictures, read from the source."""

    is_blurred: Annotated[bool, Option("--blur/--clear")] = True
    """How --gallery shows them."""

    hash_list: HashListUrl = None
    """File of hashes (sha256 or PDQ, one a line); a picture on it is neither named nor shown."""

    digest_endpoint: Annotated[Url | None, Option(metavar="URL")] = None
    """With --html: an OpenAI-compatible server that puts the counts of evidence into words."""

    digest_model: Annotated[str | None, Option(metavar="NAME")] = None
    """The model to ask there."""

    digest_sample: Annotated[Count | None, Option(metavar="K")] = None
    """Give it the kinds of evidence of K random private images of each group, together, in place of counts of kinds."""

    timeout: Annotated[Count, Option(metavar="SECONDS")] = 3600
    """Stop the report after this many seconds; it is also stopped at 60 % of the free memory."""

    def __post_init__(self) -> None:
        given = {"--title": self.title, "--gallery": self.gallery, "--digest-endpoint": self.digest_endpoint}
        for option, value in given.items():
            if value and self.html is None:
                raise PrivsieveError(f"{option} is for a page; give --html FILE as well")
        if self.gallery and self.no_images:
            raise PrivsieveError("--gallery shows images that --no-images leaves out; give one of them")
        if bool(self.digest_endpoint) != bool(self.digest_model):
            raise PrivsieveError("--digest-endpoint and --digest-model go together")
        if self.digest_sample and not self.digest_endpoint:
            raise PrivsieveError("--digest-sample is for --digest-endpoint; give both, or leave it out")
