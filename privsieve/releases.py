"""What becomes of releases and of their run: check, search, take down, purge. `privsieve` offers these functions."""

from typing import Literal

from ingest.images.pdq import MAX_DISTANCE
from jobs.apply_removals import ApplyRemovalsRequest, RemovalsResult, run_apply_removals
from jobs.console.requests import asked
from jobs.lookup import LookupRequest, LookupResult, run_lookup
from jobs.purge import PurgeRequest, PurgeResult, run_purge
from jobs.takedown.run import TakedownRequest, TakedownResult, run_takedown
from jobs.verify import Verified, VerifyRequest, run_verify
from privsieve.asking import Url, takes


@takes(VerifyRequest)
def verify(release: Url, *, signer: Url | None = None) -> Verified:
    """Check that a release still is what `filter` wrote: what is wrong is in `faults`, a line each.

    StorageError or PrivsieveError if there is no release that could be verified.
    """
    return run_verify(asked(VerifyRequest, locals()))


@takes(LookupRequest)
def lookup(release: Url, wanted: str, *, pdq_distance: int = MAX_DISTANCE, exact: bool = False) -> LookupResult:
    """Look for a picture or a URL in a release, or in a copy of its shards: where it is, is in `matches`.

    PrivsieveError, StorageError if there is no such picture or release.
    """
    return run_lookup(asked(LookupRequest, locals()))


@takes(TakedownRequest)
def takedown(
    release: Url,
    listed: Url,
    *,
    pdq_distance: int = MAX_DISTANCE,
    received: str | None = None,
    why: Literal["objection", "erasure", "copyright", "safety", "other"] | None = None,
    sign_key: Url | None = None,
    dry_run: bool = False,
) -> TakedownResult:
    """Remove pictures from a release, as `privsieve takedown`; lines that name no picture are in `unknown`.

    PrivsieveError if the list or the release does not allow it; IncompleteError if the release has changed.
    """
    return run_takedown(asked(TakedownRequest, locals()))


@takes(ApplyRemovalsRequest)
def apply_removals(
    copy: Url, listed: Url, *, pdq_distance: int = MAX_DISTANCE, dry_run: bool = False
) -> RemovalsResult:
    """Remove from an older copy of a release's shards what the release has removed, as `privsieve apply-removals`.

    PrivsieveError if the list or the copy does not allow it.
    """
    return run_apply_removals(asked(ApplyRemovalsRequest, locals()))


@takes(PurgeRequest)
def purge(run: Url, *, yes: bool = False) -> PurgeResult:
    """Delete what a run knows of single pictures and keep its figures; without `yes` only say what would be deleted.

    A study of people is purged in the same way. RunError if there is neither, or if a command works on the run.
    """
    return run_purge(asked(PurgeRequest, locals()))
