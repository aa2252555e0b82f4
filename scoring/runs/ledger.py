"""Which slices of a run have their result, read off the names of the result files alone."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from ingest.errors import RunError
from ingest.sample import printable

HASH_DIGITS = 32

OLD_HASH_DIGITS = 12
"""In names of older versions: so few that two shards can be named to share them. Runs with such names go on."""


def file_name(shard: str, number: int, is_last: bool, ledger: "Ledger | None" = None) -> str:
    """Name of a slice's result. The hash keeps shards apart whose readable part is the same.

    ledger: of the run, needed if an older version may have begun it.

    >>> file_name("a/00000.tar", 3, True)
    'a_00000.tar-a70f6b37fc0809f77115141a7e750baa.00003-last.parquet'
    """
    return _file_name(stem_of(shard) if ledger is None else stem_in(shard, ledger), number, is_last)


def _file_name(stem: str, number: int, is_last: bool) -> str:
    return f"{stem}.{number:05d}{'-last' if is_last else ''}.parquet"


_RESULT = re.compile(
    rf"(?P<stem>.+-(?:[0-9a-f]{{{HASH_DIGITS}}}|[0-9a-f]{{{OLD_HASH_DIGITS}}}))\.(?P<number>[0-9]{{5,8}})(?P<last>-last)?\.parquet"
)

MAX_SLICES = 10**8
"""Of a shard, by the digits of their numbers: a stray file name must not make a bitmap of gigabytes."""


def result_stem(name: str) -> str:
    """The shard's part of a result's name; empty where the name is not that of a result."""
    found = _RESULT.fullmatch(name)
    return found["stem"] if found else ""


def result_number(name: str) -> int:
    """The number of the slice, from the name of its result."""
    return int(name.removesuffix(".parquet").removesuffix("-last").rpartition(".")[2])


@dataclass(frozen=True)
class Ledger:
    """Which slices have their result, by the shard's part of the file names."""

    present: dict[str, int]
    """Bit n is set where slice n has a result. One int per shard: a run may have millions of results."""

    last: dict[str, int]
    """Number of the last slice where its result is there; `CONFLICT` where two files claim the same place."""

    def __len__(self) -> int:
        """How many shards have a result."""
        return len(self.present)


CONFLICT = -1


def ledger_of(names: Iterable[str]) -> Ledger:
    """What result file names say; other names are passed over."""
    ledger = Ledger({}, {})
    for name in names:
        found = _RESULT.fullmatch(name)
        if found is None:
            continue
        stem, number = found["stem"], int(found["number"])
        bits = ledger.present.get(stem, 0)
        if bits >> number & 1:
            ledger.last[stem] = CONFLICT
        elif found["last"]:
            ledger.last[stem] = CONFLICT if stem in ledger.last else number
        ledger.present[stem] = bits | 1 << number
    return ledger


def has_any_result(shard: str, ledger: Ledger) -> bool:
    """Whether a slice of the shard has its result."""
    return stem_in(shard, ledger) in ledger.present


def finished(shard: str, ledger: Ledger) -> bool:
    """Whether every slice of the shard has its result, judged by names alone."""
    return stem_finished(stem_in(shard, ledger), ledger)


def stem_finished(stem: str, ledger: Ledger) -> bool:
    """As `finished`, for the shard's part of the names."""
    last = ledger.last.get(stem, CONFLICT)
    return last != CONFLICT and ledger.present[stem] == (1 << last + 1) - 1


def has_result(shard: str, number: int, is_last: bool, ledger: Ledger) -> bool:
    """Whether this slice of the shard has its result."""
    stem = stem_in(shard, ledger)
    return bool(ledger.present.get(stem, 0) >> number & 1) and (ledger.last.get(stem) == number) == is_last


def result_names(shard: str, ledger: Ledger) -> list[str]:
    """Names of the shard's result files that are there, in the order of the slices."""
    stem = stem_in(shard, ledger)
    bits, last = ledger.present.get(stem, 0), ledger.last.get(stem)
    return [_file_name(stem, n, n == last) for n in range(bits.bit_length()) if bits >> n & 1]


def only_shards(shards: Iterable[str], ledger: Ledger) -> Ledger:
    """What is known of these shards, to hand to a worker that needs no others."""
    stems = [stem for shard in shards if (stem := stem_in(shard, ledger)) in ledger.present]
    return Ledger({s: ledger.present[s] for s in stems}, {s: ledger.last[s] for s in stems if s in ledger.last})


def stems_of_others(shards: Iterable[str], ledger: Ledger) -> list[str]:
    """The shards' parts of the names of results that none of the shards has, sorted.

    RunError where two of the shards would share a result.
    """
    by_stem: dict[str, str] = {}
    for shard in shards:
        other = by_stem.setdefault(stem_in(shard, ledger), shard)
        if other != shard:
            raise RunError(
                f"{printable(shard)} and {printable(other)} have the same result names in this run, which an older "
                "version began; scan the source into a new run"
            )
    return sorted(ledger.present.keys() - by_stem.keys())


def stem_in(shard: str, ledger: Ledger) -> str:
    """The shard's part of the names of its results in a run: a shard that an older version began keeps its own."""
    stem = stem_of(shard)
    old = old_stem(stem)
    return old if old in ledger.present else stem


def old_stem(stem: str) -> str:
    """The stem that an older version gave the same shard; empty where this one is of an older version."""
    num_digits = len(stem.rpartition("-")[2])
    return stem[: OLD_HASH_DIGITS - HASH_DIGITS] if num_digits == HASH_DIGITS else ""


def stem_of(shard: str) -> str:
    """The shard's part of the names of its results in a new run."""
    encoded = shard.encode("utf-8", "surrogateescape")
    readable = re.sub(r"[^A-Za-z0-9._=-]+", "_", shard.encode("ascii", "replace").decode())[-60:].strip("._")
    return f"{readable or 'root'}-{hashlib.sha256(encoded).hexdigest()[:HASH_DIGITS]}"
