"""A slice is the unit of work: a run of samples of one shard, cut by content alone.

The same input always gives the same slices, so a slice's result file has a name that is known beforehand, and a
file that is there means that the slice is done.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

MAX_SAMPLES = 1024
MAX_BYTES = 64 * 2**20
"""A slice ends at so many samples or bytes of encoded images, whichever comes first (one sample at least)."""

Locator = dict[str, Any]
"""Where a sample lies in its shard, in the words of its format; holds at least `index`. JSON types only."""


@dataclass(frozen=True)
class Slice:
    """shard: name relative to the source. number: from 0. is_last: no slice of the shard follows.

    locators: one per sample, in order; what `Format.read` needs to find the sample again.
    """

    shard: str
    number: int
    is_last: bool
    locators: list[Locator]

    def to_json(self) -> str:
        """ASCII only: undecodable file names survive as lone surrogate escapes."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "Slice":
        return Slice(**json.loads(text))


def cut(shard: str, samples: Iterable[tuple[Locator, int]]) -> Iterator[Slice]:
    """(locator, encoded size in bytes) of the samples of one shard, in order -> its slices.

    An empty shard gives one empty slice, so that every shard leaves a trace.
    """
    number, locators, num_bytes = 0, list[Locator](), 0
    for locator, size in samples:
        if locators and (len(locators) >= MAX_SAMPLES or num_bytes + size > MAX_BYTES):
            yield Slice(shard, number, False, locators)
            number, locators, num_bytes = number + 1, [], 0
        locators.append(locator)
        num_bytes += size
    yield Slice(shard, number, True, locators)


def file_name(shard: str, number: int, is_last: bool) -> str:
    """Name of a slice's result. The hash keeps shards apart whose readable part is the same.

    >>> file_name("a/00000.tar", 3, True)
    'a_00000.tar-6a8e8e1a27b3.00003-last.parquet'
    """
    return f"{_stem(shard)}.{number:05d}{'-last' if is_last else ''}.parquet"


def finished(shard: str, done: dict[str, set[str]]) -> bool:
    """Whether every slice of the shard has its result, judged by names alone. `done`: see `by_shard`."""
    parts = done.get(_stem(shard), set())
    last = [int(p.removesuffix("-last")) for p in parts if p.endswith("-last")]
    return len(last) == 1 and all(f"{n:05d}" in parts for n in range(last[0])) and len(parts) == last[0] + 1


def result_names(shard: str, done: dict[str, set[str]]) -> list[str]:
    """Names of the shard's result files that are there, in the order of the slices."""
    return [f"{_stem(shard)}.{part}.parquet" for part in sorted(done.get(_stem(shard), set()))]


def by_shard(names: Iterable[str]) -> dict[str, set[str]]:
    """Result file names -> {shard's part of the name: {"00000", "00001-last"}}."""
    grouped: dict[str, set[str]] = {}
    for name in names:
        matched = re.fullmatch(r"(.*)\.(\d{5,}(?:-last)?)\.parquet", name)
        if matched:
            grouped.setdefault(matched[1], set()).add(matched[2])
    return grouped


def _stem(shard: str) -> str:
    encoded = shard.encode("utf-8", "surrogateescape")
    readable = re.sub(r"[^A-Za-z0-9._=-]+", "_", shard.encode("ascii", "replace").decode())[-60:].strip("._")
    return f"{readable or 'root'}-{hashlib.sha256(encoded).hexdigest()[:12]}"
