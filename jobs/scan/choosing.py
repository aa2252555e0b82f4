"""Which samples a request chooses, and what the draw finds out about the source."""

from collections.abc import Callable

from ingest.errors import SourceError, number_of
from ingest.formats import Source
from jobs.runtime.executors import Executor
from jobs.scan.request import ScanRequest
from jobs.scan.selection import Chosen, draw, draw_per_category, draw_shards, first


def chosen_samples(
    request: ScanRequest, source: Source, executor: Executor, notice: Callable[[str], None]
) -> tuple[Chosen, dict[str, int]]:
    """The samples to scan, None for all; and fields of the run's record that follow from the draw.

    To draw from all samples, every shard is listed first.
    """
    if request.limit is not None:
        return first(*_first_counts(source, request.limit), request.limit), {}
    if request.sample is None:
        return None, {}
    shards = list(source.shards)
    if executor == "inline":
        from jobs.scan.inline import categories_of, count_samples
    else:
        from jobs.scan.on_ray import categories_of, count_samples
    if request.per_category:
        categories = categories_of(source, shards)
        chosen, num_without = draw_per_category(shards, categories, request.sample, request.seed or 0)
        if num_without:
            notice(f"{number_of(num_without, 'image')} without a category cannot be drawn")
        return chosen, {"drawn": sum(map(len, chosen.values()))}
    if request.shards is None:
        return draw(shards, count_samples(source, shards), request.sample, request.seed or 0), {}
    shards = draw_shards(shards, request.shards, request.seed or 0)
    counts = count_samples(source, shards)
    if request.sample > sum(counts):
        raise SourceError(
            f"--sample {request.sample}: the {number_of(len(shards), 'drawn shard')} hold only "
            f"{number_of(sum(counts), 'image')}; draw more with --shards, or fewer with --sample"
        )
    return draw(shards, counts, request.sample, request.seed or 0), {"num_in_shards": sum(counts)}


def _first_counts(source: Source, limit: int) -> tuple[list[str], list[int]]:
    """The first shards and how many samples each has, as many as hold `limit` samples."""
    counts: list[int] = []
    for shard in source.shards:
        counts.append(sum(len(slice_.locators) for slice_ in source.slices(shard)))
        if sum(counts) >= limit:
            break
    return list(source.shards[: len(counts)]), counts
