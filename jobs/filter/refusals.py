"""Where a release may not be written: over other data, inside of the input, or while another filter writes there."""

from pathlib import Path

from ingest.errors import StorageError
from ingest.formats.released import RELEASE
from ingest.storage.place import Place
from jobs.filter.plan import Plan
from jobs.filter.record import OWN_NAMES, RELEASE_LEASE, UNFINISHED, ReleaseRecord, release_record
from scoring.runs.lease import STALE_S, holder


def refuse_misplaced(out: Place, url: str, run: Place, source: Place, is_folder: bool) -> None:
    """Raise StorageError if the release would become part of the source, or its folder holds what is read or is none.

    is_folder: whether everything below `source` is part of the corpus, or only some of its files.
    """
    if out.is_local and any(above.exists() and not above.is_dir() for above in Path(out.path).parents):
        raise StorageError(f"cannot write {url}: it is below a file")
    if out.is_within(source) and (is_folder or source.is_within(out)):
        raise StorageError(f"{url} is inside the source; write the release to a folder outside of it")
    for name, read in (("source", source), ("run", run)):
        if read.is_within(out):
            raise StorageError(f"{url} holds the {name}; write the release to a folder of its own")


def refuse_own_names(plan: Plan) -> None:
    """Raise StorageError if a shard would take the name of one of the release's own files."""
    names = {share.shard.partition("/")[0] for share in plan.shares if share.num_kept} & OWN_NAMES
    if names:
        raise StorageError(f"the source holds {min(names)}, which a release has of its own; rename it and scan again")


def refuse_loss(out: Place, url: str, identity: ReleaseRecord, resume: bool, overwrite: bool) -> None:
    """Raise StorageError if data in `out` would be lost."""
    begun, finished = release_record(out.at(UNFINISHED)), release_record(out.at(RELEASE))
    is_release = begun is not None or finished is not None
    if out.exists() and not resume and not overwrite:
        raise StorageError(f"{url} exists; give a new folder, or --resume, or --overwrite")
    held = holder(out.at(RELEASE_LEASE))
    if held is not None and not held.is_stale():
        raise StorageError(
            f"{url} is being written by {held}; wait for it, or stop it "
            f"(one that was killed on another machine is given up after {STALE_S} s)"
        )
    if out.exists() and not is_release:
        _refuse_foreign(out, url, overwrite)
    if resume and is_release and begun is None:
        raise StorageError(f"{url} is finished already; use --overwrite to write it again")
    if resume and begun not in (None, identity):
        raise StorageError(
            f"{url} was begun with another run, policy or guarantee, by another version, or images were scanned "
            "again since; use --overwrite"
        )


def _refuse_foreign(out: Place, url: str, overwrite: bool) -> None:
    foreign = [name for name in (RELEASE, UNFINISHED) if out.at(name).exists()]
    why = f" (its {foreign[0]} is of something else)" if foreign else ""
    remedy = ", so --overwrite leaves it alone; remove it yourself" if overwrite else " to resume; give a new folder"
    raise StorageError(f"{url} holds no release of privsieve{why}{remedy}")
