"""What is said at the end of a scan: why images have no row, and which categories no image has."""

from collections.abc import Iterator, Sequence

from ingest.errors import number_of
from ingest.formats import Source
from ingest.sample import printable
from jobs.scan.prepared import no_category
from scoring.runs.reconcile import Tally
from scoring.table import LISTED


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
