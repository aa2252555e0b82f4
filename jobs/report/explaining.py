"""`explain`: one image of a run, unless a hash list forbids to name it."""

from pydantic.dataclasses import dataclass as checked_dataclass

from jobs.runtime.feedback import SILENT, Feedback
from jobs.runtime.hash_list import hash_list_of
from jobs.runtime.listed import clear_rows, refuse_listed
from jobs.runtime.requests import STRICT, Name
from reports.explaining import Explanation, explanation, row_named
from reports.opened import open_run
from scoring.policies.policy import load_policy
from scoring.policies.shipped import SHIPPED, policy_bytes
from scoring.sql.limits import NO_LIMITS, Limits


@checked_dataclass(frozen=True, config=STRICT)
class ExplainRequest:
    run_url: Name
    """Folder or fsspec URL of the run."""

    key: str
    """Key of the image, SHARD/KEY, SHARD#INDEX or its sha256."""

    shard: str | None = None
    policies: tuple[Name, ...] = SHIPPED
    """Files, or names of shipped policies."""

    hash_list_url: Name | None = None
    """File of hashes of pictures that are not explained."""


def run_explain(
    request: ExplainRequest, feedback: Feedback = SILENT, limits: Limits = NO_LIMITS
) -> tuple[Explanation, tuple[str, ...]]:
    """The explanation, and the cautions of the run. QueryError where no image, or several, have that key."""
    loaded = [load_policy(policy_bytes(name), name) for name in request.policies]
    listed = hash_list_of(request.hash_list_url)
    may_name = clear_rows(listed, feedback)
    with open_run(request.run_url, limits) as opened:
        row = row_named(opened, request.key, request.shard, may_name)
        refuse_listed(opened, row, listed)
        return explanation(opened, row, loaded), tuple(opened.cautions)
