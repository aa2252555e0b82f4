"""Where a release may not be written: over other data, inside the input, or while another filter writes there.

Also what to know before the counts: of which images they are, and which rules may not do what was meant.
"""

import posixpath
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from ingest.errors import PrivsieveError, StorageError
from ingest.formats.released import RELEASE, RELEASE_LEASE, REMOVED, UNFINISHED, own_names_among
from ingest.storage.place import PART, Place
from jobs.releases.contents import refuse_others
from jobs.releases.files import identity_of, record_of
from jobs.releases.plan import Plan
from jobs.releases.record import ReleaseIdentity
from reports.report.opened import open_run
from scoring.policies.policy import Policy
from scoring.privacy import LEVEL_0_ADVICE, PROBABILITIES, matches_level_0_too, unanswered_columns
from scoring.runs.lease import STALE_S, holder
from scoring.runs.record import RunRecord
from scoring.runs.rows import scope_of

_JUST_BEGUN = re.compile(
    rf"{re.escape(RELEASE_LEASE)}|({re.escape(RELEASE_LEASE)}|{re.escape(UNFINISHED)})\.[0-9a-f]{{8}}{re.escape(PART)}"
)
"""Name of a file that a filter leaves that was killed before its record was complete (`Place.create`)."""


def refuse_misplaced(out: Place, url: str, run: Place, source: Place, is_folder: bool) -> None:
    """Raise StorageError if the release would be inside the source or the run, or hold them.

    is_folder: whether everything below `source` is part of the corpus, or only some of its files.
    """
    if out.is_local and any(above.exists() and not above.is_dir() for above in Path(out.path).parents):
        raise StorageError(f"cannot write {url}: it is below a file")
    if out.is_within(source) and (is_folder or source.is_within(out)):
        raise StorageError(f"{url} is inside the source; write the release to a folder outside of it")
    for name, read in (("source", source), ("run", run)):
        if read.is_within(out):
            raise StorageError(f"{url} holds the {name}; write the release to a folder of its own")
    if out.is_within(run):
        raise StorageError(f"{url} is inside the run; write the release to a folder outside of it")


def refuse_own_names(plan: Plan) -> None:
    """Raise StorageError if a shard would take the name of one of the release's own files."""
    names = own_names_among(share.shard for share in plan.shares if share.num_kept)
    if names:
        raise StorageError(f"the source holds {names[0]}, which a release has of its own; rename it and scan again")


def refuse_loss(out: Place, url: str, source: Place, identity: ReleaseIdentity, resume: bool, overwrite: bool) -> None:
    """Raise StorageError if data in `out` would be lost. source: where the pictures are."""
    begun = identity_of(out.at(UNFINISHED))
    is_release = begun is not None or _is_finished(out)
    if out.exists() and not resume and not overwrite:
        raise StorageError(f"{url} exists; give a new folder, or --resume, or --overwrite")
    worker = holder(out.at(RELEASE_LEASE))
    if worker is not None and not worker.is_stale():
        raise StorageError(
            f"{url} is being written by {worker}; wait for it, or stop it "
            f"(one that was killed on another machine is given up after {STALE_S} s)"
        )
    if out.exists() and not is_release and not _was_just_begun(out):
        foreign = [name for name in (RELEASE, UNFINISHED) if out.at(name).exists()]
        why = f" (its {foreign[0]} is of something else)" if foreign else ""
        remedy = (
            ", so --overwrite leaves it alone; remove it yourself" if overwrite else " to resume; give a new folder"
        )
        raise StorageError(f"{url} holds no release of privsieve{why}{remedy}")
    if overwrite and is_release:
        refuse_others(out, url, source)
        if out.at(REMOVED).exists():
            raise StorageError(
                f"{url} has taken pictures down, and --overwrite would bring them back; write to another folder with "
                f"--previous {url}, or remove {url}"
            )
    if resume and is_release and begun is None:
        raise StorageError(f"{url} is finished already; use --overwrite to write it again")
    if resume and begun not in (None, identity):
        raise StorageError(
            f"{url} was begun with another run, policy or guarantee, by another version, or images were scanned "
            "again since; use --overwrite"
        )


def _is_finished(out: Place) -> bool:
    try:
        return out.at(RELEASE).exists() and bool(record_of(out.at(RELEASE).read(), ""))
    except StorageError:
        raise
    except PrivsieveError:
        return False


def _was_just_begun(out: Place) -> bool:
    """Return whether a folder holds nothing but what a filter leaves that was killed before it wrote its record."""
    return out.is_dir() and all(
        entry["type"] == "file" and _JUST_BEGUN.fullmatch(posixpath.basename(entry["name"])) for entry in out.entries()
    )


def unanswered_in(url: str, record: RunRecord, policy: Policy) -> frozenset[str]:
    """Return the columns that are null in every scored image of a run. The run is opened only if the policy asks for
    probabilities."""
    if PROBABILITIES.isdisjoint(policy.asked):
        return unanswered_columns(record.engine)
    with open_run(url) as run:
        return run.unanswered(policy.asked)


def scope(record: RunRecord, plan: Plan) -> str:
    """Return which images of the source the decisions are of; all if `--limit` asked for more than there are."""
    num_rows = plan.counts.num_images + plan.counts.num_damaged_parts
    return scope_of(record, record.limit is not None and num_rows < record.limit, plan.damage)


def cautions(record: RunRecord, plan: Plan, policy: Policy, unanswered: Collection[str]) -> Iterator[str]:
    yield scope(record, plan)
    if plan.damage.caution:
        yield plan.damage.caution
    if record.screen is not None:
        yield record.screen.caution
    if record.made_up:
        yield record.made_up
    for rule, columns in policy.blind_rules(unanswered).items():
        asked = ", ".join(columns)
        yield f'  rule "{rule}" decided nothing: the {record.engine["name"]} engine answers nothing about {asked}'
    for chosen_rule, sql in zip(policy.rules, policy.sql, strict=True):
        if chosen_rule.then != "keep" and matches_level_0_too(sql):
            yield f'  rule "{chosen_rule.name}" {LEVEL_0_ADVICE}'
