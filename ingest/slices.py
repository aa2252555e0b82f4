"""A slice is the unit of work: a run of samples of one shard, cut by content alone.

The same input always gives the same slices. So the name of a slice's result file is known beforehand, and if the file
exists the slice is done.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

MAX_SAMPLES = 1024

MAX_BYTES = 64 * 2**20
"""A slice ends at `MAX_SAMPLES` or at this size of encoded images, whichever comes first; it holds at least one
sample."""

Locator = dict[str, Any]
"""Position of a sample in its shard. Its keys depend on the format, except `index`; JSON types only."""


LATER_KEYS = frozenset(["txt"])
"""Keys of locators that older versions did not write. They repeat what other keys say."""


@dataclass(frozen=True)
class Slice:
    """Some consecutive samples of one shard."""

    shard: str
    """Name relative to the source."""

    number: int
    """Position among the slices of the shard, from 0."""

    is_last: bool
    """Whether it is the last slice of the shard."""

    locators: list[Locator]
    """One locator per sample, in order, by which `Format.read` finds the sample again."""

    def to_json(self) -> str:
        """Return JSON in ASCII: undecodable file names survive as lone surrogate escapes."""
        return json.dumps(asdict(self))

    def listing_json(self) -> str:
        """Return the text whose hash identifies a shard's listing: the same as in versions without `LATER_KEYS`."""
        locators = [
            {key: value for key, value in locator.items() if key not in LATER_KEYS} for locator in self.locators
        ]
        return replace(self, locators=locators).to_json()

    @staticmethod
    def from_json(text: str) -> "Slice":
        return Slice(**json.loads(text))


def cut(shard: str, samples: Iterable[tuple[Locator, int]]) -> Iterator[Slice]:
    """Cut the samples of one shard, in order, into slices. samples: (locator, encoded size in bytes).

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
