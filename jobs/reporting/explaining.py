"""The verb `explain`: one image in words, and what policies do with it and why."""

from typing import Annotated

from jobs.console.requests import HashListUrl, Option, RunUrl, Urls, checked_request
from jobs.runtime.hash_list import hash_list_of
from jobs.runtime.pictures import refuse_listed
from reports.report.explaining import Explanation, explanation, row_named
from reports.report.opened import open_run
from scoring.policies.policy_file import SHIPPED, load_policy, policy_bytes
from scoring.sql.limits import NO_LIMITS, Limits


@checked_request
class ExplainRequest:
    run: RunUrl
    """Folder or fsspec URL of the run."""

    key: Annotated[str, Option(argument="KEY")]
    """Key of the image, SHARD/KEY, SHARD#INDEX or its sha256."""

    policies: Annotated[Urls, Option("--policy")] = SHIPPED
    """Policies to apply, a file or a shipped one; may be repeated. [default: all that are shipped]"""

    hash_list: HashListUrl = None
    """File of hashes (sha256 or PDQ, one a line); a picture on it is not explained."""


def run_explain(request: ExplainRequest, limits: Limits = NO_LIMITS) -> Explanation:
    """Explain one image of a run. QueryError where no image, or several, have that key."""
    loaded = [load_policy(policy_bytes(name), name) for name in request.policies]
    listed = hash_list_of(request.hash_list)
    with open_run(request.run, limits) as opened:
        row = row_named(opened, request.key)
        refuse_listed(opened, row, listed)
        return explanation(opened, row, loaded)
