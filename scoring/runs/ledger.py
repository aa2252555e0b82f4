"""Which slices of a run have their result, read from the names of the result files alone.

A result is named `SHARD_ID.NUMBER.parquet`, or `SHARD_ID.NUMBER-last.parquet` for the last slice of its shard.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

HASH_DIGITS = 32


def result_name(shard: str, number: int, is_last: bool) -> str:
    """Return the name of a slice's result. The hash in it keeps shards apart whose readable part is the same.

    >>> result_name("a/00000.tar", 3, True)
    'a_00000.tar-a70f6b37fc0809f77115141a7e750baa.00003-last.parquet'
    """
    return f"{shard_id_of(shard)}.{number:05d}{'-last' if is_last else ''}.parquet"


_RESULT = re.compile(rf"(?P<shard_id>.+-[0-9a-f]{{{HASH_DIGITS}}})\.(?P<number>[0-9]{{5,8}})(?P<last>-last)?\.parquet")

MAX_SLICES = 10**8
"""Limit of slices of one shard, by the digits of their numbers. Without a limit, one stray file name could make
`Ledger.present` take gigabytes."""


def shard_id_of_result(name: str) -> str:
    """Return the shard's part of a result's name; empty for other names."""
    match = _RESULT.fullmatch(name)
    return match["shard_id"] if match else ""


def result_number(name: str) -> int:
    """Return the number of the slice from the name of its result."""
    return int(name.removesuffix(".parquet").removesuffix("-last").rpartition(".")[2])


@dataclass(frozen=True)
class Ledger:
    """Which slices have their result, by the shard's part of the file names."""

    present: dict[str, int]
    """Bit n is set if slice n has a result. One int per shard, since a run may have millions of results."""

    last: dict[str, int]
    """Number of the last slice if it has a result; `CONFLICT` if two files claim the same number."""

    def __len__(self) -> int:
        """Number of shards with a result."""
        return len(self.present)


CONFLICT = -1


def ledger_of(names: Iterable[str]) -> Ledger:
    """Build the ledger from the names of result files; other names are skipped."""
    ledger = Ledger({}, {})
    for name in names:
        match = _RESULT.fullmatch(name)
        if match is None:
            continue
        shard_id, number = match["shard_id"], int(match["number"])
        bits = ledger.present.get(shard_id, 0)
        if bits >> number & 1:
            ledger.last[shard_id] = CONFLICT
        elif match["last"]:
            ledger.last[shard_id] = CONFLICT if shard_id in ledger.last else number
        ledger.present[shard_id] = bits | 1 << number
    return ledger


def has_any_result(shard: str, ledger: Ledger) -> bool:
    """Return whether at least one slice of the shard has its result."""
    return shard_id_of(shard) in ledger.present


def finished(shard: str, ledger: Ledger) -> bool:
    """Return whether every slice of the shard has its result, judged by names alone."""
    return finished_by_id(shard_id_of(shard), ledger)


def finished_by_id(shard_id: str, ledger: Ledger) -> bool:
    """Return the same as `finished` for a shard given by its id."""
    # All bits up to the last slice must be set: results may arrive in any order, so a gap means an unfinished slice.
    last = ledger.last.get(shard_id, CONFLICT)
    return last != CONFLICT and ledger.present[shard_id] == (1 << last + 1) - 1


def has_result(shard: str, number: int, is_last: bool, ledger: Ledger) -> bool:
    """Return whether this slice of the shard has its result."""
    shard_id = shard_id_of(shard)
    return bool(ledger.present.get(shard_id, 0) >> number & 1) and (ledger.last.get(shard_id) == number) == is_last


def result_names(shard: str, ledger: Ledger) -> list[str]:
    """Return the names of the shard's existing result files, in the order of the slices."""
    shard_id = shard_id_of(shard)
    bits, last = ledger.present.get(shard_id, 0), ledger.last.get(shard_id)
    return [result_name(shard, n, n == last) for n in range(bits.bit_length()) if bits >> n & 1]


def only_shards(shards: Iterable[str], ledger: Ledger) -> Ledger:
    """Return the part of the ledger about these shards, to send to a worker that needs no others."""
    shard_ids = [shard_id for shard in shards if (shard_id := shard_id_of(shard)) in ledger.present]
    return Ledger({s: ledger.present[s] for s in shard_ids}, {s: ledger.last[s] for s in shard_ids if s in ledger.last})


def shard_ids_of_others(shards: Iterable[str], ledger: Ledger) -> list[str]:
    """Return the ids of the ledger that belong to none of the shards, sorted."""
    return sorted(ledger.present.keys() - {shard_id_of(shard) for shard in shards})


def shard_id_of(shard: str) -> str:
    """Return the shard's part of the names of its results."""
    encoded = shard.encode("utf-8", "surrogateescape")
    readable = re.sub(r"[^A-Za-z0-9._=-]+", "_", shard.encode("ascii", "replace").decode())[-60:].strip("._")
    return f"{readable or 'root'}-{hashlib.sha256(encoded).hexdigest()[:HASH_DIGITS]}"
