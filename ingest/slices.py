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
    return _file_name(stem_of(shard), number, is_last)


def _file_name(stem: str, number: int, is_last: bool) -> str:
    return f"{stem}.{number:05d}{'-last' if is_last else ''}.parquet"


@dataclass(frozen=True)
class Done:
    """Which slices have their result. Keys are the shards' parts of the file names.

    present: bit n is set where slice n has a result; an int per shard keeps millions of results small.
    last: number of the last slice where its result is there, `CONFLICT` where two files claim the same place.
    """

    present: dict[str, int]
    last: dict[str, int]

    def __len__(self) -> int:
        """How many shards have a result."""
        return len(self.present)


CONFLICT = -1
MAX_DIGITS = 8
"""Of a slice's number: a stray file name must not make a bitmap of gigabytes."""


def by_shard(names: Iterable[str]) -> Done:
    """What result file names tell; other names are passed over."""
    done = Done({}, {})
    for name in names:
        stem, _, part = name.removesuffix(".parquet").rpartition(".")
        digits = part.removesuffix("-last")
        if not stem or not name.endswith(".parquet") or not 5 <= len(digits) <= MAX_DIGITS or not digits.isdecimal():
            continue
        number, bits = int(digits), done.present.get(stem, 0)
        if bits >> number & 1:
            done.last[stem] = CONFLICT
        elif len(part) > len(digits):
            done.last[stem] = CONFLICT if stem in done.last else number
        done.present[stem] = bits | 1 << number
    return done


def finished(shard: str, done: Done) -> bool:
    """Whether every slice of the shard has its result, judged by names alone."""
    return stem_finished(stem_of(shard), done)


def stem_finished(stem: str, done: Done) -> bool:
    """As `finished`, for the shard's part of the names."""
    last = done.last.get(stem, CONFLICT)
    return last != CONFLICT and done.present[stem] == (1 << last + 1) - 1


def has_result(shard: str, number: int, is_last: bool, done: Done) -> bool:
    """Whether this slice of the shard has its result."""
    stem = stem_of(shard)
    return bool(done.present.get(stem, 0) >> number & 1) and (done.last.get(stem) == number) == is_last


def result_names(shard: str, done: Done) -> list[str]:
    """Names of the shard's result files that are there, in the order of the slices."""
    stem = stem_of(shard)
    bits, last = done.present.get(stem, 0), done.last.get(stem)
    return [_file_name(stem, n, n == last) for n in range(bits.bit_length()) if bits >> n & 1]


def only(shards: Iterable[str], done: Done) -> Done:
    """What is known of these shards, to hand to a worker that needs no others."""
    stems = [stem for stem in map(stem_of, shards) if stem in done.present]
    return Done({s: done.present[s] for s in stems}, {s: done.last[s] for s in stems if s in done.last})


def stem_of(shard: str) -> str:
    """The shard's part of the names of its results."""
    encoded = shard.encode("utf-8", "surrogateescape")
    readable = re.sub(r"[^A-Za-z0-9._=-]+", "_", shard.encode("ascii", "replace").decode())[-60:].strip("._")
    return f"{readable or 'root'}-{hashlib.sha256(encoded).hexdigest()[:12]}"
