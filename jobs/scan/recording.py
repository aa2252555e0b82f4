"""What `run.json` says of a scan: everything that makes its rows comparable with those of another scan.

Also what a scan says at its end: why images have no row.
"""

import os
from collections.abc import Iterator, Sequence
from typing import Any

from ingest import __version__
from ingest.errors import RunError, SourceError, number_of
from ingest.formats import Source
from ingest.sample import printable
from jobs.runtime.hash_list import NOTHING, HashList
from jobs.runtime.on_worker import code_hash
from jobs.scan.prepared import no_category
from jobs.scan.request import ScanRequest
from scoring.assessment import EngineDescription
from scoring.runs.coverage import Tally
from scoring.runs.ledger import finished, shard_ids_of_others
from scoring.runs.record import RunRecord, ScreenSettings
from scoring.runs.results import Results
from scoring.screen.model import FittedScreen
from scoring.screen.record import ScreenRecord
from scoring.table import LISTED
from scoring.taxonomy import TAXONOMY


def record_of(
    request: ScanRequest,
    source: Source,
    engine: EngineDescription,
    hash_list: HashList = NOTHING,
    screen: FittedScreen | None = None,
) -> RunRecord:
    """Return the record of a scan. SourceError if a name has bytes that run.json cannot hold."""
    return RunRecord(
        privsieve=__version__,
        code=code_hash(),
        source=_unicode(_absolute(request.source)),
        format=source.format,
        category=None if request.category is None else _unicode(request.category),
        sample=request.sample,
        seed=None if request.sample is None else request.seed or 0,
        limit=request.limit,
        per_category=request.per_category,
        shards=request.shards,
        num_source_shards=None if request.shards is None else len(source.shards),
        labels=None if source.class_list is None else source.class_list.sha256,
        caption_words=None if source.keyword_list is None else source.keyword_list.sha256,
        pdq=request.pdq or hash_list.needs_pdq,
        hash_list=None if request.hash_list is None else hash_list.digest,
        screen=None if screen is None else _screen(screen.record, screen.sha256),
        max_pixels=request.max_pixels_in,
        max_frames=request.max_frames,
        taxonomy=TAXONOMY.version,
        engine=_comparable(engine),
        is_fake=engine.is_fake,
    )


def _screen(record: ScreenRecord, sha256: str) -> ScreenSettings:
    level_1 = next((bound.miss_high for bound in record.levels if bound.level == 1), None)
    return ScreenSettings(
        sha256=sha256,
        target_miss=record.target_miss,
        confidence=record.confidence,
        miss_high=record.bound.miss_high,
        miss_high_level_1=level_1,
        guard_share=record.guard_share,
    )


def _comparable(description: EngineDescription) -> dict[str, Any]:
    return {
        "name": description.name,
        "protocol": description.protocol,
        "assessed": list(description.assessed),
        # Left out if empty, so that runs which began before this key existed can be continued.
        **({"only_affirmed": list(description.presence_only)} if description.presence_only else {}),
        **({"uses_caption": True} if description.uses_caption else {}),
        "weights": description.weights,
        "versions": description.versions,
        "max_side_px": description.max_side_px,
    }


def _absolute(source: str) -> str:
    return source if "://" in source else os.path.abspath(os.path.expanduser(source))


def _unicode(text: str) -> str:
    """Return the text. SourceError if run.json could not hold it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SourceError(
            f"{printable(text)} has bytes that are not UTF-8, as run.json is; rename it, or give a link to it"
        ) from None
    return text


def refuse_other_shards(run_url: str, shards: list[str], listed: Results) -> None:
    """Raise RunError if the source lost shards that have rows, or a compacted run, which is closed, would get more."""
    gone = shard_ids_of_others(shards, listed.ledger)
    if gone:
        are = "is" if len(gone) == 1 else "are"
        raise RunError(
            f"{number_of(len(gone), 'shard')} that {run_url} has rows of {are} gone from the source "
            f"({printable(gone[0])} first); "
            "restore them, or scan the source into a new run"
        )
    new = [shard for shard in shards if not finished(shard, listed.ledger)]
    if new and listed.ranges is not None:
        raise RunError(
            f"{run_url} is compacted, and the source has {number_of(len(new), 'shard')} more "
            f"({printable(new[0])} first); scan them into a run of their own"
        )


def incomplete(
    run_url: str,
    shards: Sequence[str],
    missing: Sequence[str],
    changed: Sequence[str],
    tally: Tally,
    num_chosen: int | None,
    failures: Sequence[str],
) -> str | None:
    """Return why the run lacks rows, in one line that says what to do; None if it is complete.

    missing: the shards with slices without a result. changed: printable names of shards that changed between two scans.
    num_chosen: images that were to be scanned; None for all. failures: why slices have no result.
    """
    if changed:
        return (
            f"{changed[0]} changed between two scans of this run ({number_of(len(changed), 'such shard')}): remove its "
            f"results from {run_url}/scores and run the same scan again, or scan into a new run"
        )
    if missing:
        why = f" ({failures[0]})" if failures else ""
        return (
            f"{len(missing)} of {number_of(len(shards), 'shard')} have images without a row, {printable(missing[0])} "
            f"first{why}; `privsieve status {run_url}` lists them; run the same scan again to continue"
        )
    if num_chosen not in (None, tally.num_rows):
        return (
            f"{tally.num_rows} images have a row and {num_chosen} were chosen: the source changed between two scans of "
            "this run; scan into a new run"
        )
    return None


def category_notices(source: Source, tally: Tally) -> Iterator[str]:
    """Yield a line for each way in which images lack a category."""
    num_named = tally.num_images - tally.reasons.get(LISTED, 0)
    if source.class_list is not None and tally.num_with_category < num_named:
        without = number_of(num_named - tally.num_with_category, "image")
        yield f"{without} of {tally.num_images:,} without a category: {source.class_list.url} does not name them"
    if source.category is not None and num_named and not tally.num_with_category:
        yield f"the category is null in every row: {no_category(source, source.category)}"
