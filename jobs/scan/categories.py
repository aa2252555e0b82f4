"""Whether `--category` names something that the samples of a corpus have, as far as the first ones show."""

from contextlib import suppress

from ingest.errors import SourceError, StorageError, did_you_mean, number_of
from ingest.formats import Source, webdataset
from ingest.formats.webdataset import CategoryProbe
from ingest.sample import printable

MAX_FIELDS = 20
"""Limit on the JSON fields that are listed if the category is none of them."""

NUM_SHARDS = 3
"""Number of probed shards, spread over the corpus."""


def check_category(source: Source) -> str | None:
    """A line where the samples give two categories that differ, else None.

    SourceError if none of the probed samples has what `--category` names. Parquet columns are checked as
    the source is opened, and folder trees take no category.
    """
    if source.format != "webdataset" or source.class_list is not None or source.keyword_list is not None:
        return None
    probes = _looked_at(source, 1 if source.category is None else NUM_SHARDS)
    num_samples = sum(beside.num_samples for beside in probes)
    fields = list(dict.fromkeys(name for beside in probes for name in beside.fields))
    if source.category is None:
        num_contradicting = sum(beside.num_contradicting for beside in probes)
        if not num_contradicting:
            return None
        return (
            f"the .cls member and the JSON field category differ in {num_contradicting} of the first "
            f"{number_of(num_samples, 'sample')}; .cls is taken: choose with --category cls or --category category"
        )
    named = (source.category, source.category.partition(".")[0])  # a nested field may be missing in these samples
    is_there = any(beside.num_with_category for beside in probes) or any(printable(name) in fields for name in named)
    if not num_samples or is_there:
        return None
    probed = f"none of the {number_of(num_samples, 'sample')} probed"
    if source.category == "cls":
        raise SourceError(f"--category cls: {probed} has a .cls member that holds anything")
    near = did_you_mean(source.category, fields)
    raise SourceError(f'--category "{source.category}": {probed} has that JSON field{near}; {_there(fields, "their")}')


def no_category(source: Source, category: str) -> str:
    """Why no sample has a category, as far as its name shows; names of fields, never what they hold."""
    if source.format != "webdataset":
        return f'the column "{category}" holds nothing'
    if category == "cls":
        return "no sample has a .cls member that holds anything"
    fields = [name for beside in _looked_at(source, 1) for name in beside.fields]
    near = "" if category in fields else did_you_mean(category, fields)
    missing = f'no sample has a text or whole number in the JSON field "{category}"{near}'
    there = _there(fields, "the first samples'")
    return f"{missing}; {there}"


def _there(fields: list[str], whose: str) -> str:
    return f"{whose} fields are: {', '.join(fields[:MAX_FIELDS])}" if fields else "the first have no JSON"


def _looked_at(source: Source, num_shards: int) -> list[CategoryProbe]:
    """Probe the first shard, or shards spread from the first to the last; the scan reports unreadable ones."""
    last = len(source.shards) - 1
    numbers = sorted({last * n // max(1, num_shards - 1) for n in range(num_shards)})
    probes = list[CategoryProbe]()
    for number in numbers:
        with suppress(StorageError):
            probes.append(webdataset.category_probe(source.root, source.shards[number], source.category))
    return probes
